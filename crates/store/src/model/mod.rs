//! The reference store: everything in memory, behind one lock, without randomness.
//!
//! The model shows in the plainest code what [`Store`](crate::Store) promises. The SQL stores must give the same
//! answers, and the simulator runs on the model. [`Model`] is the database, [`ModelStore`] one process's handle to it.
//!
//! - `tables`: a map of [`LaneLedger`](gapless_domain::LaneLedger)s, and the rows that belong to no lane
//! - `accept`: writes that need no lease
//! - `lease`, `commit`: ownership, and the writes that need it
//! - `rules`: the decisions of the model that a simulator may replace
//! - `read`, `outbox`: reads, and events for consumers
//! - `upkeep`: retention
//! - `status`: reads for operators

mod accept;
mod commit;
mod lease;
mod outbox;
mod read;
mod rules;
mod status;
mod tables;
mod upkeep;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{
    Attempt, AuditEntry, ChainId, Command, CommandId, CommandStatus, Event, EventPosition, Head, IntentRecord,
    LaneCommit, Lease, LeaseTerms, NewCommand, NodeText, Nonce, OwnerId, RequestId, SubmitterId, Timestamp, TxId,
};

use crate::audit::AuditRow;
use crate::clock::DatabaseClock;
use crate::error::StoreError;
use crate::retention::RetentionKind;
use crate::roles::{
    Accepted, Acquired, AuditFilter, CancelVerdict, Census, Committed, HeadVerdict, Heads, IntentIntake, LaneStatus,
    Lanes, Leases, Loaded, NewIntent, NewSubmitter, Outbox, Renewal, SlotStatus, TxFilter, Upkeep, Views,
};
use crate::wake::{WakeBoard, Wakeup, Wakeups, changed_lanes};
pub use rules::{DomainRules, ModelRules};
use tables::{CallContext, Tables};

/// A database in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Model(Arc<SharedModel>);

#[derive(Debug)]
struct SharedModel {
    tables: Mutex<Tables>,
    terms: LeaseTerms,
    clock: Arc<dyn DatabaseClock>,
    rules: Arc<dyn ModelRules>,
    wakes: WakeBoard,
    changes: WakeBoard,
}

/// The contents of a model at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot(Tables);

/// One process's handle.
#[derive(Debug)]
pub struct ModelStore {
    model: Model,
    owner: OwnerId,
    /// The counter that this process's canary row holds, unless the database lost commits that it acknowledged.
    canary: AtomicU64,
}

impl Model {
    pub fn new(terms: LeaseTerms, clock: Arc<dyn DatabaseClock>) -> Self {
        Model::with_rules(terms, clock, Arc::new(DomainRules))
    }

    /// A model whose decisions may differ from the contract.
    pub fn with_rules(terms: LeaseTerms, clock: Arc<dyn DatabaseClock>, rules: Arc<dyn ModelRules>) -> Self {
        Model(Arc::new(SharedModel {
            tables: Mutex::default(),
            terms,
            clock,
            rules,
            wakes: WakeBoard::default(),
            changes: WakeBoard::default(),
        }))
    }

    /// A handle for a process that starts now. Each start has an owner id of its own.
    pub fn node(&self, owner: OwnerId) -> ModelStore {
        let canary = self.tables().canaries.get(&owner).copied().unwrap_or(0);
        let store = ModelStore { model: self.clone(), owner, canary: AtomicU64::new(canary) };
        store.run(|tables, call| tables.seen(call));
        store
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.tables().clone())
    }

    /// Loses every commit since the snapshot, as a failover to a stale standby does. No process is told.
    pub fn restore(&self, snapshot: Snapshot) {
        *self.tables() = snapshot.0;
    }

    /// The tables under their lock. After a panic under the lock the test has failed already, so poison is ignored.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelStore {
    /// Runs one verb: under the lock, at one moment of the database's clock.
    fn run<T>(&self, verb: impl FnOnce(&mut Tables, &CallContext<'_>) -> T) -> T {
        let mut tables = self.model.tables();
        let shared = &self.model.0;
        let (now, terms, rules) = (shared.clock.now(), &shared.terms, &*shared.rules);
        verb(&mut tables, &CallContext { owner: &self.owner, now, terms, rules })
    }

    fn wake<'a>(&self, lanes: impl Iterator<Item = &'a SubmitterId>) {
        for lane in lanes {
            self.model.0.wakes.post(&Wakeup::Lane(lane.clone()));
        }
    }

    fn tell<'a>(&self, lanes: impl Iterator<Item = &'a SubmitterId>) {
        for lane in lanes {
            self.model.0.changes.post(&Wakeup::Lane(lane.clone()));
        }
    }

    /// Raises this process's canary by compare-and-set. A row that differs shows that the database lost commits that it
    /// acknowledged.
    fn advance_canary(&self, tables: &mut Tables, call: &CallContext<'_>) -> Result<(), StoreError> {
        let expected = self.canary.load(Ordering::SeqCst);
        let found = tables.canaries.get(&self.owner).copied().unwrap_or(0);
        if call.rules.is_loss(expected, found) {
            tables.begin_epoch(call);
            self.canary.store(found, Ordering::SeqCst);
            return Err(StoreError::Regressed(format!("{} wrote {expected}, the database has {found}", self.owner)));
        }
        tables.canaries.insert(self.owner.clone(), expected + 1);
        self.canary.store(expected + 1, Ordering::SeqCst);
        Ok(())
    }
}

