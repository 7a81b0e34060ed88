//! Parts of a lane's memory: the ledger's open part, the chain, the signer, commits and effects.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use alloy_primitives::B256;

use crate::attempt::SendReport;
use crate::block::BlockLink;
use crate::command::{Command, CommandId};
use crate::cursor::{Cursor, Protection};
use crate::nonce::Nonce;
use crate::time::{Tick, Timestamp};

use super::draft::Draft;
use super::effect::Effect;
use super::fact::ChainFacts;
use super::signing::{SignedItem, SigningItem};
use super::slots::Slots;

/// The open part of the lane's ledger, as the store has confirmed it. Only the fold of a written commit changes the
/// records of intents and attempts. A rule may change a slot's work (sends, next attempt, notices, decisions) while it
/// builds a commit. The first cursor of a new lane is in memory before the first commit.
#[derive(Debug)]
pub(super) struct OpenLedger {
    /// `None` until the first nonce of a new lane is known.
    pub(super) cursor: Option<Cursor>,
    /// The open slots, each with the lane's work on it.
    pub(super) slots: Slots,
    /// Open commands, as the last peek read them.
    pub(super) commands: Vec<Command>,
    /// Commands that were executed since the last peek began; its answer may still list them.
    pub(super) commands_done: HashSet<CommandId>,
    /// The store lost commits. The lane writes nothing else before it has acknowledged this.
    pub(super) regressed: bool,
}

/// The chain, as the watcher reports it.
#[derive(Debug, Default)]
pub(super) struct ChainView {
    /// The newest report.
    pub(super) facts: Option<Arc<ChainFacts>>,
    /// Nonces of the watched hashes.
    pub(super) by_hash: HashMap<B256, Nonce>,
    /// Slots that are mined and not final, in the order in which their next confirmation notice is due.
    pub(super) notice_queue: VecDeque<Nonce>,
    /// The newest block that contains a transaction of a closed slot.
    pub(super) newest_closed: Option<BlockLink>,
}

impl ChainView {
    /// The contradiction of a final block, if there is one.
    pub(super) fn finality_violation(&self) -> Option<&Protection> {
        self.facts.as_ref()?.finality_violation.as_ref()
    }
}

/// Attempts at the signer, and signed attempts.
#[derive(Debug, Default)]
pub(super) struct SignerState {
    pub(super) in_flight: Option<Vec<SigningItem>>,
    /// Signed and not yet durable. These attempts are never sent from here.
    pub(super) signed: Vec<SignedItem>,
    /// No request begins before this time.
    pub(super) not_before: Tick,
    /// Number of failed requests in a row.
    pub(super) failures: u32,
    /// The most attempts of one request, if the signer needs shorter requests than the limits of the lane allow.
    pub(super) batch_max: Option<usize>,
}

/// Commits, and the reason for PROTECT that the next one writes.
#[derive(Debug)]
pub(super) struct CommitState {
    /// The commit in flight.
    pub(super) draft: Option<Draft>,
    /// No commit begins before this time.
    pub(super) not_before: Tick,
    /// Number of commits in a row that were not written.
    pub(super) failures: u32,
    /// Commits may not have reached the standby of the store, so nothing is sent until a later commit has. True after a
    /// commit that reports it, and after loading: the last commit may be one whose answer was lost.
    pub(super) unreplicated: bool,
    /// A time of the database's clock, with the tick at which it was read.
    pub(super) database_time: (Timestamp, Tick),
    /// The lane enters PROTECT for this reason with the next commit.
    pub(super) protection: Option<Protection>,
}

impl CommitState {
    pub(super) fn new(database_now: Timestamp, now: Tick) -> Self {
        CommitState {
            draft: None,
            not_before: Tick::default(),
            failures: 0,
            unreplicated: true,
            database_time: (database_now, now),
            protection: None,
        }
    }
}

/// Effects to return, and the sends in flight with their results.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Effects that were begun outside of `decide`; the next step returns them.
    pub(super) effects: Vec<Effect>,
    /// Number of broadcasts in flight.
    pub(super) broadcasts: usize,
    /// Nonces with a send in flight. The next attempt of such a nonce is not sent before the answer.
    pub(super) sending: BTreeSet<Nonce>,
    /// Results of sends that are not written yet.
    pub(super) reports: Vec<SendReport>,
}

/// The market price and the cap of the policy.
#[derive(Debug, Default)]
pub(super) struct FeeCap {
    /// Text about a market price above the cap.
    pub(super) exceeded: Option<String>,
    /// Consumers were notified that the price is above the cap.
    pub(super) notified: bool,
}

/// Phase of a lane's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Working,
    /// The lane has had no work since then.
    Idle(Tick),
    /// The lane finishes its work in flight.
    Draining,
    /// The lane has released its lease.
    Over,
}
