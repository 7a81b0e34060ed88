//! Snapshots: the durable state that a lane is loaded from.

use crate::attempt::Attempt;
use crate::command::Command;
use crate::cursor::Cursor;
use crate::intent_record::IntentRecord;
use crate::reservation::Reservation;
use crate::slot::Slot;
use crate::time::Timestamp;

/// A lane as its new owner loads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSnapshot {
    /// `None` for a lane that has never written a cursor.
    pub cursor: Option<Cursor>,
    /// Slots at or above the cursor's open nonce, in order.
    pub slots: Vec<Slot>,
    /// The attempts of these slots, by nonce and ordinal.
    pub attempts: Vec<Attempt>,
    /// The intents of these slots that are not terminal, by nonce.
    pub bound: Vec<IntentRecord>,
    /// Reservations of these slots that are reserved or recyclable, by nonce.
    pub reservations: Vec<Reservation>,
    /// Commands not yet executed, oldest first.
    pub commands: Vec<Command>,
    /// The store lost commits after this lane last wrote its cursor or, if the lane never wrote one, after its
    /// submitter was registered (the cursor may be among the lost commits). The next write must put the lane into
    /// PROTECT (`store_regressed`); the store refuses any other write.
    pub regressed: bool,
    pub now: Timestamp,
}
