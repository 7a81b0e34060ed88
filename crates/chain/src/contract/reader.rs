//! The reads of a chain: heads, blocks, receipts, accounts, and the status of its endpoints.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use alloy_primitives::{B256, Bytes};
use async_trait::async_trait;
use gapless_domain::{Amount, BlockLink, BlockRef, ChainId, NodeText, Nonce, SignedPlan, SubmitterId};

use super::ChainError;

/// Reads of one chain. They come from the endpoint with the newest head. An item that an endpoint does not have is
/// `None`. That proves nothing (P9) and is no error.
#[async_trait]
pub trait ChainReader: Send + Sync + fmt::Debug {
    fn id(&self) -> &ChainId;

    /// The newest block.
    async fn head(&self) -> Result<Header, ChainError>;

    async fn header(&self, at: HeaderAt) -> Result<Option<Header>, ChainError>;

    /// The headers at these heights, from one endpoint. The caller checks that they are linked: the chain may change
    /// between two requests.
    async fn headers(&self, numbers: RangeInclusive<u64>) -> Result<Vec<Option<Header>>, ChainError>;

    /// The wanted receipts of a block, or `None` if no endpoint has the complete block (it was orphaned, or is not
    /// there yet). Every wanted receipt of the block is in the answer. Others may be in it too.
    async fn block_receipts(&self, block: BlockRef, wanted: &Wanted<'_>) -> Result<Option<Vec<Receipt>>, ChainError>;

    /// Receipts by hash, for hashes that were found in no block.
    async fn receipts(&self, hashes: &[B256]) -> Result<Vec<Option<Receipt>>, ChainError>;

    /// The revert reasons of transactions. `None` if no endpoint can provide it.
    async fn reverts(&self, hashes: &[B256]) -> Result<Vec<Option<Revert>>, ChainError>;

    /// The blocks at these heights with the transactions of one account, from one endpoint. `None` for a block that the
    /// endpoint does not have. The caller checks that the blocks are linked. Every transaction of the account is
    /// included, encoded as bytes, with hash and sender computed from these. A transaction that
    /// [`Chain::read_signed`](super::Chain::read_signed) refuses is included too, because the chain has accepted it
    /// (its plan may lack parts). A transaction with an invalid signature or of an unknown type is an error.
    async fn sent_by(
        &self,
        account: &SubmitterId,
        numbers: RangeInclusive<u64>,
    ) -> Result<Vec<Option<SentInBlock>>, ChainError>;

    /// The state of accounts at the newest block, and their counts at `final_at`.
    async fn accounts(
        &self,
        accounts: &[SubmitterId],
        final_at: Option<BlockRef>,
    ) -> Result<Vec<AccountView>, ChainError>;

    /// Returns when there may be a new head. Without a source of notifications it never returns. It is a hint: callers
    /// also poll.
    async fn head_changed(&self);

    /// The status of each endpoint.
    fn endpoints(&self) -> Vec<EndpointStatus>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderAt {
    Number(u64),
    Hash(B256),
    /// The newest block under the `safe` tag. `None` on a chain without the tag.
    Safe,
    /// The newest block under the `finalized` tag. `None` on a chain without the tag.
    Finalized,
}

/// Whether a hash is wanted.
pub type Wanted<'a> = dyn Fn(B256) -> bool + Send + Sync + 'a;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub block: BlockRef,
    pub parent_hash: B256,
    /// The timestamp of the block, in seconds since 1970.
    pub timestamp: u64,
    /// `None` on a chain whose blocks have no base fee.
    pub base_fee: Option<u128>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub hash: B256,
    pub block: BlockRef,
    pub succeeded: bool,
    /// The work that the transaction used, and the price of one unit of it.
    pub work_used: u64,
    pub unit_price: Amount,
}

/// The return value of a reverted call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revert {
    /// The decoded data: the text of `Error(string)`, the meaning of a `Panic`, or the selector of a custom error.
    pub reason: Option<NodeText>,
    pub data: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountView {
    /// The transaction count at the newest block.
    pub latest: Nonce,
    /// The transaction count including the mempool of the node. A hint, never decisive.
    pub pending: Nonce,
    /// The transaction count at the given final block.
    pub finalized: Option<Nonce>,
    pub balance: Amount,
    /// At the newest block, nodes accept few pending transactions of the account, or its nonces can be consumed
    /// without a transaction.
    pub narrow: bool,
}

/// The transactions of one account in one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentInBlock {
    pub link: BlockLink,
    pub sent: Vec<SignedPlan>,
}

/// The status of an endpoint, without secrets: `name` is host and port, never a path, a user or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointStatus {
    pub name: String,
    pub weight: u32,
    pub health: EndpointHealth,
    pub head: Option<u64>,
    /// The time since the head changed, by the clock of this node.
    pub head_age: Option<Duration>,
    /// Blocks behind the newest credible head.
    pub lag: Option<u64>,
    /// The share of failed requests among the newest ones, in thousandths. `None` before the first request.
    pub errors_permille: Option<u32>,
    /// The smoothed latency.
    pub latency: Option<Duration>,
    pub in_flight: usize,
    /// The last failure, if it still matters.
    pub last_error: Option<String>,
}

impl EndpointStatus {
    pub fn is_healthy(&self) -> bool {
        self.health == EndpointHealth::Good
    }
}

/// The verdict on an endpoint. The current state of the chain is read from good endpoints only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointHealth {
    Good,
    /// Not checked yet.
    Unchecked,
    /// Behind others, or its head has not changed for too long.
    Lagging,
    /// Failing. It is tried again after growing pauses.
    Down,
    /// Under a rate limit.
    RateLimited,
    /// The chain id is another one.
    WrongChain,
    /// Flips between two forks.
    Flipping,
}

impl EndpointHealth {
    pub fn as_str(self) -> &'static str {
        match self {
            EndpointHealth::Good => "good",
            EndpointHealth::Unchecked => "unchecked",
            EndpointHealth::Lagging => "lagging",
            EndpointHealth::Down => "down",
            EndpointHealth::RateLimited => "rate_limited",
            EndpointHealth::WrongChain => "wrong_chain",
            EndpointHealth::Flipping => "flipping",
        }
    }
}
