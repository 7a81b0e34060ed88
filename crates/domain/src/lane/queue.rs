//! The queue as the lane knows it: its first intents as candidates, and how far each of them is prepared.

use std::collections::{HashSet, VecDeque};

use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::payload::{EvmCall, Payload};
use crate::state::FailReason;
use crate::text::NodeText;
use crate::time::{Tick, Timestamp};

use super::fact::Prepared;

/// Candidates of a lane, and the state of the peeks that fill them.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) candidates: VecDeque<Candidate>,
    pub(super) peeking: bool,
    /// The queue or the commands may have changed since the last peek began.
    pub(super) peek_wanted: bool,
    /// The last peek returned as many intents as it asked for.
    pub(super) has_more: bool,
    /// Only commands were polled since the queue was last read.
    pub(super) may_have_unread_intents: bool,
    /// A command refers to an intent that may be in the unread part of the queue.
    pub(super) must_peek: bool,
    /// When the queue was last read, or when only commands were polled at the interval.
    pub(super) last_peek_at: Tick,
    /// When the last successful read of the queue began.
    pub(super) last_read_at: Tick,
    /// The queue was read since the last commit began.
    pub(super) peeked_since_commit_began: bool,
    /// When the last peek began, polls of commands included.
    pub(super) peek_began_at: Tick,
    /// The last peek failed.
    pub(super) last_peek_failed: bool,
    /// The queue was read at least once since the lane was loaded.
    pub(super) was_read: bool,
    /// The peek in flight began before a candidate returned to the queue, so its answer is ignored.
    answer_is_outdated: bool,
    /// Earliest `valid_until` of the candidates that are not failing; `None` if no candidate has one.
    earliest_expiry: Option<Timestamp>,
    /// False if no candidate is failing, so that the candidates need not be searched.
    may_have_failing: bool,
    /// Left out of the peek in flight; ignored if the answer contains them.
    excluded_from_peek: HashSet<TxId>,
    /// Removed since the peek in flight began; its answer may still contain them.
    taken_since_peek: HashSet<TxId>,
}

/// A queued intent in the memory of its lane.
#[derive(Debug)]
pub(super) struct Candidate {
    /// Boxed, here and in all lists of the lane, because the record moves from list to list.
    pub(super) tx: Box<IntentRecord>,
    pub(super) stage: Stage,
}

/// How far a candidate is prepared.
#[derive(Debug)]
pub(super) enum Stage {
    /// No price was requested yet.
    Waiting,
    /// A price was requested.
    Pricing,
    /// The price is known since `at`.
    Ready { prepared: Prepared, at: Tick },
    /// Preparing failed; try again at this time.
    Later(Tick),
    /// The intent fails with the next commit, and consumes no nonce.
    Failing(FailReason, NodeText),
}

impl Candidate {
    pub(super) fn call(&self) -> Option<&EvmCall> {
        match self.tx.payload() {
            Payload::Evm(call) => Some(call),
            Payload::Reservation(_) => None,
        }
    }

    pub(super) fn is_failing(&self) -> bool {
        matches!(self.stage, Stage::Failing(..))
    }

    fn valid_until(&self) -> Option<Timestamp> {
        self.tx.intent.valid_until()
    }

    /// Gas limit and price, if the caller set both.
    pub(super) fn decided(&self) -> Option<Prepared> {
        let call = self.call()?;
        Some(Prepared::new(call.gas_limit?, call.fees?))
    }
}

impl Queue {
    /// A queue that was never read.
    pub(super) fn unread() -> Self {
        Queue { peek_wanted: true, ..Queue::default() }
    }

    /// Begins a peek. `leaving` are intents that left the candidates while the store may still list them as queued; the
    /// peek leaves them out.
    pub(super) fn begin_peek(&mut self, now: Tick, leaving: HashSet<TxId>) {
        self.peeking = true;
        self.answer_is_outdated = false;
        self.peek_wanted = false;
        (self.peek_began_at, self.last_peek_at) = (now, now);
        self.peeked_since_commit_began = true;
        self.excluded_from_peek = leaving;
        self.taken_since_peek.clear();
    }

    /// Begins a poll of the commands alone, because new intents are further back in the queue.
    pub(super) fn begin_command_poll(&mut self, now: Tick) {
        self.peek_began_at = now;
        self.peeking = true;
        self.answer_is_outdated = false;
        self.peek_wanted = false;
        self.may_have_unread_intents = true;
        self.excluded_from_peek.clear();
    }

    /// A poll of the commands was answered.
    pub(super) fn command_poll_done(&mut self) {
        self.peeking = false;
        self.last_peek_failed = false;
        self.answer_is_outdated = false;
    }

    /// Applies the answer to a peek. Known candidates keep their stage; candidates that are gone are dropped.
    pub(super) fn merge(&mut self, queue: Vec<IntentRecord>, asked: usize, is_ours: impl Fn(TxId) -> bool) {
        self.peeking = false;
        self.last_peek_failed = false;
        if std::mem::take(&mut self.answer_is_outdated) {
            self.peek_wanted = true;
            return;
        }
        self.was_read = true;
        self.last_read_at = self.peek_began_at;
        (self.may_have_unread_intents, self.must_peek) = (false, false);
        self.has_more = queue.len() >= asked;
        let last_seq = queue.last().map(|tx| tx.seq);
        let mut known: VecDeque<Candidate> = std::mem::take(&mut self.candidates);
        for tx in queue {
            if self.excluded_from_peek.contains(&tx.id) || self.taken_since_peek.contains(&tx.id) || is_ours(tx.id) {
                continue;
            }
            while known.front().is_some_and(|candidate| candidate.tx.seq < tx.seq) {
                known.pop_front();
            }
            let same = known.front().is_some_and(|c| c.tx.id == tx.id && c.tx.version == tx.version);
            let stage = if same { known.pop_front().map_or(Stage::Waiting, |c| c.stage) } else { Stage::Waiting };
            self.candidates.push_back(Candidate { tx: Box::new(tx), stage });
        }
        if self.has_more {
            // The peek ended before these candidates; they are still queued.
            self.candidates.extend(known.into_iter().filter(|candidate| Some(candidate.tx.seq) > last_seq));
        }
        self.earliest_expiry = self.candidates.iter().filter_map(Candidate::valid_until).min();
    }

