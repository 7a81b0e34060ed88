//! The null chain: it accepts sends and mines them at once, and there is no EVM in it. It is for measuring what sends, and nothing else.
//!
//! - [`NullChain`] is the chain: [`NullChain::serve`] answers for it, [`NullChain::make_blocks`] makes its blocks. Both are futures that
//!   somebody drives.
//! - [`NullOptions`] is how quick it is.
//!
//! It shares the machine with what is measured, so it does as little as it can: **the recipient of a transaction is taken as its sender**,
//! because recovering the sender from the signature would cost more than everything else. Who wants to be understood sends from an
//! account to itself. No signature is checked, everybody is rich, every transaction succeeds, and the base fee never changes.
//!
//! A text goes `rpc` (the transport of the dev chain) → `line` → `call` → `core` (pool and blocks) → `render` (JSON).
//!
//! Architecture invariant: only `clock` waits or knows the time. Nothing in here uses the dev chain's core, and the other way round; what
//! they share is the transport and the words of errors.

mod account;
mod block;
mod call;
mod clock;
mod core;
mod line;
mod render;
mod tx;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Notify, broadcast};

use self::block::Block;
use self::core::Core;
use crate::calls::Calls;
use crate::genesis::DEV_CHAIN_ID;
use crate::rpc::RpcLimits;

/// Heads that a subscriber may be behind before its connection is closed.
const MAX_UNHEARD_HEADS: usize = 1_024;
/// Calls in one batch. More than geth's: how batches are cut is not what is measured here.
const MAX_BATCH_CALLS: usize = 10_000;
/// Bytes of one text: so many calls with some data.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// Subscriptions, connections and what else the transport limits.
const LIMITS: RpcLimits = RpcLimits {
    body_bytes: MAX_TEXT_BYTES,
    batch_calls: MAX_BATCH_CALLS,
    connections: 1_024,
    subscriptions: 128,
    endpoints: 64,
    endpoint_name_bytes: 64,
};

/// How quick a null chain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullOptions {
    pub chain_id: u64,
    /// The least time between two blocks.
    pub block_time: Duration,
    /// How long every answer waits before it goes out. Answers wait side by side.
    pub latency: Duration,
}

impl NullOptions {
    pub const DEFAULT_BLOCK_TIME: Duration = Duration::from_millis(20);
}

impl Default for NullOptions {
    fn default() -> Self {
        Self { chain_id: DEV_CHAIN_ID, block_time: Self::DEFAULT_BLOCK_TIME, latency: Duration::ZERO }
    }
}

/// A chain without an EVM. Clones are handles onto the same one.
#[derive(Clone, Debug)]
pub struct NullChain {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: NullOptions,
    core: Mutex<Core>,
    calls: Calls,
    /// Something can be mined.
    work: Notify,
    heads: broadcast::Sender<Arc<Block>>,
}

impl NullChain {
    pub fn new(options: NullOptions) -> Self {
        let core = Mutex::new(Core::new(clock::now_micros()));
        let (heads, _) = broadcast::channel(MAX_UNHEARD_HEADS);
        let shared = Shared { options, core, calls: Calls::default(), work: Notify::new(), heads };
        Self { shared: Arc::new(shared) }
    }

    /// Serves until `shutdown` is over, and then until the last connection is closed.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        crate::rpc::serve_any(listener, self.clone(), shutdown).await
    }

    /// Makes blocks until `shutdown` is over.
    pub async fn make_blocks(&self, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            () = shutdown => {}
            () = clock::make_blocks(self) => {}
        }
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.shared.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
