//! Reservations: nonces that callers sign for.
//!
//! A reservation request waits in the queue like any other intent. At its turn it gets the smallest recyclable nonce,
//! or else the next nonce. While the nonce is reserved, nothing is sent. After the caller has submitted its
//! transaction, the slot is like any other. A nonce whose reservation ended without a transaction (released or timed
//! out) is reserved again if the next candidate is a reservation request; otherwise it is filled.

use std::collections::VecDeque;
use std::time::Duration;

use crate::amount::Amount;
use crate::attempt::NewAttempt;
use crate::block::BlockRef;
use crate::command::CommandResult;
use crate::cursor::Cursor;
use crate::intent_record::IntentRecord;
use crate::lane_commit::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::payload::{Payload, ReservationRequest};
use crate::reservation::{LockOwner, Reservation, ReservationStatus, ReservationStep};
use crate::slot::SlotKind;
use crate::time::{Tick, Timestamp};
use crate::transition::Transition;

use super::Lane;
use super::canceling::UNRECONCILED;
use super::commands::{done, refused};
use super::open_slot::{NextAttempt, OpenSlot};
use super::pending_commit::PendingCommit;
use super::queue::Candidate;

/// Extra time before the lane ends a reservation, so that the store, whose clock decides, agrees that it timed out.
const GRACE: Duration = Duration::from_millis(100);

/// State of a slot's reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SlotReservation {
    /// The nonce was never reserved, or its transaction was submitted.
    NotReserved,
    /// The nonce is reserved for this owner.
    Reserved { to: LockOwner, until: Timestamp },
    /// The reservation ended without a transaction.
    Recyclable,
}

/// A reservation in the commit in flight.
#[derive(Debug)]
pub(super) struct PendingReservation {
    pub(super) candidate: Candidate,
    nonce: Nonce,
    /// The nonce is bound in the same commit.
    pub(super) is_fresh: bool,
    to: LockOwner,
    hold: Duration,
}

impl OpenSlot {
    pub(super) fn restore_reservation(&mut self, reservation: Reservation) {
        self.reservation = match reservation.status {
            ReservationStatus::Reserved { lock_owner, locked_until, .. } => {
                SlotReservation::Reserved { to: lock_owner, until: locked_until }
            }
            ReservationStatus::Recyclable => SlotReservation::Recyclable,
            ReservationStatus::Used { .. } => SlotReservation::NotReserved,
        };
    }

    /// Marks a slot as lost. A returned nonce with neither an attempt nor a RECYCLABLE reservation was consumed on
    /// chain while it was reserved.
    pub(super) fn restore_lost(&mut self) {
        self.lost = self.is_unclaimed() && !self.is_recyclable() && self.attempts.is_empty();
    }

    pub(super) fn is_reserved(&self) -> bool {
        matches!(self.reservation, SlotReservation::Reserved { .. })
    }

    pub(super) fn reserved_until(&self) -> Option<Timestamp> {
        match &self.reservation {
            SlotReservation::Reserved { until, .. } => Some(*until),
            SlotReservation::NotReserved | SlotReservation::Recyclable => None,
        }
    }

    pub(super) fn is_recyclable(&self) -> bool {
        self.reservation == SlotReservation::Recyclable
    }

    pub(super) fn reservation_ends_at(&self) -> Option<Timestamp> {
        self.reserved_until().map(|until| until.saturating_add(GRACE))
    }

    /// True if the reservation ended without a transaction, so that the nonce needs a filler.
    pub(super) fn is_unclaimed(&self) -> bool {
        let was_used = self.attempts.iter().any(|held| held.attempt.kind.carries_payload());
        self.kind == SlotKind::Reservation && !self.is_reserved() && self.tx.is_none() && !was_used
    }

    fn reserve(&mut self, tx: Box<IntentRecord>, to: LockOwner, until: Timestamp) {
        self.tx = Some(tx);
        self.reservation = SlotReservation::Reserved { to, until };
        // A filler that is being made comes too late.
        self.next_attempt = NextAttempt::None;
    }
}

impl Candidate {
    pub(super) fn reservation_request(&self) -> Option<&ReservationRequest> {
        match self.tx.payload() {
            Payload::Reservation(request) => Some(request),
            Payload::Evm(_) => None,
        }
    }
}