#[async_trait]
impl IntentIntake for ModelStore {
    async fn register_submitters(&self, submitters: &[NewSubmitter]) -> Result<(), StoreError> {
        self.run(|tables, _| tables.register(submitters))
    }

    async fn accept(&self, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError> {
        let verdicts = self.run(|tables, call| tables.accept(call, intents));
        let new = intents.iter().zip(&verdicts).filter(|(_, verdict)| **verdict == Accepted::New);
        let lanes: Vec<_> = new.map(|(new, _)| new.intent.submitter()).collect();
        self.wake(lanes.iter().copied());
        self.tell(lanes.into_iter());
        Ok(verdicts)
    }

    async fn cancel_queued(&self, ids: &[TxId]) -> Result<Vec<CancelVerdict>, StoreError> {
        let (verdicts, lanes) = self.run(|tables, call| {
            let verdicts = tables.cancel_queued(call, ids);
            (verdicts.clone(), tables.lanes_of(ids, &verdicts))
        });
        for lane in &lanes {
            self.model.0.wakes.post(&Wakeup::QueueChanged(lane.clone()));
        }
        self.tell(lanes.iter());
        Ok(verdicts)
    }

    async fn put_commands(&self, commands: &[NewCommand]) -> Result<Vec<CommandId>, StoreError> {
        let ids = self.run(|tables, call| tables.put_commands(call, commands));
        self.wake(commands.iter().map(|command| &command.submitter));
        Ok(ids)
    }
}

#[async_trait]
impl Leases for ModelStore {
    fn owner(&self) -> &OwnerId {
        &self.owner
    }

    fn wakeups(&self) -> Wakeups {
        self.model.0.wakes.listen()
    }

    async fn acquire(&self, lanes: &[SubmitterId]) -> Result<Vec<Acquired>, StoreError> {
        Ok(self.run(|tables, call| lanes.iter().map(|lane| tables.acquire(call, lane)).collect()))
    }

    async fn renew(&self) -> Result<Renewal, StoreError> {
        self.run(|tables, call| {
            self.advance_canary(tables, call)?;
            tables.seen(call);
            Ok(tables.renew(call))
        })
    }

    async fn release(&self, leases: &[Lease]) -> Result<(), StoreError> {
        let left: Vec<&Lease> =
            self.run(|tables, call| leases.iter().filter(|lease| tables.release(call, lease)).collect());
        self.wake(left.into_iter().map(Lease::submitter));
        Ok(())
    }

    async fn lanes_with_work(&self, after: Option<&SubmitterId>, limit: u32) -> Result<Vec<SubmitterId>, StoreError> {
        Ok(self.run(|tables, call| tables.lanes_with_work(call, after, limit)))
    }

    async fn census(&self) -> Result<Census, StoreError> {
        Ok(self.run(|tables, call| tables.census(call)))
    }
}

#[async_trait]
impl Lanes for ModelStore {
    async fn load_lanes(&self, leases: &[Lease]) -> Result<Vec<Loaded>, StoreError> {
        Ok(self.run(|tables, call| leases.iter().map(|lease| tables.load(call, lease)).collect()))
    }

    async fn commit(&self, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
        let committed = self.run(|tables, call| {
            self.advance_canary(tables, call)?;
            tables.seen(call);
            Ok::<_, StoreError>(Committed { verdicts: tables.commit(call, commits), at: call.now, replicated: true })
        })?;
        self.tell(changed_lanes(commits, &committed.verdicts));
        Ok(committed)
    }

    async fn peek_queues(
        &self,
        lanes: &[(SubmitterId, u32)],
        without: &[TxId],
    ) -> Result<Vec<Vec<IntentRecord>>, StoreError> {
        Ok(self.run(|tables, _| lanes.iter().map(|(lane, limit)| tables.peek(lane, *limit, without)).collect()))
    }

    async fn open_commands(&self, lanes: &[SubmitterId]) -> Result<Vec<Vec<Command>>, StoreError> {
        Ok(self.run(|tables, _| lanes.iter().map(|lane| tables.open_commands(lane)).collect()))
    }
}

#[async_trait]
impl Outbox for ModelStore {
    async fn read_events(&self, after: EventPosition, limit: u32) -> Result<Vec<Event>, StoreError> {
        Ok(self.run(|tables, _| tables.read_events(after, limit)))
    }

