//! The queue as the lane knows it: its first intents as candidates, and how far each of them is prepared.

use std::collections::{HashSet, VecDeque};

use crate::action::Action;
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::state::FailReason;
use crate::text::NodeText;
use crate::time::{Tick, Timestamp};

use super::fact::Prepared;

/// Candidates of a lane, and the state of the peeks that fill them.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) candidates: VecDeque<Candidate>,
    peek: PeekState,
    wanted: PeekWish,
    pub(super) coverage: Coverage,
    pub(super) times: PeekTimes,
    /// The queue was read since the last commit began.
    was_read_since_commit: bool,
    /// Earliest `valid_until` of the candidates that are not failing; `None` if no candidate has one.
    earliest_expiry: Option<Timestamp>,
    /// False if no candidate is failing, so that the candidates need not be searched.
    may_have_failing: bool,
}

/// State of the reads of the queue and the commands.
#[derive(Debug, Default)]
pub(super) enum PeekState {
    #[default]
    Idle,
    /// The last peek failed.
    Failed,
    InFlight(PeekInFlight),
}

/// A peek in flight.
#[derive(Debug)]
pub(super) struct PeekInFlight {
    /// Number of intents that the peek asks for; 0 for the commands alone.
    pub(super) limit: u32,
    /// The peek began before a candidate returned to the queue, so its answer is ignored.
    pub(super) is_outdated: bool,
    /// Wish that the peek fulfills; wanted again if the peek fails or its answer is ignored.
    wish: PeekWish,
    /// Left out of the peek; ignored if the answer contains them.
    excluded: HashSet<TxId>,
    /// Removed since the peek began; its answer may still contain them.
    taken: HashSet<TxId>,
}

/// Peek that a change since the last peek calls for, from least to most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum PeekWish {
    #[default]
    Nothing,
    /// The queue has new intents, or there are new commands.
    Peek,
    /// A candidate may have left the queue, so the queue itself must be read.
    ReadQueue,
}

/// How much of the queue the candidates cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Coverage {
    /// The queue was never read since the lane was loaded.
    #[default]
    Unread,
    /// The queue was read to its end.
    Complete,
    /// The queue was read to its end, and only commands were read since.
    Outdated,
    /// The last read returned as many intents as it asked for.
    Partial,
    /// A command refers to an intent that may be in the unread part of the queue.
    Insufficient,
}

/// Times of peeks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeekTimes {
    /// When the last peek began, polls of commands included.
    pub(super) began: Tick,
    /// When the queue was last read, or when only commands were polled at the interval.
    pub(super) last_peek: Tick,
    /// When the last successful read of the queue began.
    pub(super) last_read: Tick,
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
    pub(super) fn action(&self) -> Option<&Action> {
        self.tx.payload().action()
    }

    pub(super) fn is_failing(&self) -> bool {
        matches!(self.stage, Stage::Failing(..))
    }

    fn valid_until(&self) -> Option<Timestamp> {
        self.tx.intent.valid_until()
    }

    /// Work and price, if the caller set both.
    pub(super) fn decided(&self) -> Option<Prepared> {
        let action = self.action()?;
        Some(Prepared::new(action.own_work()?, action.own_price()?))
    }
}

impl Queue {
    /// A queue that was never read.
    pub(super) fn unread() -> Self {
        Queue { wanted: PeekWish::Peek, ..Queue::default() }
    }

    /// Begins a peek. `leaving` are intents that left the candidates while the store may still list them as queued; the
    /// peek leaves them out.
    pub(super) fn begin_peek(&mut self, limit: u32, leaving: HashSet<TxId>, now: Tick) {
        (self.times.began, self.times.last_peek) = (now, now);
        let wish = std::mem::take(&mut self.wanted);
        self.was_read_since_commit = true;
        let taken = HashSet::new();
        self.peek = PeekState::InFlight(PeekInFlight { limit, is_outdated: false, wish, excluded: leaving, taken });
    }

    /// Begins a poll of the commands alone, because new intents are further back in the queue.
    pub(super) fn begin_command_poll(&mut self, now: Tick) {
        self.times.began = now;
        let wish = self.wanted.min(PeekWish::Peek);
        if self.wanted == wish {
            self.wanted = PeekWish::Nothing;
        }
        if self.coverage == Coverage::Complete {
            self.coverage = Coverage::Outdated;
        }
        let (excluded, taken) = (HashSet::new(), HashSet::new());
        self.peek = PeekState::InFlight(PeekInFlight { limit: 0, is_outdated: false, wish, excluded, taken });
    }

    /// Ends the peek in flight, because its answer has come.
    pub(super) fn end_peek(&mut self) -> Option<PeekInFlight> {
        match std::mem::take(&mut self.peek) {
            PeekState::InFlight(peek) => Some(peek),
            PeekState::Idle | PeekState::Failed => None,
        }
    }

    /// Peeks again after a failed peek.
    pub(super) fn peek_failed(&mut self, failed: &PeekInFlight) {
        self.peek = PeekState::Failed;
        self.want(failed.wish);
        self.want_peek();
    }

