//! The contract: what a chain does for the rest of the house, whatever it is and however it is reached.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use gapless_domain::{
    Amount, BlockLink, BlockRef, ChainId, DiagnoseRequest, EndpointAnswer, EvmCall, Fees, MempoolSignal, NodeText,
    Nonce, Outline, Permit, SignedPlan, SignedTx, Speed, SubmitterId, TxPlan,
};

use crate::classified::Classified;

/// One chain, by way of as many endpoints as it is given.
///
/// Every list verb answers in the order of its input, one answer for each item. Reads come from the endpoint whose head is
/// newest; what an endpoint does not know is `None`, which proves nothing (P9), and never an error.
///
/// Nothing in here decides about a nonce: it is in the plan, and nobody fills one in.
#[async_trait]
pub trait Chain: Send + Sync + fmt::Debug {
    fn id(&self) -> &ChainId;

    // --- Preparing: whatever can fail here fails without a nonce. ---

    /// The gas that a call needs, executed on top of `at`. A verdict of `Reverted` is the call's own doing; every other one
    /// says that nothing is known.
    async fn estimate_gas(&self, from: &SubmitterId, call: &EvmCall, at: BlockRef) -> Result<u64, ChainError>;

    /// What inclusion costs as of the newest block. Asked for once a head, and shared by all lanes.
    async fn quote(&self) -> Result<FeeQuote, ChainError>;

    /// What the chain takes for a transaction beside its gas, at the most: the fee for its data on a rollup that bills it apart.
    async fn surcharge(&self, _call: &EvmCall) -> Result<Amount, ChainError> {
        Ok(Amount::ZERO)
    }

    // --- Signing and sending. ---

    /// Signs a plan with the submitter's key. What comes back was checked: it recovers to the submitter, and it carries
    /// this plan and no other (S09).
    async fn sign(&self, permit: &Permit, plan: &TxPlan) -> Result<SignedTx, SignError>;

    /// What signed bytes say, whoever signed them: the hash is computed and the sender recovered from the bytes themselves.
    fn read_signed(&self, raw: &Bytes) -> Result<SignedPlan, UnreadableTx>;

    /// What signed bytes of ours do, without asking who signed them; `None` if they cannot be read.
    fn outline(&self, raw: &Bytes) -> Option<Outline> {
        self.read_signed(raw).ok().map(|read| Outline::of(&read.plan))
    }

    /// Gives signed bytes to the endpoints, in the order given. One transaction has one answer, whoever was asked: accepted
    /// if any endpoint accepted; else unknown if any gave no verdict; else the least final verdict (S10). It never fails as a
    /// whole: whatever went wrong is in the answers.
    async fn broadcast(&self, txs: &[SignedTx]) -> Vec<SendAnswer>;

    /// What all endpoints' pools show of nonces of one account. It guides, and proves nothing (P9): whatever goes wrong is
    /// [`MempoolSignal::Unknown`].
    async fn diagnose(&self, account: &SubmitterId, asked: &[DiagnoseRequest]) -> Vec<MempoolSignal>;

    // --- Reading. ---

    /// The newest block.
    async fn head(&self) -> Result<Header, ChainError>;

    async fn header(&self, at: HeaderAt) -> Result<Option<Header>, ChainError>;

    /// The headers at these heights, as one endpoint has them now, in as few requests as it takes. Whether they are linked is for
    /// the caller to see: the chain may change between two requests.
    async fn headers(&self, numbers: RangeInclusive<u64>) -> Result<Vec<Option<Header>>, ChainError>;

