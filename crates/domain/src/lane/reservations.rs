//! Reservations: nonces that callers sign for.
//!
//! A reservation request waits in the queue like any other intent. At its turn it gets the smallest recyclable nonce,
//! or else the next nonce. While the nonce is reserved, nothing is sent. After the caller has submitted its
//! transaction, the slot is like any other. A nonce whose reservation ended without a transaction (released or timed
//! out) is reserved again if the next candidate is a reservation request; otherwise it is filled.
//!
//! After a loss of commits no intent may end before the loss is reconciled, and the loss is reconciled when the nonces
//! of intents are final. A reservation that timed out and holds up such a nonce does not end then. Its intent is
//! canceled like any other bound intent: by a cancel at the same nonce. The caller may have submitted a transaction
//! that was lost, and the chain decides between the two (P9).

use std::time::Duration;

use crate::payload::{Payload, ReservationRequest};
use crate::reservation::{LockOwner, Reservation, ReservationStatus};
use crate::slot::SlotKind;
use crate::time::Timestamp;

use crate::lane::open_slot::OpenSlot;
use crate::lane::queue::Candidate;
use crate::lane::slot_work::MiningState;

/// Extra time before the lane ends a reservation, so that the store, whose clock decides, agrees that it timed out.
const GRACE: Duration = Duration::from_millis(100);

/// State of a slot's reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SlotReservation {
    /// The nonce was never reserved, or its transaction was submitted.
    NotReserved,
    /// The nonce is reserved for this owner.
    Reserved { to: LockOwner, until: Timestamp },
    /// The reservation timed out, and its intent may not end, because the store lost commits. A cancel consumes the
    /// nonce, so that the nonces behind it can become final.
    TimedOut { until: Timestamp },
    /// The reservation ended without a transaction.
    Recyclable,
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
        if self.is_unclaimed() && !self.is_recyclable() && self.attempts.is_empty() {
            self.mining = MiningState::Lost;
        }
    }

    /// True if the ledger has a reservation of the nonce without a transaction.
    pub(super) fn is_reserved(&self) -> bool {
        self.reserved_until().is_some()
    }

    /// True if only the caller may make the slot's transaction.
    pub(super) fn waits_for_caller(&self) -> bool {
        matches!(self.reservation, SlotReservation::Reserved { .. })
    }

    pub(super) fn reserved_until(&self) -> Option<Timestamp> {
        match &self.reservation {
            SlotReservation::Reserved { until, .. } | SlotReservation::TimedOut { until } => Some(*until),
            SlotReservation::NotReserved | SlotReservation::Recyclable => None,
        }
    }

    /// Lets a cancel take the place of a reservation that timed out.
    pub(super) fn time_out(&mut self) {
        if let SlotReservation::Reserved { until, .. } = self.reservation {
            self.reservation = SlotReservation::TimedOut { until };
        }
    }

    pub(super) fn has_timed_out(&self) -> bool {
        matches!(self.reservation, SlotReservation::TimedOut { .. })
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
}

impl Candidate {
    pub(super) fn reservation_request(&self) -> Option<&ReservationRequest> {
        match self.tx.payload() {
            Payload::Reservation(request) => Some(request),
            Payload::Act(_) => None,
        }
    }
}
