//! Expiry: intents whose `valid_until` has passed, candidates that fail in the queue, and reservations that timed out.

use crate::ledger::CommitError;
use crate::nonce::Nonce;
use crate::reservation::ReservationStep;
use crate::state::CancelReason;
use crate::time::{Tick, Timestamp};
use crate::transition::Transition;

use crate::lane::Lane;
use crate::lane::draft::Draft;
use crate::lane::open_slot::OpenSlot;
use crate::lane::queue::Stage;

impl Lane {
    /// Cancels bound intents that have expired and are not mined (S16).
    pub(in crate::lane) fn write_expired(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        for nonce in self.ledger.slots.overdue(draft.at) {
            let Some((slot, _)) = draft.bound(nonce, &self.ledger.slots) else { continue };
            if !slot.is_reserved() && !draft.cancels(nonce, &self.ledger.slots) && !draft.explains(nonce) {
                draft.want_cancel(nonce, CancelReason::Expired, &self.ledger.slots)?;
            }
        }
        // Deadlines of reservations are included.
        self.ledger.slots.next_deadline(draft.at).into_iter().for_each(|due| draft.step.wake(self.tick_of(due)));
        Ok(())
    }

    /// Ends the candidates that fail in the queue.
    pub(in crate::lane) fn write_failing(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        if !self.ledger.slots.unmined().is_empty() {
            // An earlier transaction was orphaned since the simulation reverted (S19).
            self.queue.retry_reverted();
        }
        if !self.queue.has_failing()
            || self.ledger.cursor.as_ref().is_some_and(|cursor| cursor.state.is_store_regressed())
        {
            return Ok(());
        }
        let mut written = Ok(());
        for candidate in self.queue.take_failing() {
            if let (Stage::Failing(reason, text), Ok(())) = (&candidate.stage, &written) {
                let transition = Transition::FailInQueue(*reason, text.clone());
                written = draft.change_queued(candidate, transition);
            } else {
                draft.taken.candidates.push(candidate);
            }
        }
        written
    }

    /// Lets cancels take the place of reservations that timed out, while no intent may end.
    pub(in crate::lane) fn time_out_reservations(&mut self, now: Tick) {
        let is_unreconciled = self.ledger.cursor.as_ref().is_some_and(|cursor| cursor.state.is_store_regressed());
        if !is_unreconciled {
            return;
        }
        for nonce in self.ledger.slots.overdue(self.database_now(now)) {
            self.ledger.slots.update(nonce, OpenSlot::time_out);
        }
    }

    /// Writes that the intent of a reservation that timed out is being canceled. The cancel is in the same commit.
    pub(in crate::lane) fn write_timed_out(&self, nonce: Nonce, draft: &mut Draft) -> Result<(), CommitError> {
        draft.change(nonce, Transition::WantCancel(CancelReason::Expired), &self.ledger.slots)?;
        draft.commit.reservation(ReservationStep::Cancel { nonce });
        Ok(())
    }

    /// Ends the reservations that timed out.
    pub(in crate::lane) fn write_expired_reservations(&self, draft: &mut Draft) -> Result<(), CommitError> {
        let is_reserved = |nonce: &Nonce| self.ledger.slots.get(*nonce).is_some_and(OpenSlot::is_reserved);
        let overdue = self.ledger.slots.overdue(draft.at).into_iter().filter(is_reserved);
        for nonce in overdue.filter(|_| self.may_end()) {
            draft.end_reservation(ReservationStep::Expire { nonce }, &self.ledger.slots)?;
        }
        Ok(())
    }
}

impl OpenSlot {
    /// The end of the reservation or, for an unmined intent, its `valid_until`.
    pub(in crate::lane) fn deadline(&self) -> Option<Timestamp> {
        let expires = || {
            let wants_it = self.is_unmined() && !self.wants_filler();
            self.tx.as_ref().filter(|_| wants_it)?.intent.valid_until()
        };
        self.reservation_ends_at().or_else(expires)
    }

    /// True before the deadline. An expired attempt is not sent again while its cancel is being made.
    pub(in crate::lane) fn is_in_time(&self, database_now: Timestamp) -> bool {
        self.deadline().is_none_or(|at| at > database_now)
    }
}
