//! Effects: the outputs of a lane.

use alloy_primitives::B256;

use crate::action::Action;
use crate::attempt::AttemptKind;
use crate::block::BlockRef;
use crate::id::TxId;
use crate::intent::Speed;
use crate::ledger::LaneCommit;
use crate::nonce::Nonce;
use crate::signing::{SignedTx, TxPlan};
use crate::stuck::StuckCase;
use crate::text::NodeText;
use crate::time::Tick;

use super::fact::PrepareKey;

/// Effects to begin now, and the time of the next wake-up if no other fact comes.
#[derive(Debug, Default)]
pub struct Step {
    /// Effects in order. The next effect begins without waiting for the answer to the one before.
    pub effects: Vec<Effect>,
    pub wake_at: Option<Tick>,
}

/// Work that the lane asks for. Most effects are answered by a [`Fact`](super::Fact).
#[derive(Debug)]
pub enum Effect {
    /// Read the first `limit` intents of the queue except `without`, and the open commands. With limit 0, read only the
    /// commands. Answer: [`Fact::Peeked`](super::Fact::Peeked).
    Peek { limit: u32, without: Vec<TxId> },
    /// Measure the work and choose fees; needs no nonce. Answer: [`Fact::Prepared`](super::Fact::Prepared), for all
    /// requests.
    Prepare(Vec<PrepareRequest>),
    /// Sign; needs a permit. Answer: [`Fact::Signed`](super::Fact::Signed), in this order.
    Sign(Vec<SignRequest>),
    /// Write a commit. Answer: [`Fact::Committed`](super::Fact::Committed). Every other verdict of the store ends this
    /// `Lane`: it is dropped or loaded again.
    Commit(Box<LaneCommit>),
    /// Send in this order; needs a permit. Answer: [`Fact::Sent`](super::Fact::Sent), for all transactions.
    Broadcast(Vec<Outgoing>),
    /// Read the account's nonces and balance. Answer: [`Fact::Account`](super::Fact::Account).
    ReadAccount,
    /// Read blocks for transactions of the account. Answer: [`Fact::Scanned`](super::Fact::Scanned).
    Scan(ScanRequest),
    /// Query the mempools of the nodes. Answer: [`Fact::Diagnosed`](super::Fact::Diagnosed), for all requests.
    Diagnose(Vec<DiagnoseRequest>),
    /// Request a decision about a stuck intent. Answer: [`Fact::Decided`](super::Fact::Decided).
    Decide(Box<StuckCase>),
    /// Watch these hashes from now on, before any later effect begins. Answers come as
    /// [`Fact::Sightings`](super::Fact::Sightings) for as long as the hashes are watched. A hash may be watched again;
    /// then its known state is reported again, finality included.
    Watch(Vec<WatchRequest>),
    /// Stop watching these hashes.
    Unwatch(Vec<B256>),
    /// Log a message. It changes nothing.
    Notice { nonce: Option<Nonce>, text: NodeText },
    /// The lane has no work left: release the lease.
    Release,
}

/// Request for work and price of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepareRequest {
    pub key: PrepareKey,
    pub action: Action,
    pub speed: Speed,
}

/// Query whether any node has one of these hashes, all of one nonce, in its pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagnoseRequest {
    pub nonce: Nonce,
    pub hashes: Vec<B256>,
}

/// Request to find the transactions that consumed the nonces from `from` up to the account's nonce (the latest, or the
/// final one if that is higher) at the start of the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanRequest {
    pub from: Nonce,
    /// On a chain that has this block, no requested transaction lies in it or below, so the scan ends there. On a chain
    /// without this block, or with `None`, the scan goes down to the configured limit.
    pub above: Option<BlockRef>,
}

/// Request to sign one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignRequest {
    pub kind: AttemptKind,
    pub plan: TxPlan,
}

/// A signed transaction to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub nonce: Nonce,
    pub tx: SignedTx,
}

/// Request to watch one hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchRequest {
    pub hash: B256,
    /// The block that holds the transaction by the ledger: to be compared with the canonical chain.
    pub known_block: Option<BlockRef>,
    /// The transaction may have been mined before the watch began: look it up by its hash.
    pub look_up: bool,
}
