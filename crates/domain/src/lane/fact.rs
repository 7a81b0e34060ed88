//! Facts: the inputs of a lane.

use std::sync::Arc;

use alloy_primitives::B256;

use crate::action::{Fees, Work};
use crate::amount::Amount;
use crate::attempt::{EndpointAnswer, MempoolSignal, SendOutcome};
use crate::block::{BlockLink, BlockRef, Execution};
use crate::command::Command;
use crate::cursor::Protection;
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::nonce::Nonce;
use crate::signing::{SignedPlan, SignedTx};
use crate::stuck::Decision;
use crate::tail::Tail;
use crate::text::NodeText;
use crate::time::Timestamp;

/// An input of the lane. Facts may come late, twice (except for answers to effects) and in any order. Only the
/// sightings of one hash must come in the order in which the watcher saw them. Otherwise an orphaned block could be
/// reported after the block that replaced it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The queue or the commands may have changed.
    Woken,
    /// A queued intent may have been canceled in the store.
    QueueChanged,
    /// The requested wake-up time has come.
    Tick,
    /// Bind nothing more, finish the work in flight, and release the lease.
    Drain,
    /// Answer to a peek. `None`: the read failed.
    Peeked(Option<Peeked>),
    /// Answers to prepare requests.
    Prepared(Vec<(PrepareKey, Result<Prepared, PrepareFailure>)>),
    /// Answers of the signer, in the order of the requests.
    Signed(Vec<Result<SignedTx, SignFailure>>),
    /// Result of the commit in flight.
    Committed(CommitOutcome),
    /// Results of a broadcast.
    Sent(Vec<SentTx>),
    /// Reports of the watcher about watched hashes.
    Sightings(Vec<Sighting>),
    /// The chain has a new head.
    Chain(Arc<ChainFacts>),
    /// Answer to reading the account. `None`: no endpoint answered.
    Account(Option<AccountFacts>),
    /// Answer to a scan, or the reason why there is no result.
    Scanned(Result<ScanResult, NodeText>),
    /// Mempool signals, one for each request.
    Diagnosed(Vec<(Nonce, MempoolSignal)>),
    /// Decision about a stuck nonce.
    Decided(Nonce, Decision),
}

/// The first intents of the queue, and the open commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peeked {
    pub queue: Vec<IntentRecord>,
    pub commands: Vec<Command>,
}

/// Subject of a prepare request: a queued intent, or another attempt of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrepareKey {
    /// An intent and the version of its record. The payload may change while the request is in flight.
    Intent(TxId, u32),
    /// A nonce and the number of the request for that slot.
    Slot(Nonce, u32),
}

/// Work and price of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    pub work: Work,
    /// Market price for the requested speed, or the caller's own price.
    pub fees: Fees,
    /// Base fee of the next block, if known; zero on chains without base fee.
    pub base_fee: u128,
    /// Highest cost besides the work (an L1 data fee).
    pub surcharge: Amount,
}

impl Prepared {
    /// Only work and price are known.
    pub fn new(work: Work, fees: Fees) -> Self {
        Prepared { work, fees, base_fee: 0, surcharge: Amount::ZERO }
    }
}

/// Reason why a transaction could not be prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrepareFailure {
    /// The call reverted on top of this block, which is on the watcher's chain. On another branch, an earlier
    /// transaction of the account may not have run.
    Reverted {
        at: BlockRef,
        text: NodeText,
    },
    /// No node will ever accept the transaction.
    Invalid(NodeText),
    InsufficientFunds(NodeText),
    /// No answer; try again later.
    Unavailable(NodeText),
}

/// Reason why a transaction was not signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignFailure {
    /// The signer will not sign this transaction later either.
    Refused(NodeText),
    /// The signer may sign later, or on another node.
    Unavailable(NodeText),
}

/// Result of a commit. Every other verdict of the store ends the lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    Done {
        at: Timestamp,
        replicated: bool,
    },
    /// The commit was not written, and may be tried again.
    NotWritten,
}

/// Result of one send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTx {
    pub nonce: Nonce,
    pub hash: B256,
    pub outcome: SendOutcome,
    pub text: NodeText,
    /// Answers of the endpoints.
    pub answers: Vec<EndpointAnswer>,
}

/// A watcher's report about one of our hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// The transaction is in this canonical block.
    Mined(MinedTx),
    /// The known block of the transaction is still canonical.
    StillMined { hash: B256, block: BlockRef },
    /// The block of the transaction is no longer canonical.
    Unmined { hash: B256, block: BlockRef },
    /// The block of the transaction is final. `list` holds the confirmations, starting with that block.
    Final { hash: B256, block: BlockRef, list: Arc<[BlockLink]> },
    /// No endpoint knows the hash. This proves nothing by itself (P9).
    NotFound { hash: B256 },
}

/// Inclusion of one of our hashes, as a watcher reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinedTx {
    pub hash: B256,
    pub block: BlockRef,
    pub parent_hash: B256,
    pub execution: Execution,
    pub work_used: u64,
    pub unit_price: Amount,
}

/// A watcher's report about the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFacts {
    pub tail: Tail,
    /// The chain contradicts a final block: every lane stops.
    pub finality_violation: Option<Protection>,
}

/// State of the account on chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountFacts {
    /// Number of the newest block at the time of the read.
    pub head: u64,
    /// Account nonce at the newest block.
    pub latest: Nonce,
    /// Account nonce with pending transactions.
    pub pending: Nonce,
    /// Account nonce at the newest final block; `None` while no block is final.
    pub finalized: Option<Nonce>,
    /// The newest final block.
    pub final_block: Option<BlockRef>,
    /// Another node has saved a newer final block, so the final nonce may be lower than the one in the ledger.
    pub lags: bool,
    pub balance: Amount,
    /// Nodes accept few pending transactions of the account, or its nonces can be consumed without a transaction.
    pub narrow: bool,
}

/// Transactions of the account, read from blocks. The blocks were read from the newest one down, each linked to the one
/// above, until every requested nonce was found or all blocks that may contain it were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanResult {
    /// State of the account before the blocks were read.
    pub account: AccountFacts,
    /// The newest block that was read. The final block is on its chain.
    pub head: BlockRef,
    /// The oldest block that was read. There is no gap in between.
    pub oldest: u64,
    /// No requested transaction lies below the oldest block: its parent is the block that the request named, or it is
    /// the first block of the chain.
    pub is_whole: bool,
    /// Transactions of the account with the requested nonces, lowest first.
    pub sent: Vec<ScannedTx>,
}

/// A transaction of the account in a canonical block. Its bytes were read, its hash was computed and its sender was
/// recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedTx {
    pub tx: SignedPlan,
    pub block: BlockRef,
    pub parent_hash: B256,
}

impl ScannedTx {
    pub fn link(&self) -> BlockLink {
        BlockLink { block: self.block, parent_hash: self.parent_hash }
    }
}
