//! What a lane is told.

use std::sync::Arc;

use alloy_primitives::B256;

use crate::amount::Amount;
use crate::attempt::{EndpointAnswer, MempoolSignal, SendOutcome};
use crate::block::{BlockLink, BlockRef, Execution};
use crate::command::Command;
use crate::cursor::Protection;
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::nonce::Nonce;
use crate::payload::Fees;
use crate::plan::{SignedPlan, SignedTx};
use crate::stuck::Decision;
use crate::tail::Tail;
use crate::text::NodeText;
use crate::time::Timestamp;

/// One thing that has happened. Facts may come late, twice (but for answers to effects) and in any order; only what a watcher
/// says of one hash comes in the order in which it saw it, or an orphaned block could come after the one in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// There may be something new in the queue, or a command.
    Woken,
    /// The time that was asked for has come.
    Tick,
    /// Bind nothing more, finish what is under way, and let go.
    Drain,
    Peeked(Option<Peeked>),
    Prepared(Vec<(PrepareKey, Result<Prepared, PrepareFailure>)>),
    /// In the order of the requests.
    Signed(Vec<Result<SignedTx, SignFailure>>),
    Committed(CommitOutcome),
    Sent(Vec<SentTx>),
    Seen(Vec<Sighting>),
    /// There is a new head.
    Chain(Arc<ChainFacts>),
    /// `None`: nobody could tell.
    Account(Option<AccountFacts>),
    /// The same.
    Scanned(Option<ScanResult>),
    /// What nodes' pools show, for all that was asked.
    Diagnosed(Vec<(Nonce, MempoolSignal)>),
    /// What is to be done about a nonce that is stuck.
    Decided(Nonce, Decision),
}

/// The first in line, and the commands that are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peeked {
    pub queue: Vec<IntentRecord>,
    pub commands: Vec<Command>,
}

/// What is being prepared: an intent in the queue, or another attempt for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrepareKey {
    /// As of this version of it: what it asks for may change meanwhile.
    Intent(TxId, u32),
    /// The so many-th time that something was asked for it.
    Slot(Nonce, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    pub gas_limit: u64,
    /// What the market asks for the speed that was wanted, or the caller's own.
    pub fees: Fees,
    /// Of the next block, as far as it is known; zero where blocks have none.
    pub base_fee: u128,
    /// What the chain takes beside the gas, at the most (an L1 data fee).
    pub surcharge: Amount,
}

impl Prepared {
    /// Where only this is known of the market.
    pub fn new(gas_limit: u64, fees: Fees) -> Self {
        Prepared { gas_limit, fees, base_fee: 0, surcharge: Amount::ZERO }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrepareFailure {
    /// The call reverted on top of this block, which the watcher has on its chain: on another branch, an earlier transaction
    /// of ours may not have run.
    Reverted {
        at: BlockRef,
        text: NodeText,
    },
    /// No chain will ever take it.
    Invalid(NodeText),
    InsufficientFunds(NodeText),
    /// Nothing is known; ask again later.
    Unavailable(NodeText),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignFailure {
    /// Will not work later either.
    Refused(NodeText),
    /// May work later, or elsewhere.
    Unavailable(NodeText),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    Done {
        at: Timestamp,
        replicated: bool,
    },
    /// Nothing was written, and it may be tried again.
    NotWritten,
}

/// What came of one send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTx {
    pub nonce: Nonce,
    pub hash: B256,
    pub outcome: SendOutcome,
    pub text: NodeText,
    /// What each endpoint said.
    pub heard: Vec<EndpointAnswer>,
}

/// What a watcher says of one of our hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// It is in this canonical block.
    Mined(MinedTx),
    /// The block that it was known to be in is still canonical.
    StillMined { hash: B256, block: BlockRef },
    /// The block that it was in is no longer canonical.
    Unmined { hash: B256, block: BlockRef },
    /// The block that it is in is final. With its confirmations, beginning with that block.
    Final { hash: B256, block: BlockRef, list: Arc<[BlockLink]> },
    /// It was asked for by hash, and nobody knew it. Proves nothing by itself.
    NotFound { hash: B256 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinedTx {
    pub hash: B256,
    pub block: BlockRef,
    pub parent_hash: B256,
    pub execution: Execution,
    pub gas_used: u64,
    pub effective_gas_price: Amount,
}

/// What a watcher says of the chain as such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFacts {
    pub tail: Tail,
    /// It contradicts what was final: every lane stops.
    pub broken: Option<Protection>,
}

/// What the chain says of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountFacts {
    /// The newest block when it was read.
    pub head: u64,
    pub latest: Nonce,
    pub pending: Nonce,
    /// The count at the newest final block; `None` while there is none.
    pub finalized: Option<Nonce>,
    /// That block.
    pub final_block: Option<BlockRef>,
    pub balance: Amount,
    /// It has code of somebody else's (EIP-7702).
    pub delegated: bool,
}

/// What the account has sent, by the blocks themselves: read from the newest one down, each linked to the one above it, until
/// everything that was asked for was found or the blocks that may have it were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanResult {
    /// As it was before the blocks were read.
    pub account: AccountFacts,
    /// The newest block that was read; the final one is on its chain.
    pub head: BlockRef,
    /// The oldest one. There is no hole in between.
    pub oldest: u64,
    /// Nothing of what was asked for lies below: the oldest one stands on the block that the request named, or is the first of all.
    pub is_whole: bool,
    /// What it sent with the nonces that were asked for, lowest first.
    pub sent: Vec<OnChain>,
}

/// A transaction in a canonical block, signed by the account: its bytes were read, its hash computed, its sender recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnChain {
    pub tx: SignedPlan,
    pub block: BlockRef,
    pub parent_hash: B256,
}

impl OnChain {
    pub fn link(&self) -> BlockLink {
        BlockLink { block: self.block, parent_hash: self.parent_hash }
    }
}
