//! Lending: nonces for callers who sign by themselves (the low-level API).
//!
//! A request for one stands in line like any other intent. At its turn it is lent the smallest nonce that came back, or else the
//! next one. While it is lent nothing is sent; when its transaction is given to us, the slot is one like any other. What comes
//! back without one (released, or past its time) is lent to whoever is next in line, if that is such a caller, or filled.

use std::collections::VecDeque;
use std::time::Duration;

use crate::amount::Amount;
use crate::attempt::NewAttempt;
use crate::block::BlockRef;
use crate::command::CommandResult;
use crate::cursor::Cursor;
use crate::intent_record::IntentRecord;
use crate::ledger::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::payload::{Payload, ReservationRequest};
use crate::reservation::{LockOwner, Reservation, ReservationStatus, ReservationStep};
use crate::slot::SlotKind;
use crate::time::{Tick, Timestamp};
use crate::transition::Transition;

use super::Lane;
use super::canceling::UNRECONCILED;
use super::commands::{done, refused};
use super::line::Candidate;
use super::open_slot::{OpenSlot, Remedy};
use super::writing::Writing;

/// How much later than the ledger says a loan is taken to be over, so that the store, whose clock decides, agrees.
const GRACE: Duration = Duration::from_millis(100);

/// Who has the nonce of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lending {
    /// We do: it was never lent, or there is a transaction for it by now.
    Ours,
    Lent {
        to: LockOwner,
        until: Timestamp,
    },
    /// Nobody: it came back without a transaction.
    Recyclable,
}

/// One that is being lent.
#[derive(Debug)]
pub(super) struct Loan {
    pub(super) candidate: Candidate,
    nonce: Nonce,
    /// It was bound for this.
    pub(super) is_fresh: bool,
    to: LockOwner,
    hold: Duration,
}

impl OpenSlot {
    pub(super) fn restore_lending(&mut self, reservation: Reservation) {
        self.lending = match reservation.status {
            ReservationStatus::Reserved { lock_owner, locked_until, .. } => {
                Lending::Lent { to: lock_owner, until: locked_until }
            }
            ReservationStatus::Recyclable => Lending::Recyclable,
            ReservationStatus::Used { .. } => Lending::Ours,
        };
    }

    /// A filler is written with the word that it fills. Without one, it was found to be used up while it was lent.
    pub(super) fn restore_loss(&mut self) {
        self.lost = self.is_unclaimed() && !self.is_recyclable() && self.attempts.is_empty();
    }

    pub(super) fn is_lent(&self) -> bool {
        matches!(self.lending, Lending::Lent { .. })
    }

    pub(super) fn is_lent_until(&self) -> Option<Timestamp> {
        match &self.lending {
            Lending::Lent { until, .. } => Some(*until),
            Lending::Ours | Lending::Recyclable => None,
        }
    }

    pub(super) fn is_recyclable(&self) -> bool {
        self.lending == Lending::Recyclable
    }

    pub(super) fn loan_ends_at(&self) -> Option<Timestamp> {
        self.is_lent_until().map(|until| until.saturating_add(GRACE))
    }

    /// It was lent once, came back, and is to be filled: no caller has given a transaction for it.
    pub(super) fn is_unclaimed(&self) -> bool {
        let was_used = self.attempts.iter().any(|held| held.attempt.kind.carries_payload());
        self.kind == SlotKind::Reservation && !self.is_lent() && self.tx.is_none() && !was_used
    }

    fn lend(&mut self, tx: Box<IntentRecord>, to: LockOwner, until: Timestamp) {
        self.tx = Some(tx);
        self.lending = Lending::Lent { to, until };
        // A filler that is being made for it comes too late.
        self.remedy = Remedy::None;
    }
}

impl Candidate {
    pub(super) fn external(&self) -> Option<&ReservationRequest> {
        match self.tx.payload() {
            Payload::Reservation(external) => Some(external),
            Payload::Evm(_) => None,
        }
    }
}

