//! Reservations: nonces that callers sign for (the low-level API).

use std::fmt;
use std::time::Duration;

use crate::id::TxId;
use crate::nonce::Nonce;
use crate::time::Timestamp;

/// The caller's proof that it still holds a reservation. A call after the time-out names an owner that the nonce has no
/// more, and fails.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub nonce: Nonce,
    pub status: ReservationStatus,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationStatus {
    Reserved {
        tx_id: TxId,
        lock_owner: LockOwner,
        locked_until: Timestamp,
    },
    /// The caller submitted a transaction, or a filler consumes the nonce, which then belongs to no intent. From here
    /// on the slot is like any other.
    Used {
        tx_id: Option<TxId>,
    },
    /// Released, or expired, before a transaction was submitted. The nonce is reserved again, smallest first, or
    /// filled.
    Recyclable,
}

/// One step of a reservation. [`check`](crate::ledger::check) decides by the database's clock whether it is permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationStep {
    /// Reserves the smallest recyclable nonce that is open. If there is none, reserves a new nonce, whose slot is in
    /// the same commit.
    Reserve { nonce: Nonce, tx_id: TxId, lock_owner: LockOwner, hold: Duration },
    /// The caller submits its transaction. Permitted to the owner, before the time-out.
    Use { nonce: Nonce, lock_owner: LockOwner },
    /// The caller releases the nonce. Permitted to the owner, before the time-out.
    Release { nonce: Nonce, lock_owner: LockOwner },
    /// The reservation ends by its time-out. Permitted after the time-out.
    Expire { nonce: Nonce },
    /// A filler in the same commit consumes the nonce. Permitted for a recyclable nonce.
    Fill { nonce: Nonce },
}

impl ReservationStep {
    pub fn nonce(&self) -> Nonce {
        match self {
            ReservationStep::Reserve { nonce, .. }
            | ReservationStep::Use { nonce, .. }
            | ReservationStep::Release { nonce, .. }
            | ReservationStep::Expire { nonce }
            | ReservationStep::Fill { nonce } => *nonce,
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
            ReservationStep::Use { .. } => {
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