    /// True if the queue was read and is empty.
    pub(super) fn is_known_empty(&self) -> bool {
        self.was_read && self.candidates.is_empty() && !self.may_have_more()
    }

    /// True if the queue may contain intents behind the candidates.
    pub(super) fn may_have_more(&self) -> bool {
        self.has_more || self.may_have_unread_intents
    }

    /// Ignores the answer to the peek in flight, and peeks again.
    pub(super) fn ignore_peek_in_flight(&mut self) {
        self.answer_is_outdated = self.peeking;
        self.peek_wanted = true;
    }

    pub(super) fn ignores_peek_in_flight(&self) -> bool {
        self.answer_is_outdated
    }

    pub(super) fn peek_failed(&mut self) {
        self.peeking = false;
        self.last_peek_failed = true;
        self.peek_wanted = true;
    }

    pub(super) fn take(&mut self, index: usize) -> Option<Candidate> {
        let candidate = self.candidates.remove(index)?;
        self.taken_since_peek.insert(candidate.tx.id);
        Some(candidate)
    }

    /// Returns a candidate to its queue position. A peek that left it out would drop it, and a later intent would
    /// overtake it (N11).
    pub(super) fn put_back(&mut self, candidate: Candidate) {
        self.taken_since_peek.remove(&candidate.tx.id);
        if self.peeking && self.excluded_from_peek.contains(&candidate.tx.id) {
            self.ignore_peek_in_flight();
        }
        self.earliest_expiry = [self.earliest_expiry, candidate.valid_until()].into_iter().flatten().min();
        self.may_have_failing |= candidate.is_failing();
        let place = self.candidates.partition_point(|other| other.tx.seq < candidate.tx.seq);
        self.candidates.insert(place, candidate);
    }

    /// The next candidate that needs a nonce.
    pub(super) fn first(&self) -> Option<&Candidate> {
        self.candidates.get(self.first_index()?)
    }

    pub(super) fn first_index(&self) -> Option<usize> {
        self.candidates.iter().position(|candidate| !candidate.is_failing())
    }

    /// Removes the failing candidates.
    pub(super) fn take_failing(&mut self) -> Vec<Candidate> {
        let all = std::mem::take(&mut self.candidates).into_iter();
        let (failing, rest): (Vec<_>, Vec<_>) = all.partition(Candidate::is_failing);
        self.candidates = rest.into();
        self.may_have_failing = false;
        self.taken_since_peek.extend(failing.iter().map(|candidate| candidate.tx.id));
        failing
    }

    /// Marks expired candidates as failing, also beyond the window.
    pub(super) fn fail_expired(&mut self, database_now: Timestamp) {
        if self.earliest_expiry.is_none_or(|at| at > database_now) {
            return;
        }
        for candidate in &mut self.candidates {
            let expired = candidate.valid_until().is_some_and(|until| until <= database_now);
            if expired && !candidate.is_failing() {
                let text = NodeText::new("validUntil passed before the intent was sent");
                candidate.stage = Stage::Failing(FailReason::Expired, text);
                self.may_have_failing = true;
            }
        }
        let later = |until: &Timestamp| *until > database_now;
        self.earliest_expiry = self.candidates.iter().filter_map(Candidate::valid_until).filter(later).min();
    }

    /// Prepares candidates again that were about to fail because they reverted.
    pub(super) fn retry_reverted(&mut self) {
        if !self.has_failing() {
            return;
        }
        for candidate in &mut self.candidates {
            if matches!(candidate.stage, Stage::Failing(FailReason::SimulationReverted, _)) {
                candidate.stage = Stage::Waiting;
                // The candidate may have expired meanwhile.
                self.earliest_expiry = [self.earliest_expiry, candidate.valid_until()].into_iter().flatten().min();
            }
        }
    }

    pub(super) fn has_failing(&mut self) -> bool {
        let has_failing = || self.candidates.iter().any(Candidate::is_failing);
        debug_assert!(self.may_have_failing || !has_failing(), "a failing candidate is not counted");
        self.may_have_failing = self.may_have_failing && has_failing();
        self.may_have_failing
    }

    pub(super) fn find(&self, id: TxId) -> Option<usize> {
        self.candidates.iter().position(|candidate| candidate.tx.id == id)
    }

    /// Sets the stage of the candidate at `index`.
    pub(super) fn set_stage(&mut self, index: usize, stage: Stage) {
        if let Some(candidate) = self.candidates.get_mut(index) {
            candidate.stage = stage;
            self.may_have_failing |= candidate.is_failing();
        }
    }

    /// Retries postponed candidates, because the chain or the funds have changed.
    pub(super) fn retry_postponed(&mut self) {
        for candidate in &mut self.candidates {
            if matches!(candidate.stage, Stage::Later(_)) {
                candidate.stage = Stage::Waiting;
            }
        }
    }
}