impl Lane {
    /// True if the next candidate is a reservation request. Recyclable nonces are then reserved, not filled.
    pub(super) fn reservation_is_next(&self) -> bool {
        self.queue.first().is_some_and(|first| first.reservation_request().is_some()) && self.may_bind()
    }

    /// Reserves nonces for the requests whose turn it is, behind all binds of this commit.
    pub(super) fn write_reservations(
        &mut self,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        // Attempts at the signer come before the candidates. Reservations that end or change in this commit are known
        // only after it.
        let at_the_signer = self.signing.iter().flatten().any(|item| item.candidate.is_some());
        let to = commit.cursor().map_or(cursor, |change| change.to());
        let moves = !pending.ended_reservations.is_empty() || pending.reconciled.changes_slots();
        if at_the_signer || moves || to.is_protected() || to.paused || !self.may_bind() {
            return Ok(());
        }
        let open = self.setup.limits.open_slots.saturating_sub(self.slots.len());
        let mut room = self.window_left().min(open).saturating_sub(pending.binds());
        // This commit fills none of them, because the next candidate is a reservation request.
        let mut recyclable: VecDeque<Nonce> = self.slots.recyclable().collect();
        while pending.reservations.len() < self.setup.limits.batch
            && let Some(index) = self.queue.first_index()
            && let Some(candidate) = self.queue.candidates.get(index)
            && let Some(ReservationRequest { lock_owner, hold_ms }) = candidate.reservation_request().cloned()
        {
            let (tx_id, hold) = (candidate.tx.id, Duration::from_millis(u64::from(hold_ms)));
            let to = lock_owner.clone();
            let is_fresh = recyclable.is_empty();
            let nonce = match recyclable.pop_front() {
                Some(nonce) => nonce,
                None if room > 0 => commit.cursor().map_or(cursor, |change| change.to()).next_nonce,
                None => break,
            };
            let step = ReservationStep::Reserve { nonce, tx_id, lock_owner, hold };
            if is_fresh {
                commit.bind_reserved(cursor, &candidate.tx, step)?;
                room -= 1;
            } else {
                commit.lend_again(&candidate.tx, step)?;
            }
            let Some(candidate) = self.queue.take(index) else { break };
            pending.reservations.push(PendingReservation { candidate, nonce, is_fresh, to, hold });
        }
        Ok(())
    }

    /// Applies a committed reservation. It ends by the store's clock; the lane allows for [`GRACE`].
    pub(super) fn apply_reservation(
        &mut self,
        reservation: PendingReservation,
        above: Option<BlockRef>,
        at: Timestamp,
    ) {
        let PendingReservation { candidate: Candidate { mut tx, .. }, nonce, is_fresh, to, hold } = reservation;
        tx.apply_bind(nonce, at);
        if is_fresh {
            self.slots.insert(OpenSlot { above, ..OpenSlot::empty(nonce, SlotKind::Reservation) });
        }
        self.slots.update(nonce, |slot| slot.reserve(tx, to, at.saturating_add(hold)));
    }

