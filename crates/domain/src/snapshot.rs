//! What a lane goes on from.

use crate::attempt::Attempt;
use crate::command::Command;
use crate::cursor::Cursor;
use crate::intent_record::IntentRecord;
use crate::reservation::Reservation;
use crate::slot::Slot;
use crate::time::Timestamp;

/// A lane as its owner finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSnapshot {
    /// None for a lane that has never written one.
    pub cursor: Option<Cursor>,
    /// Slots at or above the cursor's open nonce, in order.
    pub slots: Vec<Slot>,
    /// The attempts of these slots, by nonce and ordinal.
    pub attempts: Vec<Attempt>,
    /// The intents of these slots that are not terminal, by nonce.
    pub bound: Vec<IntentRecord>,
    /// Reservations of these slots that are lent or recyclable, by nonce.
    pub reservations: Vec<Reservation>,
    /// Commands not yet executed, oldest first.
    pub commands: Vec<Command>,
    /// The store lost commits since this lane last wrote its cursor, or, if it never did, since its submitter was registered
    /// (a cursor may be among what was lost). Its next write must put it into PROTECT (`store_regressed`); any other is
    /// refused.
    pub regressed: bool,
    pub now: Timestamp,
}