    async fn claim_events(&self, consumer: &str, limit: u32) -> Result<Option<Vec<Event>>, StoreError> {
        Ok(self.run(|tables, call| tables.claim_events(call, consumer, limit)))
    }

    async fn ack_events(&self, consumer: &str, upto: EventPosition) -> Result<bool, StoreError> {
        Ok(self.run(|tables, call| tables.ack_events(call, consumer, upto)))
    }
}

#[async_trait]
impl Views for ModelStore {
    fn changes(&self) -> Wakeups {
        self.model.0.changes.listen()
    }

    async fn submitters(&self) -> Result<Vec<NewSubmitter>, StoreError> {
        Ok(self.run(|tables, _| tables.submitters()))
    }

    async fn lane_status(&self, lanes: &[SubmitterId]) -> Result<Vec<Option<LaneStatus>>, StoreError> {
        Ok(self.run(|tables, call| lanes.iter().map(|lane| tables.status(call, lane)).collect()))
    }

    async fn open_slots(
        &self,
        lane: &SubmitterId,
        from: Option<Nonce>,
        limit: u32,
    ) -> Result<Vec<SlotStatus>, StoreError> {
        Ok(self.run(|tables, _| tables.open_slots(lane, from, limit)))
    }

    async fn audit_log(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        Ok(self.run(|tables, _| tables.audit_log(filter)))
    }

    async fn get(&self, ids: &[TxId]) -> Result<Vec<Option<IntentRecord>>, StoreError> {
        Ok(self.run(|tables, _| ids.iter().map(|id| tables.get(*id).cloned()).collect()))
    }

    async fn find_request(&self, submitter: &SubmitterId, request: &RequestId) -> Result<Option<TxId>, StoreError> {
        let key = (submitter.clone(), request.clone());
        Ok(self.run(|tables, _| tables.requests.get(&key).map(|known| known.tx_id)))
    }

    async fn used_for(&self, lane: &SubmitterId, nonce: Nonce) -> Result<Option<TxId>, StoreError> {
        Ok(self.run(|tables, _| tables.ledger(lane).and_then(|ledger| ledger.slots.get(&nonce)?.submitted_for())))
    }

    async fn list(&self, filter: &TxFilter) -> Result<Vec<IntentRecord>, StoreError> {
        Ok(self.run(|tables, _| tables.list(filter)))
    }

    async fn commands(&self, ids: &[CommandId]) -> Result<Vec<Option<CommandStatus>>, StoreError> {
        Ok(self.run(|tables, _| ids.iter().map(|id| tables.command(*id)).collect()))
    }

    async fn attempts(&self, id: TxId) -> Result<Vec<Attempt>, StoreError> {
        Ok(self.run(|tables, _| tables.attempts_of(id)))
    }

    async fn events_of(&self, id: TxId, limit: u32) -> Result<Vec<Event>, StoreError> {
        Ok(self.run(|tables, _| tables.events_of(id, limit)))
    }
}

#[async_trait]
impl Heads for ModelStore {
    async fn save_head(&self, chain: &ChainId, head: &Head) -> Result<HeadVerdict, StoreError> {
        Ok(self.run(|tables, _| tables.save_head(chain, head)))
    }

    async fn head(&self, chain: &ChainId) -> Result<Option<Head>, StoreError> {
        Ok(self.run(|tables, _| tables.heads.get(chain).cloned()))
    }

    async fn forget_head(&self, chain: &ChainId, by: &NodeText, why: &str) -> Result<(), StoreError> {
        self.run(|tables, call| {
            tables.heads.remove(chain);
            tables.audit(call, AuditRow::accept_chain(chain, by, why));
        });
        Ok(())
    }
}

#[async_trait]
impl Upkeep for ModelStore {
    async fn claim_retention(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.run(|tables, call| tables.claim_retention(call)))
    }

    async fn apply_retention(&self, kind: RetentionKind, age: Duration, limit: u32) -> Result<u32, StoreError> {
        Ok(self.run(|tables, call| tables.apply_retention(call, kind, age, limit)))
    }

    async fn declare_lost(&self, by: &NodeText, why: &str) -> Result<(), StoreError> {
        self.run(|tables, call| {
            tables.begin_epoch(call);
            tables.audit(call, AuditRow::declare_lost(by, why));
        });
        Ok(())
    }

    async fn declare_reconciled(&self, by: &NodeText, why: &str) -> Result<(), StoreError> {
        self.run(|tables, call| {
            tables.unreconciled = false;
            tables.audit(call, AuditRow::declare_reconciled(by, why));
        });
        Ok(())
    }
}
