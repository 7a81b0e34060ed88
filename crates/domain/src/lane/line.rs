//! The queue as the lane sees it: the first in line, and how far each is prepared.

use std::collections::{HashSet, VecDeque};

use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::payload::{EvmCall, Payload};
use crate::state::FailReason;
use crate::text::NodeText;
use crate::time::{Tick, Timestamp};

use super::fact::Prepared;

#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) waiting: VecDeque<Candidate>,
    pub(super) peeking: bool,
    /// Something may be new since the last look began.
    pub(super) look: bool,
    /// The last look brought as many as it had asked for.
    pub(super) more: bool,
    /// Somebody may have come since the last look: the lane was called, or it was time, and it looked at its commands alone.
    pub(super) passed_by: bool,
    /// Something is asked of one who may be among them.
    pub(super) must_look: bool,
    /// When it was last read or, by the clock, passed by.
    pub(super) looked_at: Tick,
    /// When the last read began that brought an answer.
    pub(super) read_at: Tick,
    /// Since the last commit began.
    pub(super) has_looked: bool,
    /// When the last look began, also one at the commands alone.
    pub(super) began_at: Tick,
    /// The last look brought no answer.
    pub(super) failed: bool,
    /// Somebody has looked, since the lane was loaded.
    pub(super) known: bool,
    /// The look that is under way began before somebody came back into the line.
    distrusted: bool,
    /// Nobody in it is past their time before this, but those who fail already; `None` if nobody ever is.
    expires_at: Option<Timestamp>,
    /// False if nobody in it fails. Most lines have nobody who does, and are not gone through to find that out.
    may_have_doomed: bool,
    /// Out of the line when the look that is under way began: they are not asked for, and not believed in if they are named all the same.
    passed_over: HashSet<TxId>,
    /// Out of the line since: its answer may still name them.
    taken: HashSet<TxId>,
}

#[derive(Debug)]
pub(super) struct Candidate {
    /// Boxed, here and wherever the lane keeps one: it goes from list to list on its way.
    pub(super) tx: Box<IntentRecord>,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    Waiting,
    Asked,
    Ready {
        prepared: Prepared,
        at: Tick,
    },
    Later(Tick),
    /// Fails with the next commit; uses no nonce.
    Doomed(FailReason, NodeText),
}

impl Candidate {
    pub(super) fn call(&self) -> Option<&EvmCall> {
        match self.tx.payload() {
            Payload::Evm(call) => Some(call),
            Payload::Reservation(_) => None,
        }
    }

    pub(super) fn is_doomed(&self) -> bool {
        matches!(self.stage, Stage::Doomed(..))
    }

    fn valid_until(&self) -> Option<Timestamp> {
        self.tx.intent.valid_until()
    }

    /// Does pricing it need nobody's answer?
    pub(super) fn decided(&self) -> Option<Prepared> {
        let call = self.call()?;
        Some(Prepared::new(call.gas_limit?, call.fees?))
    }
}

impl Line {
    /// Nobody has looked yet.
    pub(super) fn unseen() -> Self {
        Line { look: true, ..Line::default() }
    }

    /// `leaving` are those who are out of the line, while the store may still have them in the queue: they are not asked for.
    pub(super) fn begin_look(&mut self, now: Tick, leaving: HashSet<TxId>) {
        self.peeking = true;
        self.distrusted = false;
        self.look = false;
        (self.began_at, self.looked_at) = (now, now);
        self.has_looked = true;
        self.passed_over = leaving;
        self.taken.clear();
    }

    /// A look at the commands alone: whoever is new is further back.
    pub(super) fn begin_look_past(&mut self, now: Tick) {
        self.began_at = now;
        self.peeking = true;
        self.distrusted = false;
        self.look = false;
        self.passed_by = true;
        self.passed_over.clear();
    }

    pub(super) fn looked_past(&mut self) {
        self.peeking = false;
        self.failed = false;
        self.distrusted = false;
    }

    /// What the queue was when it was looked at. Those who are known keep their stage; those who are gone are forgotten.
    pub(super) fn merge(&mut self, queue: Vec<IntentRecord>, asked: usize, is_ours: impl Fn(TxId) -> bool) {
        self.peeking = false;
        self.failed = false;
        if std::mem::take(&mut self.distrusted) {
            self.look = true;
            return;
        }
        self.known = true;
        self.read_at = self.began_at;
        (self.passed_by, self.must_look) = (false, false);
        self.more = queue.len() >= asked;
        let last_seq = queue.last().map(|tx| tx.seq);
        let mut known: VecDeque<Candidate> = std::mem::take(&mut self.waiting);
        for tx in queue {
            if self.passed_over.contains(&tx.id) || self.taken.contains(&tx.id) || is_ours(tx.id) {
                continue;
            }
            while known.front().is_some_and(|candidate| candidate.tx.seq < tx.seq) {
                known.pop_front();
            }
            let same = known.front().is_some_and(|c| c.tx.id == tx.id && c.tx.version == tx.version);
            let stage = if same { known.pop_front().map_or(Stage::Waiting, |c| c.stage) } else { Stage::Waiting };
            self.waiting.push_back(Candidate { tx: Box::new(tx), stage });
        }
        if self.more {
            // The look ended before these; they are still in line.
            self.waiting.extend(known.into_iter().filter(|candidate| Some(candidate.tx.seq) > last_seq));
        }
        self.expires_at = self.waiting.iter().filter_map(Candidate::valid_until).min();
    }

