//! The roles of the contract. Each verb is one job of the database's thread; the module of the same name has its SQL.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{
    Attempt, AuditEntry, ChainId, Command, CommandId, CommandStatus, Event, EventPosition, Head, IntentRecord,
    LaneCommit, Lease, NewCommand, NodeText, Nonce, OwnerId, RequestId, SubmitterId, Timestamp, TxId,
};
use gapless_store::{
    Accepted, Acquired, AuditFilter, AuditRow, CancelVerdict, Census, Committed, HeadVerdict, Heads, IntentIntake,
    LaneStatus, Lanes, Leases, Loaded, NewIntent, NewSubmitter, Outbox, Renewal, RetentionKind, SlotStatus, StoreError,
    TxFilter, Upkeep, Views, WakeBoard, Wakeup, Wakeups, changed_lanes,
};

use crate::connection::DatabaseThread;
use crate::error::{from_sql, refusal};
use crate::open::{Location, SqliteOptions, open};
use crate::{accept, audit, commit, events, head, lease, load, read, retention, slots, status};

/// The handle of one node. Clones and handles of [`SqliteStore::for_owner`] share the database. The last handle closes
/// it.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    room: Arc<DatabaseThread>,
    work: Arc<WakeBoard>,
    changes: Arc<WakeBoard>,
    owner: OwnerId,
}

impl SqliteStore {
    /// Opens the database, or creates a new one. The call blocks on the disk, so it belongs into the start of a
    /// program.
    pub fn open(location: Location, owner: OwnerId, options: SqliteOptions) -> Result<SqliteStore, StoreError> {
        let room = Arc::new(DatabaseThread::open(open(&location, options)?)?);
        Ok(SqliteStore { room, work: Arc::default(), changes: Arc::default(), owner })
    }

    /// A handle of another owner on the same database, for several simulated nodes in one process.
    pub fn for_owner(&self, owner: OwnerId) -> SqliteStore {
        SqliteStore { owner, ..self.clone() }
    }

    /// Sets a quota: the file never has more pages (of 4 KiB) than this, and a write that needs more fails with
    /// [`StoreError::Full`]. The quota lasts until the database is closed, and never shrinks the file.
    pub async fn limit_pages(&self, pages: u32) -> Result<(), StoreError> {
        let limit = move |ledger: &mut crate::ledger::SqliteLedger| {
            ledger.sql.pragma_update(None, "max_page_count", pages).map_err(from_sql)
        };
        self.room.call(limit).await
    }

    fn wake<'a>(&self, lanes: impl Iterator<Item = &'a SubmitterId>) {
        for lane in lanes {
            self.work.post(&Wakeup::Lane(lane.clone()));
        }
    }

    fn tell<'a>(&self, lanes: impl Iterator<Item = &'a SubmitterId>) {
        for lane in lanes {
            self.changes.post(&Wakeup::Lane(lane.clone()));
        }
    }
}

#[async_trait]
impl IntentIntake for SqliteStore {
    async fn register_submitters(&self, submitters: &[NewSubmitter]) -> Result<(), StoreError> {
        let submitters = submitters.to_vec();
        let register = move |ledger: &mut crate::ledger::SqliteLedger| {
            let mut taken = None;
            let answer = ledger.write(|writing| {
                accept::register(writing, &submitters).inspect_err(|failure| taken = refusal(failure))
            });
            // An alias that another submitter has is no fault of the database.
            answer.map_err(|error| taken.map_or(error, StoreError::Setup))
        };
        self.room.call(register).await
    }

    async fn accept(&self, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError> {
        let batch = intents.to_vec();
        let verdicts = self.room.write(move |writing| accept::accept(writing, &batch)).await?;
        let new = intents.iter().zip(&verdicts).filter(|(_, verdict)| **verdict == Accepted::New);
        let lanes: Vec<_> = new.map(|(new, _)| new.intent.submitter()).collect();
        self.wake(lanes.iter().copied());
        self.tell(lanes.into_iter());
        Ok(verdicts)
    }

    async fn cancel_queued(&self, ids: &[TxId]) -> Result<Vec<CancelVerdict>, StoreError> {
        let ids = ids.to_vec();
        let answers = self.room.write(move |writing| accept::cancel_queued(writing, &ids)).await?;
        let (verdicts, lanes): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
        for lane in lanes.iter().flatten() {
            self.work.post(&Wakeup::QueueChanged(lane.clone()));
        }
        self.tell(lanes.iter().flatten());
        Ok(verdicts)
    }

    async fn put_commands(&self, commands: &[NewCommand]) -> Result<Vec<CommandId>, StoreError> {
        let batch = commands.to_vec();
        let ids = self.room.write(move |writing| accept::put_commands(writing, &batch)).await?;
        self.wake(commands.iter().map(|command| &command.submitter));
        Ok(ids)
    }
}

#[async_trait]
impl Leases for SqliteStore {
    fn owner(&self) -> &OwnerId {
        &self.owner
    }

