//! Writes lane commits, many lanes in one database transaction.

use std::collections::HashSet;
use std::sync::Arc;

use gapless_domain::{LaneCommit, Tick, Timestamp};
use gapless_store::{CommitVerdict, Lanes, StoreError};

use crate::clock::Clock;
use crate::group_commit::{BatchLimits, BatchLoop, BatchQueue, Job, Weight, group_commit};

type Answer = Result<Written, WriteError>;

#[derive(Clone, Debug)]
pub struct LaneWriter {
    queue: BatchQueue<QueuedCommit, Answer>,
}

/// The loop of the writer. It must be polled while lanes run, and ends when every [`LaneWriter`] is dropped.
#[derive(Debug)]
pub struct LaneWriterLoop {
    batches: BatchLoop<QueuedCommit, Answer>,
    store: Arc<dyn Lanes>,
    clock: Arc<dyn Clock>,
}

/// The result of one commit.
#[derive(Clone, Debug)]
pub struct Written {
    pub verdict: CommitVerdict,
    /// The database's time of the commit.
    pub at: Timestamp,
    /// False: durable here, but perhaps not on the standby. None of it may be sent until a later commit is replicated.
    pub replicated: bool,
    /// This node's time before the store was asked: a commit that is done has extended the lease from then on.
    pub asked_at: Tick,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The commit was not written. The error tells whether a retry can help.
    #[error(transparent)]
    NotWritten(Arc<StoreError>),
    /// The commit may have been written. The lane must be loaded again before anything is sent.
    #[error(transparent)]
    Unknown(Arc<StoreError>),
    /// The outcome stays unknown. The lane must not act on the commit; its next owner finds the outcome.
    #[error("the process is shutting down")]
    ShuttingDown,
}

#[derive(Debug)]
struct QueuedCommit {
    commit: LaneCommit,
    /// How often another transaction held the lease row.
    busy: u32,
}

impl LaneWriter {
    /// How often a commit moves to the next flush because its lease row is busy, before its lane gets the verdict.
    pub const MAX_BUSY: u32 = 20;

    /// There is one flush at a time, regardless of the limits: commits increment the canary one after another.
    pub fn new(store: Arc<dyn Lanes>, clock: Arc<dyn Clock>, limits: BatchLimits) -> (LaneWriter, LaneWriterLoop) {
        let (queue, batches) = group_commit(BatchLimits { flushes: 1, ..limits });
        (LaneWriter { queue }, LaneWriterLoop { batches, store, clock })
    }

    /// Writes one commit. A lane waits for the answer before its next commit.
    pub async fn write(&self, commit: LaneCommit) -> Result<Written, WriteError> {
        self.queue.submit(QueuedCommit { commit, busy: 0 }).await.map_err(|_| WriteError::ShuttingDown)?
    }
}

impl LaneWriterLoop {
    pub async fn run(self) {
        let this = &self;
        this.batches.run(async |batch: Vec<Job<QueuedCommit, Answer>>| this.flush(batch).await).await;
    }

    async fn flush(&self, batch: Vec<Job<QueuedCommit, Answer>>) -> Vec<Job<QueuedCommit, Answer>> {
        let mut lanes = HashSet::new();
        let (now, later): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|job| lanes.insert(job.op.commit.lease().submitter().clone()));
        // A commit may be large, so it is moved and not copied.
        let (commits, jobs): (Vec<LaneCommit>, Vec<_>) =
            now.into_iter().map(|Job { op, reply }| (op.commit, (op.busy, reply))).unzip();
        let asked_at = self.clock.now();
        let committed = match self.store.commit(&commits).await {
            Ok(committed) => committed,
            Err(error) => {
                tracing::warn!(lanes = commits.len(), "commit failed: {error}");
                let unknown = matches!(error, StoreError::OutcomeUnknown(_));
                let error = Arc::new(error);
                for (_, reply) in jobs {
                    let error = Arc::clone(&error);
                    reply.answer(Err(if unknown { WriteError::Unknown(error) } else { WriteError::NotWritten(error) }));
                }
                return later;
            }
        };
        let mut returned = Vec::new();
        for ((commit, (busy, reply)), verdict) in commits.into_iter().zip(jobs).zip(committed.verdicts) {
            if verdict == CommitVerdict::Busy && busy < LaneWriter::MAX_BUSY {
                returned.push(Job { op: QueuedCommit { commit, busy: busy + 1 }, reply });
                continue;
            }
            let (at, replicated) = (committed.at, committed.replicated);
            reply.answer(Ok(Written { verdict, at, replicated, asked_at }));
        }
        // The earlier commit of a lane stays before its later one.
        returned.extend(later);
        returned
    }
}

impl Weight for QueuedCommit {
    fn items(&self) -> usize {
        1 + self.commit.changes().len() + self.commit.reports().len()
    }

    fn bytes(&self) -> usize {
        self.commit.attempts().iter().map(|attempt| attempt.raw.len()).sum()
    }
}
