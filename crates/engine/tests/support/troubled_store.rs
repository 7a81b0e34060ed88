//! A store in trouble: away, slow, or with a row that cannot be read.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::*;
use gapless_store::*;

#[derive(Debug)]
pub(crate) struct TroubledStore {
    inner: Arc<dyn Store>,
    trouble: Mutex<StoreTrouble>,
}

/// What goes wrong, as long as it is set.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreTrouble {
    /// Nothing answers.
    pub(crate) away: bool,
    /// How long a sweep takes.
    pub(crate) sweep_takes: Duration,
    pub(crate) cannot_load: bool,
    /// A row in the queue of this lane cannot be read.
    pub(crate) bad_queue: Option<SubmitterId>,
}

impl TroubledStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(TroubledStore { inner, trouble: Mutex::default() })
    }

    pub(crate) fn trouble(&self) -> MutexGuard<'_, StoreTrouble> {
        self.trouble.lock().unwrap()
    }

    fn up(&self) -> Result<&dyn Store, StoreError> {
        if self.trouble().away {
            return Err(StoreError::Unavailable("connection refused".into()));
        }
        Ok(self.inner.as_ref())
    }
}

#[async_trait]
impl Store for TroubledStore {
    fn owner(&self) -> &OwnerId {
        self.inner.owner()
    }

    fn wakeups(&self) -> Wakeups {
        self.inner.wakeups()
    }

    fn changes(&self) -> Wakeups {
        self.inner.changes()
    }

    async fn register_submitters(&self, submitters: &[NewSubmitter]) -> Result<(), StoreError> {
        self.up()?.register_submitters(submitters).await
    }

    async fn submitters(&self) -> Result<Vec<NewSubmitter>, StoreError> {
        self.up()?.submitters().await
    }

    async fn accept(&self, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError> {
        self.up()?.accept(intents).await
    }

    async fn cancel_queued(&self, ids: &[TxId]) -> Result<Vec<CancelVerdict>, StoreError> {
        self.up()?.cancel_queued(ids).await
    }

    async fn put_commands(&self, commands: &[NewCommand]) -> Result<Vec<CommandId>, StoreError> {
        self.up()?.put_commands(commands).await
    }

    async fn acquire(&self, lanes: &[SubmitterId]) -> Result<Vec<Acquired>, StoreError> {
        self.up()?.acquire(lanes).await
    }

    async fn renew(&self) -> Result<Renewal, StoreError> {
        self.up()?.renew().await
    }

    async fn release(&self, leases: &[Lease]) -> Result<(), StoreError> {
        self.up()?.release(leases).await
    }

    async fn load_lanes(&self, leases: &[Lease]) -> Result<Vec<Loaded>, StoreError> {
        if self.trouble().cannot_load {
            return Err(StoreError::Unavailable("too slow".into()));
        }
        self.up()?.load_lanes(leases).await
    }

    async fn commit(&self, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
        self.up()?.commit(commits).await
    }

    async fn peek_queues(
        &self,
        lanes: &[(SubmitterId, u32)],
        without: &[TxId],
    ) -> Result<Vec<Vec<IntentRecord>>, StoreError> {
        let bad = self.trouble().bad_queue.clone();
        if lanes.iter().any(|(lane, _)| Some(lane) == bad.as_ref()) {
            return Err(StoreError::Row(codec::RowError::new("payload", "not what it should be")));
        }
        self.up()?.peek_queues(lanes, without).await
    }

    async fn open_commands(&self, lanes: &[SubmitterId]) -> Result<Vec<Vec<Command>>, StoreError> {
        self.up()?.open_commands(lanes).await
    }

    async fn lanes_with_work(&self, after: Option<&SubmitterId>, limit: u32) -> Result<Vec<SubmitterId>, StoreError> {
        let takes = self.trouble().sweep_takes;
        tokio::time::sleep(takes).await;
        self.up()?.lanes_with_work(after, limit).await
    }

    async fn lane_status(&self, lanes: &[SubmitterId]) -> Result<Vec<Option<LaneStatus>>, StoreError> {
        self.up()?.lane_status(lanes).await
    }

    async fn open_slots(
        &self,
        lane: &SubmitterId,
        from: Option<Nonce>,
        limit: u32,
    ) -> Result<Vec<SlotStatus>, StoreError> {
        self.up()?.open_slots(lane, from, limit).await
    }

    async fn census(&self) -> Result<Census, StoreError> {
        self.up()?.census().await
    }

    async fn audit_log(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        self.up()?.audit_log(filter).await
    }

    async fn get(&self, ids: &[TxId]) -> Result<Vec<Option<IntentRecord>>, StoreError> {
        self.up()?.get(ids).await
    }

    async fn find_request(&self, submitter: &SubmitterId, request: &RequestId) -> Result<Option<TxId>, StoreError> {
        self.up()?.find_request(submitter, request).await
    }

    async fn used_for(&self, lane: &SubmitterId, nonce: Nonce) -> Result<Option<TxId>, StoreError> {
        self.up()?.used_for(lane, nonce).await
    }

    async fn list(&self, filter: &TxFilter) -> Result<Vec<IntentRecord>, StoreError> {
        self.up()?.list(filter).await
    }

    async fn commands(&self, ids: &[CommandId]) -> Result<Vec<Option<CommandStatus>>, StoreError> {
        self.up()?.commands(ids).await
    }

    async fn attempts(&self, id: TxId) -> Result<Vec<Attempt>, StoreError> {
        self.up()?.attempts(id).await
    }

    async fn events_of(&self, id: TxId, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.up()?.events_of(id, limit).await
    }

    async fn read_events(&self, after: EventPosition, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.up()?.read_events(after, limit).await
    }

    async fn claim_events(&self, consumer: &str, limit: u32) -> Result<Option<Vec<Event>>, StoreError> {
        self.up()?.claim_events(consumer, limit).await
    }

    async fn ack_events(&self, consumer: &str, upto: EventPosition) -> Result<bool, StoreError> {
        self.up()?.ack_events(consumer, upto).await
    }

    async fn save_head(&self, chain: &ChainId, head: &Head) -> Result<HeadVerdict, StoreError> {
        self.up()?.save_head(chain, head).await
    }

    async fn head(&self, chain: &ChainId) -> Result<Option<Head>, StoreError> {
        self.up()?.head(chain).await
    }

    async fn forget_head(&self, chain: &ChainId, by: &NodeText, why: &str) -> Result<(), StoreError> {
        self.up()?.forget_head(chain, by, why).await
    }

    async fn claim_retention(&self) -> Result<Option<Timestamp>, StoreError> {
        self.up()?.claim_retention().await
    }

    async fn apply_retention(&self, kind: RetentionKind, age: Duration, limit: u32) -> Result<u32, StoreError> {
        self.up()?.apply_retention(kind, age, limit).await
    }

    async fn declare_lost(&self, by: &NodeText, why: &str) -> Result<(), StoreError> {
        self.up()?.declare_lost(by, why).await
    }

    async fn declare_reconciled(&self, by: &NodeText, why: &str) -> Result<(), StoreError> {
        self.up()?.declare_reconciled(by, why).await
    }
}