    fn wakeups(&self) -> Wakeups {
        self.work.listen()
    }

    async fn acquire(&self, lanes: &[SubmitterId]) -> Result<Vec<Acquired>, StoreError> {
        let (owner, lanes) = (self.owner.clone(), lanes.to_vec());
        self.room.write(move |writing| lease::acquire(writing, &owner, &lanes)).await
    }

    async fn renew(&self) -> Result<Renewal, StoreError> {
        let owner = self.owner.clone();
        self.room.write(move |writing| lease::renew(writing, &owner)).await
    }

    async fn release(&self, leases: &[Lease]) -> Result<(), StoreError> {
        let (owner, leases) = (self.owner.clone(), leases.to_vec());
        let left = self.room.write(move |writing| lease::release(writing, &owner, &leases)).await?;
        self.wake(left.iter());
        Ok(())
    }

    async fn lanes_with_work(&self, after: Option<&SubmitterId>, limit: u32) -> Result<Vec<SubmitterId>, StoreError> {
        let after = after.cloned();
        self.room.read(move |reading| read::lanes_with_work(reading, after.as_ref(), limit)).await
    }

    async fn census(&self) -> Result<Census, StoreError> {
        let owner = self.owner.clone();
        self.room.read(move |reading| status::census(reading, &owner)).await
    }
}

#[async_trait]
impl Lanes for SqliteStore {
    async fn load_lanes(&self, leases: &[Lease]) -> Result<Vec<Loaded>, StoreError> {
        let (owner, leases) = (self.owner.clone(), leases.to_vec());
        self.room.read(move |reading| load::load_lanes(reading, &owner, &leases)).await
    }

    async fn commit(&self, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
        let (owner, batch) = (self.owner.clone(), commits.to_vec());
        let committed = self.room.write(move |writing| commit::commit(writing, &owner, &batch)).await?;
        self.tell(changed_lanes(commits, &committed.verdicts));
        Ok(committed)
    }

    async fn peek_queues(
        &self,
        lanes: &[(SubmitterId, u32)],
        without: &[TxId],
    ) -> Result<Vec<Vec<IntentRecord>>, StoreError> {
        let (lanes, without) = (lanes.to_vec(), without.iter().copied().collect());
        self.room.read(move |reading| read::peek_queues(reading, &lanes, &without)).await
    }

    async fn open_commands(&self, lanes: &[SubmitterId]) -> Result<Vec<Vec<Command>>, StoreError> {
        let lanes = lanes.to_vec();
        self.room.read(move |reading| read::open_commands(reading, &lanes)).await
    }
}

#[async_trait]
impl Outbox for SqliteStore {
    async fn read_events(&self, after: EventPosition, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.room.read(move |reading| events::read_events(reading, after, limit)).await
    }

    async fn claim_events(&self, consumer: &str, limit: u32) -> Result<Option<Vec<Event>>, StoreError> {
        let (owner, consumer) = (self.owner.clone(), consumer.to_owned());
        self.room.write(move |writing| events::claim_events(writing, &owner, &consumer, limit)).await
    }

    async fn ack_events(&self, consumer: &str, upto: EventPosition) -> Result<bool, StoreError> {
        let (owner, consumer) = (self.owner.clone(), consumer.to_owned());
        self.room.write(move |writing| events::ack_events(writing, &owner, &consumer, upto)).await
    }
}

#[async_trait]
impl Views for SqliteStore {
    fn changes(&self) -> Wakeups {
        self.changes.listen()
    }

    async fn submitters(&self) -> Result<Vec<NewSubmitter>, StoreError> {
        self.room.read(accept::submitters).await
    }

