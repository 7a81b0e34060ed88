//! The answers of a store, one for each item that it was asked about.

pub use gapless_domain::Conflict;
use gapless_domain::ledger::Rejection;
use gapless_domain::{Head, LaneSnapshot, Lease, Protection, Timestamp, TxId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Durable now, under the id that it was given.
    New,
    /// The same request was accepted before, under this id.
    Existing(TxId),
    /// The request id stands for another payload.
    Conflict(TxId),
    UnknownSubmitter,
    /// The lane is in PROTECT and takes nothing new.
    Protected(Protection),
    /// The database cannot hold this one; the others of the batch are not touched by it.
    Refused(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelVerdict {
    Canceled,
    /// It has left the queue; what it is now decides how it can be canceled.
    NotQueued,
    /// The store lost commits. It looks queued, but may have been sent; nothing ends until the lane is reconciled.
    Regressed,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// Held now. The token tells whether the lane changed hands.
    Held(Lease),
    /// Another process holds it.
    HeldByOther,
    /// Somebody is writing the lease at this moment: ask again.
    Busy,
}

/// What became of all leases of this owner. Those that are in neither list are lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    pub extended: Vec<Lease>,
    /// Still held, but a commit of ours is under way, which extends it too.
    pub busy: Vec<Lease>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a loaded lane is the ordinary answer, and is moved only once")]
pub enum Loaded {
    Lane(LaneSnapshot),
    Fenced,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub verdicts: Vec<CommitVerdict>,
    /// The database's time of the commit; what the rows now carry as `updated_at`.
    pub at: Timestamp,
    /// False after the server said that the commit may not have reached its standby. Nothing of it may be sent until a
    /// later commit comes back true.
    pub replicated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitVerdict {
    /// All of it is durable, and the lease is extended.
    Done,
    /// The lease is lost. Drop the lane at once.
    Fenced,
    /// A row is not what the lane thought. Nothing was written; load the lane anew.
    Conflict(Conflict),
    /// The lease row is being written by somebody. Nothing was written; put it into the next flush.
    Busy,
    /// The store lost commits, and the lane has not taken notice yet, or it has but is not reconciled, and the commit would
    /// end an intent. Nothing was written; load the lane anew.
    Regressed,
    /// The database cannot hold it. Nothing was written, and trying again will not help.
    Refused(String),
}

impl From<Rejection> for CommitVerdict {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Fenced => CommitVerdict::Fenced,
            Rejection::Busy => CommitVerdict::Busy,
            Rejection::Regressed => CommitVerdict::Regressed,
            Rejection::Conflict(conflict) => CommitVerdict::Conflict(conflict),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadVerdict {
    Saved,
    /// The final block that is kept is newer, or the new head has none. What is kept stays, and is told; but a genesis that
    /// was not known is known now.
    FinalIsNewer(Head),
    /// It contradicts the final block that is kept. Nothing was changed.
    FinalDiffers(Head),
    /// It belongs to another chain than what is kept. Nothing was changed.
    GenesisDiffers(Head),
}