    /// Was it looked at, and nobody is in it?
    pub(super) fn is_known_empty(&self) -> bool {
        self.known && self.waiting.is_empty() && !self.may_have_more()
    }

    /// May somebody stand behind those who are known?
    pub(super) fn may_have_more(&self) -> bool {
        self.more || self.passed_by
    }

    /// What a look brings that is under way is not believed.
    pub(super) fn distrust(&mut self) {
        self.distrusted = self.peeking;
        self.look = true;
    }

    pub(super) fn is_distrusted(&self) -> bool {
        self.distrusted
    }

    pub(super) fn look_failed(&mut self) {
        self.peeking = false;
        self.failed = true;
        self.look = true;
    }

    pub(super) fn take(&mut self, index: usize) -> Option<Candidate> {
        let candidate = self.waiting.remove(index)?;
        self.taken.insert(candidate.tx.id);
        Some(candidate)
    }

    /// To its own place in line. A look that passed it over would take it for gone, and somebody else would get ahead (N11).
    pub(super) fn put_back(&mut self, candidate: Candidate) {
        self.taken.remove(&candidate.tx.id);
        if self.peeking && self.passed_over.contains(&candidate.tx.id) {
            self.distrust();
        }
        self.expires_at = [self.expires_at, candidate.valid_until()].into_iter().flatten().min();
        self.may_have_doomed |= candidate.is_doomed();
        let place = self.waiting.partition_point(|other| other.tx.seq < candidate.tx.seq);
        self.waiting.insert(place, candidate);
    }

    /// The next one that wants a nonce.
    pub(super) fn first(&self) -> Option<&Candidate> {
        self.waiting.get(self.first_index()?)
    }

    pub(super) fn first_index(&self) -> Option<usize> {
        self.waiting.iter().position(|candidate| !candidate.is_doomed())
    }

    /// Those who fail, out of the line.
    pub(super) fn take_doomed(&mut self) -> Vec<Candidate> {
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (doomed, rest): (Vec<_>, Vec<_>) = all.partition(Candidate::is_doomed);
        self.waiting = rest.into();
        self.may_have_doomed = false;
        self.taken.extend(doomed.iter().map(|candidate| candidate.tx.id));
        doomed
    }

    /// Also those for which there is no room yet.
    pub(super) fn doom_expired(&mut self, database_now: Timestamp) {
        if self.expires_at.is_none_or(|at| at > database_now) {
            return;
        }
        for candidate in &mut self.waiting {
            let expired = candidate.valid_until().is_some_and(|until| until <= database_now);
            if expired && !candidate.is_doomed() {
                candidate.stage = Stage::Doomed(FailReason::Expired, NodeText::new("it was not sent in time"));
                self.may_have_doomed = true;
            }
        }
        let later = |until: &Timestamp| *until > database_now;
        self.expires_at = self.waiting.iter().filter_map(Candidate::valid_until).filter(later).min();
    }

    /// Those who were to fail because they reverted are asked about anew.
    pub(super) fn doubt_reverts(&mut self) {
        if !self.has_doomed() {
            return;
        }
        for candidate in &mut self.waiting {
            if matches!(candidate.stage, Stage::Doomed(FailReason::SimulationReverted, _)) {
                candidate.stage = Stage::Waiting;
                // Its time may have passed meanwhile.
                self.expires_at = [self.expires_at, candidate.valid_until()].into_iter().flatten().min();
            }
        }
    }

    pub(super) fn has_doomed(&mut self) -> bool {
        let has_doomed = || self.waiting.iter().any(Candidate::is_doomed);
        debug_assert!(self.may_have_doomed || !has_doomed(), "somebody fails, and the line does not know");
        self.may_have_doomed = self.may_have_doomed && has_doomed();
        self.may_have_doomed
    }

    pub(super) fn find(&self, id: TxId) -> Option<usize> {
        self.waiting.iter().position(|candidate| candidate.tx.id == id)
    }

    /// How far the one at `index` is.
    pub(super) fn set_stage(&mut self, index: usize, stage: Stage) {
        if let Some(candidate) = self.waiting.get_mut(index) {
            candidate.stage = stage;
            self.may_have_doomed |= candidate.is_doomed();
        }
    }

    /// What was put off is worth another try: the chain or the purse has moved.
    pub(super) fn try_again(&mut self) {
        for candidate in &mut self.waiting {
            if matches!(candidate.stage, Stage::Later(_)) {
                candidate.stage = Stage::Waiting;
            }
        }
    }
}
