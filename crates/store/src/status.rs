//! A lane as people see it, whoever holds it.

use gapless_domain::{Cursor, FencingToken, OwnerId, Timestamp};

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

impl LaneStatus {
    /// Counting stops here, so that looking at a lane costs no more with a longer backlog. A count of this means "this many or
    /// more".
    pub const MAX_COUNTED: u32 = 10_000;
}

impl LeaseStatus {
    /// Before any time that a clock can show.
    pub const GIVEN_BACK: Timestamp = Timestamp::from_micros(i64::MIN);
}
