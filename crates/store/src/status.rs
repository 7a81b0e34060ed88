//! A lane as people see it, whoever holds it.

use gapless_domain::{
    Attempt, Cursor, FencingToken, IntentRecord, OwnerId, Reservation, ReservationStatus, Slot, SlotKind, Timestamp,
    TxId,
};

/// What a lane is doing. Nothing here is fenced: it is what was true a moment ago, for showing and not for deciding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    pub alias: Option<String>,
    /// None for a lane that has never written one.
    pub cursor: Option<Cursor>,
    /// None for a lane that nobody has ever held.
    pub lease: Option<LeaseStatus>,
    /// Intents in line, counted up to [`LaneStatus::MAX_COUNTED`].
    pub queued: u32,
    /// Intents that hold a nonce and are not terminal, counted up to [`LaneStatus::MAX_COUNTED`].
    pub open: u32,
    /// When the first in line was accepted.
    pub oldest_queued_at: Option<Timestamp>,
    /// The store lost commits, and the lane has not taken notice yet.
    pub regressed: bool,
    /// The database's time of this answer, the same for all lanes of a call.
    pub now: Timestamp,
}

/// One slot with all that hangs on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotStatus {
    pub slot: Slot,
    /// The intent that holds the nonce, also when it has ended. `None` for one that lost it.
    pub tx: Option<IntentRecord>,
    /// Lent, used or to be lent again.
    pub reservation: Option<Reservation>,
    /// Oldest first.
    pub attempts: Vec<Attempt>,
}

/// Who shares the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// Processes that have renewed within a lease's duration, or have just started; this one counts in any case.
    pub nodes: u32,
    /// Leases that hold.
    pub lanes: u32,
}

/// The newest lease of a lane, also when it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    pub owner: OwnerId,
    pub token: FencingToken,
    /// [`LeaseStatus::GIVEN_BACK`] if its owner has given it back.
    pub expires_at: Timestamp,
    /// It still holds.
    pub valid: bool,
}

impl SlotStatus {
    /// Whom a slot was bound or lent to last. It may have lost the nonce since.
    pub fn bound_to(slot: &Slot, reservation: Option<&Reservation>) -> Option<TxId> {
        match (slot.kind, reservation.map(|lent| &lent.status)) {
            (SlotKind::Intent(id), _) => Some(id),
            (_, Some(ReservationStatus::Reserved { tx_id, .. })) => Some(*tx_id),
            (_, Some(ReservationStatus::Used { tx_id })) => *tx_id,
            (_, Some(ReservationStatus::Recyclable) | None) => None,
        }
    }
}

impl LaneStatus {
    /// Counting stops here, so that looking at a lane costs no more with a longer backlog. A count of this means "this many or
    /// more".
    pub const MAX_COUNTED: u32 = 10_000;
}

impl LeaseStatus {
    /// Before any time that a clock can show.
    pub const GIVEN_BACK: Timestamp = Timestamp::from_micros(i64::MIN);
}
