//! Reserving: nonces for the reservation requests whose turn it is.

use std::collections::VecDeque;
use std::time::Duration;

use crate::ledger::CommitError;
use crate::nonce::Nonce;
use crate::reservation::ReservationStep;

use crate::lane::Lane;
use crate::lane::draft::Draft;
use crate::lane::reservations::SlotReservation;

impl Lane {
    /// True if the next candidate is a reservation request. Recyclable nonces are then reserved, not filled.
    pub(in crate::lane) fn reservation_is_next(&self) -> bool {
        self.queue.first().is_some_and(|first| first.reservation_request().is_some()) && self.may_bind()
    }

    /// Reserves nonces for the requests whose turn it is, behind all binds of this commit.
    pub(in crate::lane) fn write_reservations(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        // Attempts at the signer come before the candidates. Reservations that end or change in this commit are known
        // only after it.
        let at_the_signer = self.signer.in_flight.iter().flatten().any(|item| item.candidate.is_some());
        let moves = draft.ended_reservations().next().is_some() || draft.reconciles();
        if at_the_signer || moves || !self.may_bind_in(draft) {
            return Ok(());
        }
        let open = self.setup.limits.open_slots.saturating_sub(self.ledger.slots.len());
        let mut room = self.window_left().min(open).saturating_sub(draft.binds());
        // This commit fills none of them, because the next candidate is a reservation request.
        let mut recyclable: VecDeque<Nonce> = self.ledger.slots.recyclable().collect();
        for _ in 0..self.setup.limits.batch {
            let Some(index) = self.queue.first_index() else { break };
            let Some(candidate) = self.queue.candidates.get(index) else { break };
            let Some(request) = candidate.reservation_request() else { break };
            let is_fresh = recyclable.is_empty();
            let next = || draft.cursor().map(|cursor| cursor.next_nonce).filter(|_| room > 0);
            let Some(nonce) = recyclable.pop_front().or_else(next) else { break };
            let step = ReservationStep::Reserve {
                nonce,
                tx_id: candidate.tx.id,
                lock_owner: request.lock_owner.clone(),
                hold: Duration::from_millis(u64::from(request.hold_ms)),
            };
            draft.reserve(&candidate.tx, step, is_fresh)?;
            room = room.saturating_sub(usize::from(is_fresh));
            draft.taken.candidates.extend(self.queue.take(index));
        }
        Ok(())
    }

    /// Settles reservations by the result of a scan. A transaction that the caller sent without submitting it here
    /// counts as the caller's transaction, or fills a recyclable nonce. A lost nonce is no longer reserved.
    pub(in crate::lane) fn settle_reservations(&self, draft: &mut Draft) {
        let reservation_of =
            |nonce: Nonce| self.ledger.slots.get(nonce).map_or(&SlotReservation::NotReserved, |slot| &slot.reservation);
        let mut steps = Vec::new();
        for attempt in draft.commit.attempts() {
            let nonce = attempt.nonce;
            match reservation_of(nonce) {
                SlotReservation::Reserved { to, .. } => {
                    steps.push(ReservationStep::Use { nonce, lock_owner: to.clone() });
                }
                SlotReservation::Recyclable => steps.push(ReservationStep::Fill { nonce }),
                // The transaction is instead of the cancel.
                SlotReservation::TimedOut { .. } => steps.push(ReservationStep::Cancel { nonce }),
                SlotReservation::NotReserved => {}
            }
        }
        for nonce in draft.lost.iter().copied() {
            if let SlotReservation::Reserved { to, .. } = reservation_of(nonce) {
                steps.push(ReservationStep::Release { nonce, lock_owner: to.clone() });
            }
            if *reservation_of(nonce) != SlotReservation::NotReserved {
                steps.push(ReservationStep::Fill { nonce });
            }
        }
        for step in steps {
            draft.commit.reservation(step);
        }
    }
}