    /// The receipts of one block that are wanted, or `None` if no endpoint knows the block whole (it was orphaned, or has not come
    /// there yet). Nothing that is wanted and in the block is missing from the answer; what is not wanted may be in it.
    async fn block_receipts(&self, block: BlockRef, wanted: &Wanted<'_>) -> Result<Option<Vec<Receipt>>, ChainError>;

    /// Receipts by hash, for hashes that no block explained.
    async fn receipts(&self, hashes: &[B256]) -> Result<Vec<Option<Receipt>>, ChainError>;

    /// What reverted transactions returned, as far as any endpoint can still tell; `None` if none can.
    async fn reverts(&self, hashes: &[B256]) -> Result<Vec<Option<Revert>>, ChainError>;

    /// The blocks at these heights with what one account has sent in them, as one endpoint has them now; `None` for a block that it
    /// does not have. Whether they are linked is for the caller to see. Every transaction of the account in a block is there, made
    /// into bytes again, with the hash and the sender that those have. Also one that [`Chain::read_signed`] would not take, since the
    /// chain has (blobs are left out of its plan); one that nobody signed, or of an unknown kind, is an error, not a block without it.
    async fn sent_by(
        &self,
        account: &SubmitterId,
        numbers: RangeInclusive<u64>,
    ) -> Result<Vec<Option<SentInBlock>>, ChainError>;

    /// What the chain says of accounts at the newest block, and their counts at `final_at`.
    async fn accounts(
        &self,
        accounts: &[SubmitterId],
        final_at: Option<BlockRef>,
    ) -> Result<Vec<AccountView>, ChainError>;

    /// Ends when there may be a new head; never ends where nobody says so. A hint: whoever waits also asks from time to time.
    async fn head_changed(&self);

    /// How each endpoint is, for people.
    fn endpoints(&self) -> Vec<EndpointStatus>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderAt {
    Number(u64),
    Hash(B256),
    /// The newest block under the chain's `safe` tag; `None` where a chain has no such thing.
    Safe,
    /// The same for `finalized`.
    Finalized,
}

/// What came of one send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendAnswer {
    /// Of all endpoints together.
    pub classified: Classified,
    /// Of each that was heard.
    pub heard: Vec<EndpointAnswer>,
}

impl From<Classified> for SendAnswer {
    fn from(classified: Classified) -> Self {
        SendAnswer { classified, heard: Vec::new() }
    }
}

/// Which hashes somebody waits for.
pub type Wanted<'a> = dyn Fn(B256) -> bool + Send + Sync + 'a;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub block: BlockRef,
    pub parent_hash: B256,
    /// Seconds since 1970, by the chain's own word.
    pub timestamp: u64,
    /// `None` on a chain without EIP-1559.
    pub base_fee: Option<u128>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub hash: B256,
    pub block: BlockRef,
    pub from: Address,
    pub succeeded: bool,
    pub gas_used: u64,
    pub effective_gas_price: Amount,
    pub contract_address: Option<Address>,
}

/// What a reverted call returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revert {
    /// In words, where the data can be read: the text of `Error(string)`, the meaning of a `Panic`, the selector of a custom error.
    pub reason: Option<NodeText>,
    pub data: Bytes,
}

/// Prices for each speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeeQuote {
    pub slow: Fees,
    pub standard: Fees,
    pub fast: Fees,
    pub instant: Fees,
    /// Of the next block; zero where blocks have none.
    pub base_fee: u128,
}

impl FeeQuote {
    pub fn at(&self, speed: Speed) -> Fees {
        match speed {
            Speed::Slow => self.slow,
            Speed::Standard => self.standard,
            Speed::Fast => self.fast,
            Speed::Instant => self.instant,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountView {
    /// The count at the newest block.
    pub latest: Nonce,
    /// The preconfirmed count: with what the node has in its pool, or in a block that is being built. A hint, never decisive.
    pub pending: Nonce,
    /// The count at the final block that was named.
    pub finalized: Option<Nonce>,
    pub balance: Amount,
    /// It has code of somebody else's (EIP-7702), at the newest block.
    pub delegated: bool,
}

/// What one account has sent in one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentInBlock {
    pub link: BlockLink,
    pub sent: Vec<SignedPlan>,
}

/// Bytes that are no signed transaction of a kind that we know, or of another chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a signed transaction of this chain: {0}")]
pub struct UnreadableTx(pub NodeText);

/// An endpoint without its secrets: `name` is host and port, never a path, a user or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointStatus {
    pub name: String,
    pub weight: u32,
    pub standing: EndpointHealth,
    pub head: Option<u64>,
    /// How long its head has been the same, by our clock.
    pub head_age: Option<Duration>,
    /// Blocks behind the newest head that anybody credibly tells of.
    pub lag: Option<u64>,
    /// Of the newest requests, how many of a thousand failed; `None` before the first.
    pub errors_permille: Option<u32>,
    /// How long an answer takes, smoothed.
    pub latency: Option<Duration>,
    pub in_flight: usize,
    /// The last thing that went wrong, if it still matters.
    pub trouble: Option<String>,
}

impl EndpointStatus {
    /// Is it asked and believed?
    pub fn is_healthy(&self) -> bool {
        self.standing == EndpointHealth::Good
    }
}

/// What we think of an endpoint. Only a good one is asked for anything that has to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointHealth {
    Good,
    /// Nobody has asked it yet.
    Unchecked,
    /// It is behind others, or its head has not moved for too long.
    Lagging,
    /// It fails; it is tried again from time to time.
    Down,
    /// It has said when to come back.
    RateLimited,
    /// It is of another chain.
    WrongChain,
    /// It goes to and fro between two forks.
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

/// No endpoint gave an answer that can be used; this is what the last one said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", classified.reason.as_str(), classified.text)]
pub struct ChainError {
    pub classified: Classified,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    #[error("this node has no key for {0}")]
    NoKey(SubmitterId),
    /// May work later: a remote signer is away.
    #[error("the signer is not available: {0}")]
    Unavailable(String),
    /// Will not work later either: the signer, or the encoding, cannot express this plan.
    #[error("the signer refused: {0}")]
    Refused(String),
    /// What came back is not what was asked for. It is thrown away (S09).
    #[error("the signer returned another {0} than asked for")]
    Mismatch(&'static str),
}
