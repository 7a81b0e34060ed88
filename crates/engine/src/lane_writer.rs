//! Lane commits, many lanes in one database transaction.

use std::collections::HashSet;
use std::sync::Arc;

use gapless_domain::{LaneCommit, Tick, Timestamp};
use gapless_store::{CommitVerdict, Lanes, StoreError};

use crate::clock::Clock;
use crate::group_commit::{BatchLimits, Entrance, Gathering, Job, Weight, group_commit};

type Answer = Result<Written, WriteError>;

#[derive(Clone, Debug)]
pub struct LaneWriter {
    entrance: Entrance<Pending, Answer>,
}

/// Somebody drives this for as long as lanes run; it ends when every [`LaneWriter`] is gone.
#[derive(Debug)]
pub struct LaneWriterLoop {
    gathering: Gathering<Pending, Answer>,
    store: Arc<dyn Lanes>,
    clock: Arc<dyn Clock>,
}

/// What became of one commit.
#[derive(Clone, Debug)]
pub struct Written {
    pub verdict: CommitVerdict,
    /// The database's time of the commit.
    pub at: Timestamp,
    /// False: durable here, perhaps not on the standby. Nothing of it may be sent until a later commit is true.
    pub replicated: bool,
    /// When the store was asked, by this node's clock: a done commit has extended the lease from then on.
    pub asked_at: Tick,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// Nothing was written. Whether trying again helps, the error tells.
    #[error(transparent)]
    NotWritten(Arc<StoreError>),
    /// It may have been written. Drop the lane and load it anew before anything is sent.
    #[error(transparent)]
    Unknown(Arc<StoreError>),
    /// Nobody will say what became of it. The lane is not to act on it; whoever loads it next will see.
    #[error("the process is shutting down")]
    ShuttingDown,
}

#[derive(Debug)]
struct Pending {
    commit: LaneCommit,
    /// How often its lease row was being written by somebody else.
    busy: u32,
}

impl LaneWriter {
    /// How often a commit is put into the next flush because its lease row is busy, before its lane hears of it.
    pub const MAX_BUSY: u32 = 20;

    /// There is one flush at a time, whatever the limits say: the canary is raised by one commit after another.
    pub fn new(store: Arc<dyn Lanes>, clock: Arc<dyn Clock>, limits: BatchLimits) -> (LaneWriter, LaneWriterLoop) {
        let (entrance, gathering) = group_commit(BatchLimits { flushes: 1, ..limits });
        (LaneWriter { entrance }, LaneWriterLoop { gathering, store, clock })
    }

    /// Writes one commit. A lane waits for the answer before it hands in the next one.
    pub async fn write(&self, commit: LaneCommit) -> Result<Written, WriteError> {
        self.entrance.submit(Pending { commit, busy: 0 }).await.map_err(|_| WriteError::ShuttingDown)?
    }
}

impl LaneWriterLoop {
    pub async fn run(self) {
        let this = &self;
        this.gathering.run(async |batch: Vec<Job<Pending, Answer>>| this.flush(batch).await).await;
    }

    async fn flush(&self, batch: Vec<Job<Pending, Answer>>) -> Vec<Job<Pending, Answer>> {
        let mut lanes = HashSet::new();
        let (now, later): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|job| lanes.insert(job.op.commit.lease().submitter().clone()));
        let commits: Vec<LaneCommit> = now.iter().map(|job| job.op.commit.clone()).collect();
        let asked_at = self.clock.now();
        let committed = match self.store.commit(&commits).await {
            Ok(committed) => committed,
            Err(error) => {
                tracing::warn!(lanes = commits.len(), "a commit failed: {error}");
                let unknown = matches!(error, StoreError::OutcomeUnknown(_));
                #[cfg(feature = "mistakes")]
                if unknown && let Some(written) = self.believe_done(&commits, asked_at).await {
                    now.into_iter().for_each(|job| job.answer(Ok(written.clone())));
                    return later;
                }
                let error = Arc::new(error);
                for job in now {
                    let error = Arc::clone(&error);
                    job.answer(Err(if unknown { WriteError::Unknown(error) } else { WriteError::NotWritten(error) }));
                }
                return later;
            }
        };
        let mut again = Vec::new();
        for (mut job, verdict) in now.into_iter().zip(committed.verdicts) {
            let lease = job.op.commit.lease();
            if verdict == CommitVerdict::Fenced {
                tracing::warn!(submitter = %lease.submitter(), node_id = %lease.owner(), fencing_token = %lease.token(), "fenced");
            }
            if verdict == CommitVerdict::Busy && job.op.busy < LaneWriter::MAX_BUSY {
                job.op.busy += 1;
                again.push(job);
                continue;
            }
            let (at, replicated) = (committed.at, committed.replicated);
            job.answer(Ok(Written { verdict, at, replicated, asked_at }));
        }
        // A lane's earlier commit stays before its later one.
        again.extend(later);
        again
    }
}

#[cfg(feature = "mistakes")]
impl LaneWriterLoop {
    /// Taken for done without looking; only the time is asked for.
    async fn believe_done(&self, commits: &[LaneCommit], asked_at: Tick) -> Option<Written> {
        use gapless_domain::mistakes::{Mistake, made};
        let lease = commits.first().filter(|_| made(Mistake::UnknownIsDone))?.lease();
        let loaded = self.store.load_lanes(std::slice::from_ref(lease)).await.ok()?.pop()?;
        let gapless_store::Loaded::Lane(lane) = loaded else { return None };
        Some(Written { verdict: CommitVerdict::Done, at: lane.now, replicated: true, asked_at })
    }
}

impl Weight for Pending {
    fn items(&self) -> usize {
        1 + self.commit.changes().len() + self.commit.reports().len()
    }

    fn bytes(&self) -> usize {
        self.commit.attempts().iter().map(|attempt| attempt.raw.len()).sum()
    }
}