impl Lane {
    /// Is it the turn of somebody who takes what came back? Then it is not filled.
    pub(super) fn borrower_is_next(&self) -> bool {
        self.line.first().is_some_and(|first| first.external().is_some()) && self.may_bind()
    }

    /// Lends to those whose turn it is, behind everything that this commit binds.
    pub(super) fn write_loans(
        &mut self,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        // Those at the signer stand before whoever is in line. And what comes back with this commit, or goes, is known when it is
        // written.
        let at_the_signer = self.signing.iter().flatten().any(|item| item.candidate.is_some());
        let to = commit.cursor().map_or(cursor, |change| change.to());
        let moves = !writing.taken_back.is_empty() || writing.recovered.changes_slots();
        if at_the_signer || moves || to.is_protected() || to.paused || !self.may_bind() {
            return Ok(());
        }
        let open = self.setup.limits.open_slots.saturating_sub(self.slots.len());
        let mut room = self.window_left().min(open).saturating_sub(writing.binds());
        // None of them is filled by this commit: it is the turn of somebody who takes them.
        let mut back: VecDeque<Nonce> = self.slots.recyclable().collect();
        while writing.loans.len() < self.setup.limits.batch
            && let Some(index) = self.line.first_index()
            && let Some(candidate) = self.line.waiting.get(index)
            && let Some(ReservationRequest { lock_owner, hold_ms }) = candidate.external().cloned()
        {
            let (tx_id, hold) = (candidate.tx.id, Duration::from_millis(u64::from(hold_ms)));
            let to = lock_owner.clone();
            let is_fresh = back.is_empty();
            let nonce = match back.pop_front() {
                Some(nonce) => nonce,
                None if room > 0 => commit.cursor().map_or(cursor, |change| change.to()).next_nonce,
                None => break,
            };
            let step = ReservationStep::Reserve { nonce, tx_id, lock_owner, hold };
            if is_fresh {
                commit.bind_reserved(cursor, &candidate.tx, step)?;
                room -= 1;
            } else {
                commit.reserve_again(&candidate.tx, step)?;
            }
            let Some(candidate) = self.line.take(index) else { break };
            writing.loans.push(Loan { candidate, nonce, is_fresh, to, hold });
        }
        Ok(())
    }

    /// The store holds it from its own time on; so do we, within [`GRACE`].
    pub(super) fn take_loan_for_true(&mut self, loan: Loan, above: Option<BlockRef>, at: Timestamp) {
        let Loan { candidate: Candidate { mut tx, .. }, nonce, is_fresh, to, hold } = loan;
        tx.bound(nonce, at);
        if is_fresh {
            self.slots.insert(OpenSlot { above, ..OpenSlot::empty(nonce, SlotKind::Reservation) });
        }
        self.slots.update(nonce, |slot| slot.lend(tx, to, at.saturating_add(hold)));
    }