    /// Submits a caller's transaction for its reserved nonce.
    pub(super) fn use_reserved(
        &mut self,
        by: &LockOwner,
        attempt: NewAttempt,
        cost: Amount,
        at: Timestamp,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> CommandResult {
        let nonce = attempt.nonce;
        let is_this = |other: &NewAttempt| other.nonce == nonce && other.hash == attempt.hash;
        let held = self.slots.get(nonce).and_then(|slot| slot.kind_of(attempt.hash)).is_some();
        if held || pending.submitted.iter().any(|(other, _)| is_this(other)) {
            return done("the transaction was already submitted");
        }
        if let Err(why) = self.check_reservation(nonce, by, at, pending) {
            return refused(&why);
        }
        commit.reservation(ReservationStep::Use { nonce, lock_owner: by.clone() }).attempt(attempt.clone());
        // The transaction is signed, and its owner can send it at any time, so the funds are not checked.
        self.funds.spend_unchecked(cost);
        pending.submitted.push((attempt, cost));
        done("the transaction was accepted and is sent until the chain includes it")
    }

    /// Releases a reserved nonce.
    pub(super) fn release_reserved(
        &mut self,
        nonce: Nonce,
        by: &LockOwner,
        at: Timestamp,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<CommandResult, CommitError> {
        if let Err(why) = self.check_reservation(nonce, by, at, pending) {
            return Ok(refused(&why));
        }
        if !self.may_end() {
            return Ok(refused(UNRECONCILED));
        }
        self.end_reservation(nonce, ReservationStep::Release { nonce, lock_owner: by.clone() }, commit, pending)?;
        Ok(done("the nonce is released"))
    }

    /// Ends the reservations that timed out.
    pub(super) fn write_expired_reservations(
        &self,
        now: Tick,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        let overdue = self.slots.overdue(self.database_now(now));
        let is_reserved = |nonce: &Nonce| self.slots.get(*nonce).is_some_and(OpenSlot::is_reserved);
        for nonce in overdue.into_iter().filter(is_reserved).filter(|_| self.may_end()) {
            self.end_reservation(nonce, ReservationStep::Expire { nonce }, commit, pending)?;
        }
        Ok(())
    }

    /// Settles reservations by the result of a scan. A transaction that the caller sent without submitting it here
    /// counts as the caller's transaction, or fills a recyclable nonce. A lost nonce is no longer reserved.
    pub(super) fn settle_reservations(&self, commit: &mut LaneCommit, pending: &PendingCommit) {
        let reservation_of =
            |nonce: Nonce| self.slots.get(nonce).map_or(&SlotReservation::NotReserved, |slot| &slot.reservation);
        for (attempt, _) in &pending.reconciled.attached {
            let nonce = attempt.nonce;
            match reservation_of(nonce) {
                SlotReservation::Reserved { to, .. } => {
                    commit.reservation(ReservationStep::Use { nonce, lock_owner: to.clone() });
                }
                SlotReservation::Recyclable => {
                    commit.reservation(ReservationStep::Fill { nonce });
                }
                SlotReservation::NotReserved => {}
            }
        }
        for (nonce, _) in &pending.reconciled.lost {
            let nonce = *nonce;
            if let SlotReservation::Reserved { to, .. } = reservation_of(nonce) {
                commit.reservation(ReservationStep::Release { nonce, lock_owner: to.clone() });
            }
            if *reservation_of(nonce) != SlotReservation::NotReserved {
                commit.reservation(ReservationStep::Fill { nonce });
            }
        }
    }

    fn end_reservation(
        &self,
        nonce: Nonce,
        step: ReservationStep,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        let Some(mut tx) = self.intent_at(nonce, pending).cloned() else { return Ok(()) };
        commit.take_back(&tx, step)?;
        tx.state = tx.state.apply(Transition::ReleaseReserved)?;
        tx.version = tx.version.saturating_add(1);
        pending.changed.insert(nonce, Box::new(tx));
        pending.ended_reservations.push(nonce);
        Ok(())
    }

    /// Checks that the nonce is reserved for this owner, as this commit leaves it so far. The store checks again, by
    /// its own clock.
    fn check_reservation(
        &self,
        nonce: Nonce,
        by: &LockOwner,
        at: Timestamp,
        pending: &PendingCommit,
    ) -> Result<(), String> {
        let is_submitted = pending.submitted.iter().any(|(attempt, _)| attempt.nonce == nonce);
        let has_ended = pending.ended_reservations.contains(&nonce);
        let slot = self.slots.get(nonce).filter(|slot| slot.kind == SlotKind::Reservation);
        match slot.map(|slot| &slot.reservation) {
            None => Err(format!("nonce {nonce} is not reserved")),
            Some(SlotReservation::Recyclable) => Err(format!("nonce {nonce} is no longer reserved")),
            Some(_) if has_ended => Err(format!("nonce {nonce} is no longer reserved")),
            Some(SlotReservation::NotReserved) => Err(format!("a transaction for nonce {nonce} was already submitted")),
            Some(_) if is_submitted => Err(format!("a transaction for nonce {nonce} was already submitted")),
            Some(SlotReservation::Reserved { to, .. }) if to != by => {
                Err(format!("nonce {nonce} is reserved by another lock owner"))
            }
            Some(SlotReservation::Reserved { until, .. }) if *until <= at => {
                Err(format!("the reservation of nonce {nonce} has timed out"))
            }
            Some(SlotReservation::Reserved { .. }) => Ok(()),
        }
    }
}
