//! The ports of the routes besides store and intake.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_chain::{EndpointStatus, UnreadableTx};
use gapless_domain::{
    AccountFacts, Address, Authorization, BlockRef, Bytes, ChainId, NoncePolicy, Outline, Protection, SignedPlan,
    SubmitterId, TxId,
};
use gapless_wire::FinalityName;

/// Hints of changes, for callers who wait. Extra hints are harmless, and a lost hint costs only time: the route reads
/// the row itself and answers at its deadline in any case.
pub trait ChangeHints: Send + Sync + fmt::Debug {
    /// Ends when the intent may have changed since `version`. Listens from the call on, not from the first poll: the
    /// route calls this first and then reads the row, so that no change falls in between.
    fn changed(&self, submitter: &SubmitterId, id: TxId, version: u32) -> BoxFuture<'static, ()>;

    /// Ends when the lane may have changed since the call: its cursor, or an executed command.
    fn lane_changed(&self, submitter: &SubmitterId) -> BoxFuture<'static, ()>;
}

/// This node's current knowledge of the chains. All answers come from memory, except [`Chains::account`].
pub trait Chains: Send + Sync + fmt::Debug {
    /// Every chain of the config, in its order.
    fn all(&self) -> Vec<ChainInfo>;

    /// `None` if the chain is not in the config.
    fn one(&self, chain: &ChainId) -> Option<ChainInfo>;

    /// The newest linked block.
    fn head(&self, chain: &ChainId) -> Option<HeadInfo>;

    /// The finality violation of the chain, if there is one.
    fn trouble(&self, chain: &ChainId) -> Option<Protection>;

    /// The chain's current data of an account, or the last known data if there is no answer within seconds. Concurrent
    /// callers share one request.
    fn account(&self, submitter: &SubmitterId) -> BoxFuture<'_, Option<AccountFacts>>;

    /// Decodes signed bytes of any signer; `None` if the chain is not in the config.
    fn read_signed(&self, chain: &ChainId, raw: &Bytes) -> Option<Result<SignedPlan, UnreadableTx>>;

    /// The effect and the worst cost of signed bytes; `None` if the chain is not in the config or cannot read them.
    fn outline(&self, chain: &ChainId, raw: &Bytes) -> Option<Outline>;

    /// The account that signed an authorization (EIP-7702); `None` if the signature is invalid.
    fn authority(&self, authorization: &Authorization) -> Option<Address>;

    /// This node's nonce policy of a submitter; `None` if it is not in the config.
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
    /// Number of hashes that this node looks for.
    pub open_hashes: usize,
    /// Number of lanes of the chain that run on this node.
    pub lanes: usize,
    pub endpoints: Vec<EndpointStatus>,
}

#[derive(Clone, Copy, Debug)]
pub struct HeadInfo {
    pub block: BlockRef,
    /// Time since this block was last seen as the newest.
    pub age: Duration,
}
