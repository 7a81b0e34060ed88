//! Intake: accepts intents, many in one commit. Intake needs no lease: any node accepts for any lane.

use std::sync::Arc;

use gapless_domain::{Action, Intent, TxId};
use gapless_store::{Accepted, IntentIntake, NewIntent, StoreError};

use crate::fault_points::{FaultPoint, FaultPoints, NoFaults};
use crate::group_commit::{BatchLimits, BatchLoop, BatchQueue, Job, Weight, group_commit};
use crate::ids::Ids;

/// The limits of intake, by their config names.
pub type IntakeLimits = BatchLimits;

type Answer = Result<Vec<Accepted>, Arc<StoreError>>;

#[derive(Clone, Debug)]
pub struct Intake {
    queue: BatchQueue<IntentGroup, Answer>,
    ids: Arc<dyn Ids>,
}

/// The loop of intake. It must be polled while intents are accepted, and ends when every [`Intake`] is dropped.
#[derive(Debug)]
pub struct IntakeLoop {
    batches: BatchLoop<IntentGroup, Answer>,
    store: Arc<dyn IntentIntake>,
    faults: Arc<dyn FaultPoints>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum IntakeError {
    /// The outcome is unknown. The caller learns it by sending the same request again.
    #[error(transparent)]
    Store(Arc<StoreError>),
    #[error("the process is shutting down")]
    ShuttingDown,
}

/// The intents of one call. They stay together, so that the queue keeps their order.
#[derive(Debug)]
struct IntentGroup(Vec<NewIntent>);

impl Intake {
    pub fn new(store: Arc<dyn IntentIntake>, ids: Arc<dyn Ids>, limits: IntakeLimits) -> (Intake, IntakeLoop) {
        Self::with_faults(store, ids, limits, Arc::new(NoFaults))
    }

    pub fn with_faults(
        store: Arc<dyn IntentIntake>,
        ids: Arc<dyn Ids>,
        limits: IntakeLimits,
        faults: Arc<dyn FaultPoints>,
    ) -> (Intake, IntakeLoop) {
        let (queue, batches) = group_commit(limits);
        (Intake { queue, ids }, IntakeLoop { batches, store, faults })
    }

    /// Accepts intents in the given order. Each gets an id and a verdict of its own; an intent that is returned as new
    /// or existing is durable (P6).
    pub async fn accept(&self, intents: Vec<Intent>) -> Result<Vec<(TxId, Accepted)>, IntakeError> {
        let new: Vec<NewIntent> =
            intents.into_iter().map(|intent| NewIntent { id: self.ids.next_tx(), intent }).collect();
        let ids: Vec<TxId> = new.iter().map(|new| new.id).collect();
        let verdicts = self.queue.submit(IntentGroup(new)).await.map_err(|_| IntakeError::ShuttingDown)?;
        let verdicts = verdicts.map_err(IntakeError::Store)?;
        Ok(ids.into_iter().zip(verdicts).map(with_caller_id).collect())
    }
}

/// The verdict with the id that the caller is to use.
fn with_caller_id((ours, verdict): (TxId, Accepted)) -> (TxId, Accepted) {
    match verdict {
        Accepted::Existing(id) | Accepted::Conflict(id) => (id, verdict),
        _ => (ours, verdict),
    }
}

impl IntakeLoop {
    pub async fn run(self) {
        let (store, faults) = (self.store.as_ref(), self.faults.as_ref());
        self.batches.run(async |batch: Vec<Job<IntentGroup, _>>| flush(store, faults, batch).await).await;
    }
}

async fn flush(
    store: &dyn IntentIntake,
    faults: &dyn FaultPoints,
    mut batch: Vec<Job<IntentGroup, Answer>>,
) -> Vec<Job<IntentGroup, Answer>> {
    let sizes: Vec<usize> = batch.iter().map(|job| job.op.0.len()).collect();
    let intents: Vec<NewIntent> = batch.iter_mut().flat_map(|job| std::mem::take(&mut job.op.0)).collect();
    faults.reach(FaultPoint::BeforeAccept);
    let accepted = store.accept(&intents).await;
    faults.reach(FaultPoint::AfterAccept);
    match accepted {
        Ok(verdicts) => {
            let mut verdicts = verdicts.into_iter();
            for (job, size) in batch.into_iter().zip(sizes) {
                job.answer(Ok(verdicts.by_ref().take(size).collect()));
            }
        }
        Err(error) => {
            tracing::warn!(intents = intents.len(), "intents could not be accepted: {error}");
            let error = Arc::new(error);
            batch.into_iter().for_each(|job| job.answer(Err(Arc::clone(&error))));
        }
    }
    Vec::new()
}

impl Weight for IntentGroup {
    fn items(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        /// Approximate size of an intent without the bytes and the metadata of its caller.
        const BASE: usize = 512;
        self.0
            .iter()
            .map(|new| {
                let data = new.intent.payload().action().map_or(0, Action::bytes);
                BASE + data + new.intent.metadata().map_or(0, |metadata| metadata.as_json().len())
            })
            .sum()
    }
}
