//! The answers of a store, one for each item that it was asked about.

pub use gapless_domain::Conflict;
use gapless_domain::ledger::Rejection;
use gapless_domain::{Head, LaneSnapshot, Lease, Protection, Timestamp, TxId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The intent is durable under its new id.
    New,
    /// A request with the same id and payload was accepted before, under this id.
    Existing(TxId),
    /// The request id names an accepted intent with another payload.
    Conflict(TxId),
    UnknownSubmitter,
    /// The lane is in PROTECT and accepts no new intent.
    Protected(Protection),
    /// The database cannot hold this intent. The others of the batch are not affected.
    Refused(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelVerdict {
    Canceled,
    /// The intent has left the queue. Its state decides how it can be canceled.
    NotQueued,
    /// The store lost commits. The intent looks queued, but may have been sent. No intent ends before the lane is
    /// reconciled.
    Regressed,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The caller holds the lease. A higher token shows that the lane had another owner, or a lapse, in between.
    Held(Lease),
    /// Another process holds it.
    HeldByOther,
    /// Another transaction writes the lease row: ask again.
    Busy,
}

/// The result of a renewal of all leases of one owner. A lease in neither list is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    pub extended: Vec<Lease>,
    /// Held, but a commit of the owner writes the lease row at this moment, and extends the lease too.
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
    /// The database's time of the commit, which the rows carry as `updated_at`.
    pub at: Timestamp,
    /// False if the server warned that the commit may not have reached its standby. Then no attempt of it may be sent
    /// until a later commit is replicated.
    pub replicated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitVerdict {
    /// The whole commit is durable, and the lease is extended.
    Done,
    /// The lease is lost. The lane must stop at once.
    Fenced,
    /// A row is not what the lane knew. Nothing was written; the lane must load itself again.
    Conflict(Conflict),
    /// Another transaction writes the lease row. Nothing was written; the commit goes into the next flush.
    Busy,
    /// The store lost commits. Either the lane has not acknowledged the loss, or it is not reconciled and the commit
    /// would end an intent. Nothing was written; the lane must load itself again.
    Regressed,
    /// The database cannot hold a row. Nothing was written, and trying again does not help.
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
    /// The stored final block is newer, or the new head has none. The stored head stays, and is returned. A genesis
    /// that was not known is stored.
    FinalIsNewer(Head),
    /// The new head contradicts the stored final block. Nothing was changed.
    FinalDiffers(Head),
    /// The new head belongs to another chain than the stored one. Nothing was changed.
    GenesisDiffers(Head),
}
