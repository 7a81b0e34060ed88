//! A store that can be unplugged, as a database goes away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::*;
use gapless_store::*;

#[derive(Debug)]
pub(crate) struct Unplugged {
    inner: Arc<dyn Store>,
    away: AtomicBool,
    /// Whoever reads slots next says so, and waits before it until it may go on.
    pub(crate) slots_stop: AtomicBool,
    pub(crate) stopped: tokio::sync::Notify,
    pub(crate) go_on: tokio::sync::Notify,
}

impl Unplugged {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Unplugged {
            inner,
            away: AtomicBool::new(false),
            slots_stop: AtomicBool::new(false),
            stopped: tokio::sync::Notify::new(),
            go_on: tokio::sync::Notify::new(),
        }
    }

    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    fn up(&self) -> Result<&dyn Store, StoreError> {
        if self.away.load(Ordering::SeqCst) {
            // Text that a caller must not see.
            return Err(StoreError::Unavailable("no route to postgres://gapless:secret@db".into()));
        }
        Ok(self.inner.as_ref())
    }
}

#[async_trait]
impl Store for Unplugged {
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
        self.up()?.peek_queues(lanes, without).await
    }

    async fn open_commands(&self, lanes: &[SubmitterId]) -> Result<Vec<Vec<Command>>, StoreError> {
        self.up()?.open_commands(lanes).await
    }

    async fn lanes_with_work(&self, after: Option<&SubmitterId>, limit: u32) -> Result<Vec<SubmitterId>, StoreError> {
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
        if self.slots_stop.swap(false, Ordering::SeqCst) {
            self.stopped.notify_one();
            self.go_on.notified().await;
        }
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

    async fn read_events(&self, after: EventPosition, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.up()?.read_events(after, limit).await
    }

    async fn events_of(&self, id: TxId, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.up()?.events_of(id, limit).await
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