    /// Applies the answer to a peek. Known candidates keep their stage; candidates that are gone are dropped.
    pub(super) fn merge(&mut self, peek: &PeekInFlight, queue: Vec<IntentRecord>, is_ours: impl Fn(TxId) -> bool) {
        if peek.is_outdated {
            self.want(peek.wish);
            self.want_peek();
            return;
        }
        let has_more = queue.len() >= peek.limit as usize;
        self.times.last_read = self.times.began;
        self.coverage = if has_more { Coverage::Partial } else { Coverage::Complete };
        let last_seq = queue.last().map(|tx| tx.seq);
        let mut known: VecDeque<Candidate> = std::mem::take(&mut self.candidates);
        for tx in queue {
            if peek.excluded.contains(&tx.id) || peek.taken.contains(&tx.id) || is_ours(tx.id) {
                continue;
            }
            while known.front().is_some_and(|candidate| candidate.tx.seq < tx.seq) {
                known.pop_front();
            }
            let same = known.front().is_some_and(|c| c.tx.id == tx.id && c.tx.version == tx.version);
            let stage = if same { known.pop_front().map_or(Stage::Waiting, |c| c.stage) } else { Stage::Waiting };
            self.candidates.push_back(Candidate { tx: Box::new(tx), stage });
        }
        if has_more {
            // The peek ended before these candidates; they are still queued.
            self.candidates.extend(known.into_iter().filter(|candidate| Some(candidate.tx.seq) > last_seq));
        }
        self.earliest_expiry = self.candidates.iter().filter_map(Candidate::valid_until).min();
    }

    pub(super) fn is_peeking(&self) -> bool {
        matches!(self.peek, PeekState::InFlight(_))
    }

    pub(super) fn has_failed_peek(&self) -> bool {
        matches!(self.peek, PeekState::Failed)
    }

    /// Asks for a peek, because the queue or the commands may have changed.
    pub(super) fn want_peek(&mut self) {
        self.want(PeekWish::Peek);
    }

    fn want(&mut self, wish: PeekWish) {
        self.wanted = self.wanted.max(wish);
    }

    pub(super) fn wants_peek(&self) -> bool {
        self.wanted != PeekWish::Nothing
    }

    /// Asks for a read of the queue, because an intent left it without the lane. A queue without a candidate needs
    /// none: the next peek does not list the intent.
    pub(super) fn intent_left(&mut self) {
        if !self.candidates.is_empty() || self.is_peeking() {
            self.want(PeekWish::ReadQueue);
        }
    }

    /// True if a candidate may have left the queue since the last read began.
    pub(super) fn may_have_lost_candidate(&self) -> bool {
        self.wanted == PeekWish::ReadQueue
    }

    /// Asks for a read of the queue, because a command refers to an intent that may be in its unread part.
    pub(super) fn want_read(&mut self) {
        if self.was_read() {
            self.coverage = Coverage::Insufficient;
        }
    }

    /// True if the queue was read since the last commit began.
    pub(super) fn was_read_since_commit(&self) -> bool {
        self.was_read_since_commit
    }

    pub(super) fn commit_began(&mut self) {
        self.was_read_since_commit = false;
    }

    /// True if the queue was read at least once since the lane was loaded.
    pub(super) fn was_read(&self) -> bool {
        self.coverage != Coverage::Unread
    }

    /// True if the queue was read and is empty.
    pub(super) fn is_known_empty(&self) -> bool {
        self.was_read() && self.candidates.is_empty() && !self.may_have_more()
    }

    /// True if the queue may contain intents behind the candidates.
    pub(super) fn may_have_more(&self) -> bool {
        matches!(self.coverage, Coverage::Outdated | Coverage::Partial | Coverage::Insufficient)
    }

    /// Ignores the answer to the peek in flight, and peeks again.
    pub(super) fn ignore_peek_in_flight(&mut self) {
        if let PeekState::InFlight(peek) = &mut self.peek {
            peek.is_outdated = true;
        }
        self.want_peek();
    }

    pub(super) fn take(&mut self, index: usize) -> Option<Candidate> {
        let candidate = self.candidates.remove(index)?;
        if let PeekState::InFlight(peek) = &mut self.peek {
            peek.taken.insert(candidate.tx.id);
        }
        Some(candidate)
    }

    /// Returns a candidate to its queue position. A peek that left it out would drop it, and a later intent would
    /// overtake it (N11).
    pub(super) fn put_back(&mut self, candidate: Candidate) {
        if let PeekState::InFlight(peek) = &mut self.peek {
            peek.taken.remove(&candidate.tx.id);
            if peek.excluded.contains(&candidate.tx.id) {
                self.ignore_peek_in_flight();
            }
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
        if let PeekState::InFlight(peek) = &mut self.peek {
            peek.taken.extend(failing.iter().map(|candidate| candidate.tx.id));
        }
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