    async fn lane_status(&self, lanes: &[SubmitterId]) -> Result<Vec<Option<LaneStatus>>, StoreError> {
        let lanes = lanes.to_vec();
        self.room.read(move |reading| status::lane_status(reading, &lanes)).await
    }

    async fn open_slots(
        &self,
        lane: &SubmitterId,
        from: Option<Nonce>,
        limit: u32,
    ) -> Result<Vec<SlotStatus>, StoreError> {
        let lane = lane.clone();
        self.room.read(move |reading| slots::open_slots(reading, &lane, from, limit)).await
    }

    async fn audit_log(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        let filter = filter.clone();
        self.room.read(move |reading| audit::log(reading, &filter)).await
    }

    async fn get(&self, ids: &[TxId]) -> Result<Vec<Option<IntentRecord>>, StoreError> {
        let ids = ids.to_vec();
        self.room.read(move |reading| read::get(reading, &ids)).await
    }

    async fn find_request(&self, submitter: &SubmitterId, request: &RequestId) -> Result<Option<TxId>, StoreError> {
        let (submitter, request) = (submitter.clone(), request.clone());
        self.room.read(move |reading| read::find_request(reading, &submitter, &request)).await
    }

    async fn used_for(&self, lane: &SubmitterId, nonce: Nonce) -> Result<Option<TxId>, StoreError> {
        let lane = lane.clone();
        self.room.read(move |reading| read::used_for(reading, &lane, nonce)).await
    }

    async fn list(&self, filter: &TxFilter) -> Result<Vec<IntentRecord>, StoreError> {
        let filter = filter.clone();
        self.room.read(move |reading| read::list(reading, &filter)).await
    }

    async fn commands(&self, ids: &[CommandId]) -> Result<Vec<Option<CommandStatus>>, StoreError> {
        let ids = ids.to_vec();
        self.room.read(move |reading| read::commands(reading, &ids)).await
    }

    async fn attempts(&self, id: TxId) -> Result<Vec<Attempt>, StoreError> {
        self.room.read(move |reading| read::attempts(reading, id)).await
    }

    async fn events_of(&self, id: TxId, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.room.read(move |reading| events::events_of(reading, id, limit)).await
    }
}

#[async_trait]
impl Heads for SqliteStore {
    async fn save_head(&self, chain: &ChainId, head: &Head) -> Result<HeadVerdict, StoreError> {
        let (chain, head) = (chain.clone(), head.clone());
        self.room.write(move |writing| head::save_head(writing, &chain, &head)).await
    }

    async fn head(&self, chain: &ChainId) -> Result<Option<Head>, StoreError> {
        let chain = chain.clone();
        self.room.read(move |reading| head::head(reading, &chain)).await
    }

    async fn forget_head(&self, chain: &ChainId, by: &NodeText, why: &str) -> Result<(), StoreError> {
        let (chain, audited) = (chain.clone(), AuditRow::accept_chain(chain, by, why));
        self.room.write(move |writing| head::forget_head(writing, &chain, &audited)).await
    }
}

#[async_trait]
impl Upkeep for SqliteStore {
    async fn claim_retention(&self) -> Result<Option<Timestamp>, StoreError> {
        let owner = self.owner.clone();
        self.room.write(move |writing| retention::claim(writing, &owner)).await
    }

    async fn apply_retention(&self, kind: RetentionKind, age: Duration, limit: u32) -> Result<u32, StoreError> {
        let owner = self.owner.clone();
        self.room.write(move |writing| retention::apply(writing, &owner, kind, age, limit)).await
    }

    async fn declare_lost(&self, by: &NodeText, why: &str) -> Result<(), StoreError> {
        let (audited, why) = (AuditRow::declare_lost(by, why), why.to_owned());
        // A transaction of its own: later writes must count above the number that the new epoch sets.
        let declare = move |ledger: &mut crate::ledger::SqliteLedger| {
            ledger.write(|writing| {
                writing.new_epoch(&why)?;
                audit::write(writing, &audited)
            })
        };
        self.room.call(declare).await
    }

    async fn declare_reconciled(&self, by: &NodeText, why: &str) -> Result<(), StoreError> {
        let audited = AuditRow::declare_reconciled(by, why);
        let declare = move |writing: &crate::ledger::Writing<'_>| {
            accept::reconcile(writing)?;
            audit::write(writing, &audited)
        };
        self.room.write(declare).await
    }
}