    /// A caller's transaction for the nonce that it was lent.
    pub(super) fn use_reserved(
        &mut self,
        by: &LockOwner,
        attempt: NewAttempt,
        cost: Amount,
        at: Timestamp,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> CommandResult {
        let nonce = attempt.nonce;
        let is_this = |other: &NewAttempt| other.nonce == nonce && other.hash == attempt.hash;
        let held = self.slots.get(nonce).and_then(|slot| slot.kind_of(attempt.hash)).is_some();
        if held || writing.given.iter().any(|(other, _)| is_this(other)) {
            return done("it was given already");
        }
        if let Err(why) = self.check_loan(nonce, by, at, writing) {
            return refused(&why);
        }
        commit.reservation(ReservationStep::Use { nonce, lock_owner: by.clone() }).attempt(attempt.clone());
        // It is signed, and can be sent by its owner at any time: nobody asks whether there are funds for it.
        self.purse.owe(cost);
        writing.given.push((attempt, cost));
        done("it is sent from now on, until the chain has it")
    }

    pub(super) fn release_reserved(
        &mut self,
        nonce: Nonce,
        by: &LockOwner,
        at: Timestamp,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<CommandResult, CommitError> {
        if let Err(why) = self.check_loan(nonce, by, at, writing) {
            return Ok(refused(&why));
        }
        if !self.may_end() {
            return Ok(refused(UNRECONCILED));
        }
        self.take_back(nonce, ReservationStep::Release { nonce, lock_owner: by.clone() }, commit, writing)?;
        Ok(done("it is released"))
    }

    /// Lent nonces that are past their time come back.
    pub(super) fn write_ended_loans(
        &self,
        now: Tick,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        let overdue = self.slots.overdue(self.database_now(now));
        let is_lent = |nonce: &Nonce| self.slots.get(*nonce).is_some_and(OpenSlot::is_lent);
        for nonce in overdue.into_iter().filter(is_lent).filter(|_| self.may_end()) {
            self.take_back(nonce, ReservationStep::Expire { nonce }, commit, writing)?;
        }
        Ok(())
    }

    /// What a survey has found at nonces that are lent, or came back: the caller has sent it without giving it to us. It is the
    /// caller's transaction all the same, or fills what is nobody's. And what is gone is lent no more.
    pub(super) fn settle_loans(&self, commit: &mut LaneCommit, writing: &Writing) {
        let lending = |nonce: Nonce| self.slots.get(nonce).map_or(&Lending::Ours, |slot| &slot.lending);
        for (attempt, _) in &writing.recovered.attached {
            let nonce = attempt.nonce;
            match lending(nonce) {
                Lending::Lent { to, .. } => {
                    commit.reservation(ReservationStep::Use { nonce, lock_owner: to.clone() });
                }
                Lending::Recyclable => {
                    commit.reservation(ReservationStep::Fill { nonce });
                }
                Lending::Ours => {}
            }
        }
        for (nonce, _) in &writing.recovered.lost {
            let nonce = *nonce;
            if let Lending::Lent { to, .. } = lending(nonce) {
                commit.reservation(ReservationStep::Release { nonce, lock_owner: to.clone() });
            }
            if *lending(nonce) != Lending::Ours {
                commit.reservation(ReservationStep::Fill { nonce });
            }
        }
    }

    fn take_back(
        &self,
        nonce: Nonce,
        step: ReservationStep,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        let Some(mut tx) = self.intent_at(nonce, writing).cloned() else { return Ok(()) };
        commit.end_reservation(&tx, step)?;
        tx.state = tx.state.apply(Transition::ReleaseReserved)?;
        tx.version = tx.version.saturating_add(1);
        writing.changed.insert(nonce, Box::new(tx));
        writing.taken_back.push(nonce);
        Ok(())
    }

    /// Is it lent to this caller, as far as this commit has come? The store asks once more, by its own clock.
    fn check_loan(&self, nonce: Nonce, by: &LockOwner, at: Timestamp, writing: &Writing) -> Result<(), String> {
        let given = writing.given.iter().any(|(attempt, _)| attempt.nonce == nonce);
        let came_back = writing.taken_back.contains(&nonce);
        let slot = self.slots.get(nonce).filter(|slot| slot.kind == SlotKind::Reservation);
        match slot.map(|slot| &slot.lending) {
            None => Err(format!("nonce {nonce} is not lent")),
            Some(Lending::Recyclable) => Err(format!("nonce {nonce} is no longer lent")),
            Some(_) if came_back => Err(format!("nonce {nonce} is no longer lent")),
            Some(Lending::Ours) => Err(format!("there is a transaction for nonce {nonce} already")),
            Some(_) if given => Err(format!("there is a transaction for nonce {nonce} already")),
            Some(Lending::Lent { to, .. }) if to != by => Err(format!("nonce {nonce} is lent to another owner")),
            Some(Lending::Lent { until, .. }) if *until <= at => {
                Err(format!("the time for which nonce {nonce} was lent is over"))
            }
            Some(Lending::Lent { .. }) => Ok(()),
        }
    }
}
