//! The null chain: a chain without an EVM that accepts sends and mines them at once. It exists for load measurements
//! only.
//!
//! - [`NullChain`] is the chain. [`NullChain::serve`] answers JSON-RPC, and [`NullChain::make_blocks`] makes blocks.
//!   The caller must drive both futures.
//! - [`NullOptions`] are the chain's block time and latency.
//!
//! The null chain shares the machine with the measured process, so it does as little as possible: **it takes the
//! recipient of a transaction as its sender**, because recovering the sender from the signature would cost more than
//! everything else. Clients must send from an account to itself. Signatures are not checked, every account has enough
//! funds, every transaction succeeds, and the base fee never changes.
//!
//! A request passes `rpc` (the transport of the dev chain) → `connection` → `call` → `core` (pool and blocks) →
//! `render` (JSON).
//!
//! Architecture invariant: only `clock` waits or reads the time. The null chain and the dev chain's core do not use
//! each other; they share the transport and the error types.

mod account;
mod block;
mod call;
mod clock;
mod connection;
mod core;
mod render;
mod tx;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Notify, broadcast};

use self::block::NullBlock;
use self::core::NullCore;
use crate::call_counter::CallCounter;
use crate::genesis::DEV_CHAIN_ID;
use crate::rpc::RpcLimits;

/// Heads that a subscriber may be behind before its connection is closed.
const MAX_UNHEARD_HEADS: usize = 1_024;
/// Maximum calls in one batch. More than geth allows, because batch limits are not measured here.
const MAX_BATCH_CALLS: usize = 10_000;
/// Maximum bytes of one request: enough for a full batch with call data.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// The limits of the transport.
const LIMITS: RpcLimits = RpcLimits {
    body_bytes: MAX_TEXT_BYTES,
    batch_calls: MAX_BATCH_CALLS,
    connections: 1_024,
    subscriptions: 128,
    endpoints: 64,
    endpoint_name_bytes: 64,
};

/// Configuration of a null chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullOptions {
    pub chain_id: u64,
    /// Minimum time between two blocks.
    pub block_time: Duration,
    /// Delay of every answer. Answers wait concurrently.
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

/// A chain without an EVM. Clones are handles to the same chain.
#[derive(Clone, Debug)]
pub struct NullChain {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: NullOptions,
    core: Mutex<NullCore>,
    calls: CallCounter,
    /// Notified when transactions become minable.
    work: Notify,
    heads: broadcast::Sender<Arc<NullBlock>>,
}

impl NullChain {
    pub fn new(options: NullOptions) -> Self {
        let core = Mutex::new(NullCore::new(clock::now_micros()));
        let (heads, _) = broadcast::channel(MAX_UNHEARD_HEADS);
        let shared = Shared { options, core, calls: CallCounter::default(), work: Notify::new(), heads };
        Self { shared: Arc::new(shared) }
    }

    /// Serves until `shutdown` completes, and then until the last connection is closed.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        crate::rpc::serve_any(listener, self.clone(), shutdown).await
    }

    /// Makes blocks until `shutdown` completes.
    pub async fn make_blocks(&self, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            () = shutdown => {}
            () = clock::make_blocks(self) => {}
        }
    }

    fn core(&self) -> MutexGuard<'_, NullCore> {
        self.shared.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
