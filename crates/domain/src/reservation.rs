//! Reservations: nonces that callers sign for.

use std::fmt;
use std::time::Duration;

use crate::id::TxId;
use crate::nonce::Nonce;
use crate::time::Timestamp;

/// The caller's proof that it still holds the reservation. A call after the time-out names an owner that the
/// reservation no longer has, and fails.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockOwner(String);

impl LockOwner {
    pub const MAX_BYTES: usize = 128;

    pub fn new(text: &str) -> Option<Self> {
        let ok = !text.is_empty() && text.len() <= Self::MAX_BYTES && !text.chars().any(char::is_control);
        ok.then(|| LockOwner(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A reserved nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub nonce: Nonce,
    pub status: ReservationStatus,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationStatus {
    /// The nonce is reserved for an intent until a time on the database's clock.
    Reserved { tx_id: TxId, lock_owner: LockOwner, locked_until: Timestamp },
    /// The caller submitted a transaction, or the intent is being canceled, or a filler consumed the nonce (then
    /// `tx_id` is `None`). From here on the slot is like any other.
    Used { tx_id: Option<TxId> },
    /// The reservation ended before a transaction was submitted. The nonce is reserved again, smallest first, or
    /// filled.
    Recyclable,
}

/// One step of a reservation. The store checks it inside the fenced commit, by the database's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationStep {
    /// Reserve a fresh nonce (its slot is in the same commit) or a recyclable one. Refused unless the nonce is the
    /// smallest recyclable nonce of the lane that is not closed, or there is no recyclable nonce.
    Reserve { nonce: Nonce, tx_id: TxId, lock_owner: LockOwner, hold: Duration },
    /// The caller submits its transaction. Refused unless the nonce is reserved for this owner.
    Use { nonce: Nonce, lock_owner: LockOwner },
    /// The caller releases the nonce. Refused unless the nonce is reserved for this owner.
    Release { nonce: Nonce, lock_owner: LockOwner },
    /// The reservation timed out. Refused before its end.
    Expire { nonce: Nonce },
    /// A filler consumes the nonce, in the same commit. Refused unless the nonce is recyclable.
    Fill { nonce: Nonce },
    /// The reservation timed out, and a cancel of its intent consumes the nonce, in the same commit. The intent keeps
    /// the nonce until the chain has decided. Refused before the end of the reservation.
    Cancel { nonce: Nonce },
}

impl ReservationStep {
    pub fn nonce(&self) -> Nonce {
        match self {
            ReservationStep::Reserve { nonce, .. }
            | ReservationStep::Use { nonce, .. }
            | ReservationStep::Release { nonce, .. }
            | ReservationStep::Expire { nonce }
            | ReservationStep::Fill { nonce }
            | ReservationStep::Cancel { nonce } => *nonce,
        }
    }

    /// The reservation after this step, if the step is permitted.
    pub fn status_after(&self, before: Option<&ReservationStatus>, at: Timestamp) -> ReservationStatus {
        match self {
            ReservationStep::Reserve { tx_id, lock_owner, hold, .. } => ReservationStatus::Reserved {
                tx_id: *tx_id,
                lock_owner: lock_owner.clone(),
                locked_until: at.saturating_add(*hold),
            },
            ReservationStep::Use { .. } | ReservationStep::Cancel { .. } => {
                let tx_id = match before {
                    Some(ReservationStatus::Reserved { tx_id, .. }) => Some(*tx_id),
                    _ => None,
                };
                ReservationStatus::Used { tx_id }
            }
            ReservationStep::Release { .. } | ReservationStep::Expire { .. } => ReservationStatus::Recyclable,
            ReservationStep::Fill { .. } => ReservationStatus::Used { tx_id: None },
        }
    }
}
