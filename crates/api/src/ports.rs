//! What the routes need of the house that neither the store nor intake gives them.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_domain::{Amount, B256, ChainId, SubmitterId, TxId};

/// Hints that something changed, for callers who wait. A hint may come too often, and a lost one costs only time: the
/// route reads the row itself, and answers at its deadline in any case.
pub trait Changes: Send + Sync + fmt::Debug {
    /// Ends when the intent may have changed since `version`. Listens from the moment of the call, not from the first poll:
    /// the route calls this first and reads the row then, so that no change falls in between.
    fn changed(&self, submitter: &SubmitterId, id: TxId, version: u32) -> BoxFuture<'static, ()>;

    /// Ends when something of the lane may have changed since the call: its cursor, or a command was executed.
    fn lane_changed(&self, submitter: &SubmitterId) -> BoxFuture<'static, ()>;
}

/// What this node knows of the chains at this moment. Answers at once, from memory.
pub trait Chains: Send + Sync + fmt::Debug {
    /// Every chain of the config, in its order.
    fn all(&self) -> Vec<ChainInfo>;

    /// Number of the newest linked block.
    fn head_number(&self, chain: &ChainId) -> Option<u64>;

    /// As last seen; None if this node has not looked.
    fn balance(&self, submitter: &SubmitterId) -> Option<Amount>;
}

#[derive(Clone, Debug)]
pub struct ChainInfo {
    pub id: ChainId,
    pub head: Option<HeadInfo>,
    /// Number of the newest final block.
    pub final_number: Option<u64>,
    pub endpoints: Vec<EndpointInfo>,
}

#[derive(Clone, Copy, Debug)]
pub struct HeadInfo {
    pub number: u64,
    pub hash: B256,
    /// How long ago it was seen.
    pub age: Duration,
}

#[derive(Clone, Debug)]
pub struct EndpointInfo {
    /// For people. Never the whole URL, which may hold a key.
    pub name: String,
    pub healthy: bool,
    pub head_number: Option<u64>,
}

/// Where waiting comes from, so that tests and the simulator can bring their own time.
pub trait Timer: Send + Sync + fmt::Debug {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;
}

/// The timer of the running program.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemTimer;

impl Timer for SystemTimer {
    #[expect(clippy::disallowed_methods, reason = "this is the timer that every route is given")]
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}
