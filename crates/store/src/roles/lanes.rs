//! The work of a lane's owner.

use std::fmt;

use async_trait::async_trait;
pub use gapless_domain::Conflict;
use gapless_domain::ledger::Rejection;
use gapless_domain::{Command, IntentRecord, LaneCommit, LaneSnapshot, Lease, SubmitterId, Timestamp, TxId};

use crate::error::StoreError;

/// The largest number of commands that [`Lanes::open_commands`] returns for one lane.
pub const MAX_OPEN_COMMANDS: u32 = 100;

/// Loads and writes lanes. [`Lanes::load_lanes`] and [`Lanes::commit`] are fenced: they need a valid lease. The reads
/// need none.
#[async_trait]
pub trait Lanes: Send + Sync + fmt::Debug {
    /// Reads all that an owner needs to continue a lane. The call waits for any write of an older owner that is still
    /// in progress. So after the call the lane changes only by commits under this lease.
    async fn load_lanes(&self, leases: &[Lease]) -> Result<Vec<Loaded>, StoreError>;

    /// Applies each commit as a whole or not at all; see [`CommitVerdict`]. A lane appears at most once in a call, and
    /// the caller has at most one commit of a lane in flight. Several changes of one intent in one commit follow each
    /// other: each starts from the version that the change before leads to. A commit that is done has also extended its
    /// lease.
    ///
    /// [`StoreError::OutcomeUnknown`] means that some of the commits may have been applied. The caller must drop these
    /// lanes and load them again before it sends anything.
    async fn commit(&self, commits: &[LaneCommit]) -> Result<Committed, StoreError>;

    /// The first intents of each queue in order of acceptance, up to the number given for the lane. Intents in
    /// `without` are skipped and not counted: the lane holds them already as candidates.
    async fn peek_queues(
        &self,
        lanes: &[(SubmitterId, u32)],
        without: &[TxId],
    ) -> Result<Vec<Vec<IntentRecord>>, StoreError>;

    /// Commands that are not executed yet, oldest first, up to [`MAX_OPEN_COMMANDS`] for each lane. The owner of a lane
    /// asks for them when it is woken. The read is not fenced: a commit in flight may finish a command that it returns.
    async fn open_commands(&self, lanes: &[SubmitterId]) -> Result<Vec<Vec<Command>>, StoreError>;
}

/// The answer of [`Lanes::load_lanes`] for one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a loaded lane is the ordinary answer, and is moved only once")]
pub enum Loaded {
    Lane(LaneSnapshot),
    Fenced,
}

/// The answer of [`Lanes::commit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub verdicts: Vec<CommitVerdict>,
    /// The database's time of the commit. Changed rows have it as `updated_at`.
    pub at: Timestamp,
    /// False if the server reported that the commit may not have reached its standby. Nothing of the commit may be sent
    /// until a later commit returns true.
    pub replicated: bool,
}

/// The answer of [`Lanes::commit`] for one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitVerdict {
    /// The whole commit is durable, and the lease is extended.
    Done,
    /// The lease is lost. The owner must drop the lane at once.
    Fenced,
    /// A row differs from the lane's memory. The commit wrote nothing; the owner must load the lane again.
    Conflict(Conflict),
    /// Another transaction is writing the lease row. The commit wrote nothing and belongs into the next flush.
    Busy,
    /// The store lost commits and the lane has not acknowledged it, or the lane is not reconciled and the commit would
    /// end an intent. The commit wrote nothing; the owner must load the lane again.
    Regressed,
    /// The database cannot hold the commit. The commit wrote nothing, and a repetition will not help.
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
