//! Reservations: nonces lent to callers who sign by themselves (the low-level API).

use std::fmt;
use std::time::Duration;

use crate::id::TxId;
use crate::nonce::Nonce;
use crate::time::Timestamp;

/// The caller's proof that the nonce is still lent to it. A call that comes after the time-out names an owner that the
/// nonce no longer has, and fails.
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
    /// A transaction was given to us for it, or a filler of ours took it (then it is no intent's); from here on it is a slot
    /// like any other.
    Used {
        tx_id: Option<TxId>,
    },
    /// Let go before any transaction was given to us: lent again, smallest first, or filled.
    Recyclable,
}

/// One step of a reservation, checked by the store inside the fenced commit, by database time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationStep {
    /// Lend a fresh nonce (its slot is in the same commit) or a recyclable one. Refused unless it is the smallest
    /// recyclable nonce of the lane that is not closed, or there is none.
    Reserve { nonce: Nonce, tx_id: TxId, lock_owner: LockOwner, hold: Duration },
    /// The caller gave its transaction. Refused when it is not, or no longer, lent to this owner.
    Use { nonce: Nonce, lock_owner: LockOwner },
    /// The caller lets it go. Refused when it is not, or no longer, lent to this owner.
    Release { nonce: Nonce, lock_owner: LockOwner },
    /// The time is over. Refused while it is not.
    Expire { nonce: Nonce },
    /// Nobody wants it: a filler of ours takes it, in the same commit. Refused unless it is recyclable.
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

    /// The reservation after this step. Whether the step is permitted is decided by [`check`](crate::ledger::check).
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
