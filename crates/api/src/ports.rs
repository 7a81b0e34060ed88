//! What the routes need of the house that neither the store nor intake gives them.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_chain::{EndpointStatus, UnreadableTx};
use gapless_domain::{
    AccountFacts, Address, Authorization, BlockRef, Bytes, ChainId, NoncePolicy, Outline, Protection, SignedPlan,
    SubmitterId, TxId,
};
use gapless_wire::FinalityName;

/// Hints that something changed, for callers who wait. A hint may come too often, and a lost one costs only time: the
/// route reads the row itself, and answers at its deadline in any case.
pub trait Changes: Send + Sync + fmt::Debug {
    /// Ends when the intent may have changed since `version`. Listens from the moment of the call, not from the first poll:
    /// the route calls this first and reads the row then, so that no change falls in between.
    fn changed(&self, submitter: &SubmitterId, id: TxId, version: u32) -> BoxFuture<'static, ()>;

    /// Ends when something of the lane may have changed since the call: its cursor, or a command was executed.
    fn lane_changed(&self, submitter: &SubmitterId) -> BoxFuture<'static, ()>;
}

/// What this node knows of the chains at this moment. Answers at once, from memory, but for [`Chains::account`].
pub trait Chains: Send + Sync + fmt::Debug {
    /// Every chain of the config, in its order.
    fn all(&self) -> Vec<ChainInfo>;

    /// None if it is not in the config.
    fn one(&self, chain: &ChainId) -> Option<ChainInfo>;

    /// The newest linked block.
    fn head(&self, chain: &ChainId) -> Option<HeadInfo>;

    /// Why nothing of the chain is believed any more: it contradicts what was final.
    fn trouble(&self, chain: &ChainId) -> Option<Protection>;

    /// What the chain says of an account now, or said last if there is no answer within seconds. Those who ask at once share their
    /// questions.
    fn account(&self, submitter: &SubmitterId) -> BoxFuture<'_, Option<AccountFacts>>;

    /// What signed bytes say, whoever signed them; `None` if the chain is not in the config.
    fn read_signed(&self, chain: &ChainId, raw: &Bytes) -> Option<Result<SignedPlan, UnreadableTx>>;

    /// What signed bytes of ours do and can cost; `None` if the chain is not in the config, or cannot read them.
    fn outline(&self, chain: &ChainId, raw: &Bytes) -> Option<Outline>;

    /// Whose account an authorization (EIP-7702) is for; `None` if its signature is nobody's.
    fn authority(&self, authorization: &Authorization) -> Option<Address>;

    /// How this node binds nonces of a submitter; `None` if it is not in the config.
    fn nonce_policy(&self, submitter: &SubmitterId) -> Option<NoncePolicy>;
}

#[derive(Clone, Debug)]
pub struct ChainInfo {
    pub id: ChainId,
    pub head: Option<HeadInfo>,
    /// The newest final block.
    pub final_block: Option<BlockRef>,
    pub finality: FinalityName,
    pub required_confirmations: u32,
    pub block_time: Option<Duration>,
    pub trouble: Option<Protection>,
    /// Hashes that this node looks for.
    pub open_hashes: usize,
    /// Lanes of the chain that run on this node.
    pub lanes: usize,
    pub endpoints: Vec<EndpointStatus>,
}

#[derive(Clone, Copy, Debug)]
pub struct HeadInfo {
    pub block: BlockRef,
    /// How long ago it was last seen to be the newest.
    pub age: Duration,
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
