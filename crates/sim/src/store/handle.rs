//! One process's way to the database.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::mistakes::{Mistake, made};
use gapless_domain::{
    Attempt, AuditEntry, ChainId, Command, CommandId, CommandStatus, Event, EventPosition, Head, IntentRecord,
    LaneCommit, Lease, NewCommand, NodeText, Nonce, OwnerId, RequestId, SubmitterId, Timestamp, TxId,
};
use gapless_store::{
    Accepted, Acquired, AuditFilter, CancelVerdict, Census, CommitVerdict, Committed, HeadVerdict, LaneStatus, Loaded,
    NewIntent, NewSubmitter, Renewal, RetentionKind, SlotStatus, Store, StoreError, TxFilter, WakeBoard, Wakeups,
};

use super::database::{Database, wait_for};
use crate::fault::{Fault, Faults, Odds};
use crate::history::{History, Moment};
use crate::net::{Net, Way};
use crate::stage::{Home, Stage};

/// More than any statement may take before its server gives it up.
const TOO_LONG: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Handle {
    inner: Arc<dyn Store>,
    database: Database,
    net: Net,
    faults: Faults,
    history: History,
    wakes: Arc<WakeBoard>,
    changes: Arc<WakeBoard>,
}

/// What a lost answer means to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Reads,
    /// Repeating it is harmless.
    Writes,
    Commits,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Trouble(&'static str);

impl Verb {
    fn interrupted(self, why: &'static str) -> StoreError {
        match self {
            Verb::Commits => StoreError::OutcomeUnknown(Trouble(why).into()),
            Verb::Reads | Verb::Writes => StoreError::Unavailable(Trouble(why).into()),
        }
    }
}

impl Handle {
    /// For a process that starts now; `home` hears its wake-ups.
    pub(crate) fn open(
        database: &Database,
        owner: OwnerId,
        net: Net,
        faults: Faults,
        history: History,
        home: Home,
    ) -> Arc<Handle> {
        let inner = database.open(owner);
        let (wakes, changes): (Arc<WakeBoard>, Arc<WakeBoard>) = (Arc::default(), Arc::default());
        let stage = net.stage();
        stage.spawn(home, pass_on(inner.wakeups(), Arc::clone(&wakes), net.clone(), faults.clone()));
        // Nobody in a world waits for these, so no fault is spent on them.
        let quiet = Faults::new(0, &Odds::new());
        stage.spawn(home, pass_on(inner.changes(), Arc::clone(&changes), net.clone(), quiet));
        Arc::new(Handle { inner, database: database.clone(), net, faults, history, wakes, changes })
    }

    fn stage(&self) -> &Stage {
        self.net.stage()
    }

    fn struck(&self, fault: Fault, what: &str) {
        let what = format!("{} of {}", what, self.inner.owner());
        self.history.tell(Moment::Struck { fault, what });
    }

    /// A statement travels, is executed in one moment, and its answer travels back; or not.
    async fn ask<T: Send + 'static>(
        &self,
        verb: Verb,
        name: &'static str,
        work: impl FnOnce(&dyn Store, &History) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut way = self.net.way();
        if self.faults.strikes(Fault::StoreSlow) {
            self.struck(Fault::StoreSlow, name);
            way.there += self.net.roll(|dice| dice.duration(Duration::from_secs(1), Duration::from_secs(14)));
        }
        if self.faults.strikes(Fault::StatementTimeout) {
            self.struck(Fault::StatementTimeout, name);
            self.stage().sleep(TOO_LONG).await;
            return Err(StoreError::Unavailable(Trouble("statement timeout").into()));
        }
        if verb != Verb::Reads && self.faults.strikes(Fault::CommitRefused) {
            self.struck(Fault::CommitRefused, name);
            self.stage().sleep(way.there + way.back).await;
            return Err(StoreError::Unavailable(Trouble("could not serialize access").into()));
        }
        if verb == Verb::Reads || !self.faults.strikes(Fault::AnswerLost) {
            return self.travel(way, verb, work).await;
        }
        // Nobody can tell whether it arrived.
        self.struck(Fault::AnswerLost, name);
        let (arrives, late) = self.net.roll(|dice| (dice.permille(700), dice.latency(Duration::from_millis(300))));
        if arrives && verb == Verb::Commits {
            // Whoever loads the lane next waits for it, so it may as well be waited for here.
            drop(self.travel(way, verb, work).await?);
        } else if arrives {
            // It may be done long after who asked has heard that the connection is gone.
            let way = Way { there: way.there + late, ..way };
            tokio::select! {
                biased;
                done = self.travel(way, verb, work) => drop(done?),
                () = self.stage().sleep(way.there / 2) => {}
            }
        } else {
            self.stage().sleep(way.there + way.back).await;
        }
        Err(verb.interrupted("connection reset by peer"))
    }

    async fn travel<T: Send + 'static>(
        &self,
        way: Way,
        verb: Verb,
        work: impl FnOnce(&dyn Store, &History) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let server = self.database.server();
        let (inner, database, history) = (Arc::clone(&self.inner), self.database.clone(), self.history.clone());
        let done = self.net.ask(way, move || {
            if database.server() != server {
                return Err(StoreError::Unavailable(Trouble("terminating connection").into()));
            }
            database.greet(&*inner);
            work(&*inner, &history)
        });
        let done = done.await;
        match done {
            Ok(_) if self.database.server() != server => Err(verb.interrupted("server closed the connection")),
            done => done,
        }
    }

    async fn write<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce(&dyn Store, &History) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.ask(Verb::Writes, name, work).await
    }

    async fn read<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.ask(Verb::Reads, name, |store, _| work(store)).await
    }

    /// What the seeds do: whether the lease holds is asked first, and the write waits for its row after that.
    async fn commit_by_exists(&self, commits: Vec<LaneCommit>) -> Result<Committed, StoreError> {
        let leases: Vec<Lease> = commits.iter().map(|commit| commit.lease().clone()).collect();
        let loaded = self.read("exists", move |store| wait_for(store.load_lanes(&leases))).await?;
        let holds: Vec<bool> = loaded.iter().map(|loaded| matches!(loaded, Loaded::Lane(_))).collect();
        let wait = self.net.roll(|dice| dice.latency(Duration::from_secs(2)));
        self.stage().sleep(wait).await;
        let mut asked = commits.clone().into_iter().zip(&holds).filter(|(_, holds)| **holds).map(|(commit, _)| commit);
        let valid: Vec<LaneCommit> = asked.by_ref().collect();
        let done = self.ask(Verb::Commits, "commit", move |store, history| commit(store, history, &valid)).await?;
        let mut verdicts = done.verdicts.into_iter();
        let verdicts =
            holds.iter().map(|holds| if *holds { verdicts.next() } else { None }.unwrap_or(CommitVerdict::Fenced));
        Ok(Committed { verdicts: verdicts.collect(), ..done })
    }
}

/// Wake-ups come a little later; some never, some twice.
async fn pass_on(mut from: Wakeups, to: Arc<WakeBoard>, net: Net, faults: Faults) {
    loop {
        let wakeup = from.next().await;
        if faults.strikes(Fault::WakeupLost) {
            continue;
        }
        if faults.strikes(Fault::WakeupDoubled) {
            let (again, to, stage) = (wakeup.clone(), Arc::clone(&to), net.stage().clone());
            let later = net.roll(|dice| dice.latency(Duration::from_millis(500)));
            net.stage().spawn(Home::World, async move {
                stage.sleep(later).await;
                to.post(&again);
            });
        }
        net.stage().sleep(net.way().there).await;
        to.post(&wakeup);
    }
}

fn commit(store: &dyn Store, history: &History, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
    let committed = wait_for(store.commit(commits))?;
    for (commit, verdict) in commits.iter().zip(&committed.verdicts) {
        let commit = Arc::new(commit.clone());
        history.tell(match verdict {
            CommitVerdict::Done => Moment::Committed { commit, at: committed.at },
            other => Moment::NotCommitted { commit, verdict: other.clone() },
        });
    }
    Ok(committed)
}

fn accept(store: &dyn Store, history: &History, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError> {
    let verdicts = wait_for(store.accept(intents))?;
    for (new, verdict) in intents.iter().zip(&verdicts) {
        if *verdict == Accepted::New {
            history.tell(Moment::Accepted { id: new.id, intent: Arc::new(new.intent.clone()) });
        }
    }
    Ok(verdicts)
}

#[async_trait]
impl Store for Handle {
    fn owner(&self) -> &OwnerId {
        self.inner.owner()
    }

    fn wakeups(&self) -> Wakeups {
        self.wakes.listen()
    }

    fn changes(&self) -> Wakeups {
        self.changes.listen()
    }

    async fn register_submitters(&self, submitters: &[NewSubmitter]) -> Result<(), StoreError> {
        let submitters = submitters.to_vec();
        self.write("register", move |store, _| wait_for(store.register_submitters(&submitters))).await
    }

    async fn submitters(&self) -> Result<Vec<NewSubmitter>, StoreError> {
        self.read("submitters", |store| wait_for(store.submitters())).await
    }

    async fn accept(&self, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError> {
        let intents = intents.to_vec();
        self.write("accept", move |store, history| accept(store, history, &intents)).await
    }

    async fn cancel_queued(&self, ids: &[TxId]) -> Result<Vec<CancelVerdict>, StoreError> {
        let ids = ids.to_vec();
        self.write("cancel", move |store, history| {
            let verdicts = wait_for(store.cancel_queued(&ids))?;
            for (id, verdict) in ids.iter().zip(&verdicts) {
                if *verdict == CancelVerdict::Canceled {
                    history.tell(Moment::CanceledInQueue { id: *id });
                }
            }
            Ok(verdicts)
        })
        .await
    }

    async fn put_commands(&self, commands: &[NewCommand]) -> Result<Vec<CommandId>, StoreError> {
        let commands = commands.to_vec();
        self.write("put commands", move |store, history| {
            let ids = wait_for(store.put_commands(&commands))?;
            for (id, command) in ids.iter().zip(&commands) {
                let (lane, kind) = (command.submitter.clone(), command.kind.clone());
                history.tell(Moment::CommandPut { id: *id, lane, kind });
            }
            Ok(ids)
        })
        .await
    }

    async fn acquire(&self, lanes: &[SubmitterId]) -> Result<Vec<Acquired>, StoreError> {
        let lanes = lanes.to_vec();
        self.write("acquire", move |store, history| {
            let acquired = wait_for(store.acquire(&lanes))?;
            for held in &acquired {
                if let Acquired::Held(lease) = held {
                    history.tell(Moment::Leased { lease: lease.clone() });
                }
            }
            Ok(acquired)
        })
        .await
    }

    async fn renew(&self) -> Result<Renewal, StoreError> {
        self.write("renew", |store, _| wait_for(store.renew())).await
    }

    async fn release(&self, leases: &[Lease]) -> Result<(), StoreError> {
        let leases = leases.to_vec();
        self.write("release", move |store, history| {
            wait_for(store.release(&leases))?;
            leases.into_iter().for_each(|lease| history.tell(Moment::Released { lease }));
            Ok(())
        })
        .await
    }

    async fn load_lanes(&self, leases: &[Lease]) -> Result<Vec<Loaded>, StoreError> {
        let leases = leases.to_vec();
        self.read("load", move |store| wait_for(store.load_lanes(&leases))).await
    }

    async fn commit(&self, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
        let commits = commits.to_vec();
        if made(Mistake::ExistsFence) {
            return self.commit_by_exists(commits).await;
        }
        self.ask(Verb::Commits, "commit", move |store, history| commit(store, history, &commits)).await
    }

    async fn peek_queues(
        &self,
        lanes: &[(SubmitterId, u32)],
        without: &[TxId],
    ) -> Result<Vec<Vec<IntentRecord>>, StoreError> {
        let (lanes, without) = (lanes.to_vec(), without.to_vec());
        self.read("peek", move |store| wait_for(store.peek_queues(&lanes, &without))).await
    }

    async fn open_commands(&self, lanes: &[SubmitterId]) -> Result<Vec<Vec<Command>>, StoreError> {
        let lanes = lanes.to_vec();
        self.read("open commands", move |store| wait_for(store.open_commands(&lanes))).await
    }

    async fn lanes_with_work(&self, after: Option<&SubmitterId>, limit: u32) -> Result<Vec<SubmitterId>, StoreError> {
        let after = after.cloned();
        self.read("sweep", move |store| wait_for(store.lanes_with_work(after.as_ref(), limit))).await
    }

    async fn lane_status(&self, lanes: &[SubmitterId]) -> Result<Vec<Option<LaneStatus>>, StoreError> {
        let lanes = lanes.to_vec();
        self.read("lane status", move |store| wait_for(store.lane_status(&lanes))).await
    }

    async fn open_slots(
        &self,
        lane: &SubmitterId,
        from: Option<Nonce>,
        limit: u32,
    ) -> Result<Vec<SlotStatus>, StoreError> {
        let lane = lane.clone();
        self.read("open slots", move |store| wait_for(store.open_slots(&lane, from, limit))).await
    }

    async fn census(&self) -> Result<Census, StoreError> {
        self.read("census", |store| wait_for(store.census())).await
    }

    async fn audit_log(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        let filter = filter.clone();
        self.read("audit log", move |store| wait_for(store.audit_log(&filter))).await
    }

    async fn get(&self, ids: &[TxId]) -> Result<Vec<Option<IntentRecord>>, StoreError> {
        let ids = ids.to_vec();
        self.read("get", move |store| wait_for(store.get(&ids))).await
    }

    async fn find_request(&self, submitter: &SubmitterId, request: &RequestId) -> Result<Option<TxId>, StoreError> {
        let (submitter, request) = (submitter.clone(), request.clone());
        self.read("find request", move |store| wait_for(store.find_request(&submitter, &request))).await
    }

    async fn used_for(&self, lane: &SubmitterId, nonce: Nonce) -> Result<Option<TxId>, StoreError> {
        let lane = lane.clone();
        self.read("used for", move |store| wait_for(store.used_for(&lane, nonce))).await
    }

    async fn list(&self, filter: &TxFilter) -> Result<Vec<IntentRecord>, StoreError> {
        let filter = filter.clone();
        self.read("list", move |store| wait_for(store.list(&filter))).await
    }

    async fn commands(&self, ids: &[CommandId]) -> Result<Vec<Option<CommandStatus>>, StoreError> {
        let ids = ids.to_vec();
        self.read("commands", move |store| wait_for(store.commands(&ids))).await
    }

    async fn attempts(&self, id: TxId) -> Result<Vec<Attempt>, StoreError> {
        self.read("attempts", move |store| wait_for(store.attempts(id))).await
    }

    async fn read_events(&self, after: EventPosition, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.read("read events", move |store| wait_for(store.read_events(after, limit))).await
    }

    async fn events_of(&self, id: TxId, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.read("events of", move |store| wait_for(store.events_of(id, limit))).await
    }

    async fn claim_events(&self, consumer: &str, limit: u32) -> Result<Option<Vec<Event>>, StoreError> {
        let consumer = consumer.to_owned();
        self.write("claim events", move |store, _| wait_for(store.claim_events(&consumer, limit))).await
    }

    async fn ack_events(&self, consumer: &str, upto: EventPosition) -> Result<bool, StoreError> {
        let consumer = consumer.to_owned();
        self.write("ack events", move |store, _| wait_for(store.ack_events(&consumer, upto))).await
    }

    async fn save_head(&self, chain: &ChainId, head: &Head) -> Result<HeadVerdict, StoreError> {
        let (chain, head) = (chain.clone(), head.clone());
        self.write("save head", move |store, history| {
            let verdict = wait_for(store.save_head(&chain, &head))?;
            if let (HeadVerdict::Saved, Some(block)) = (&verdict, head.finalized.filter(|block| block.number > 0)) {
                history.tell(Moment::FinalKept { block });
            }
            Ok(verdict)
        })
        .await
    }

    async fn head(&self, chain: &ChainId) -> Result<Option<Head>, StoreError> {
        let chain = chain.clone();
        self.read("head", move |store| wait_for(store.head(&chain))).await
    }

    async fn forget_head(&self, chain: &ChainId, by: &NodeText, why: &str) -> Result<(), StoreError> {
        let (chain, by, why) = (chain.clone(), by.clone(), why.to_owned());
        self.write("forget head", move |store, history| {
            wait_for(store.forget_head(&chain, &by, &why))?;
            history.tell(Moment::HeadForgotten { chain });
            Ok(())
        })
        .await
    }

    async fn claim_retention(&self) -> Result<Option<Timestamp>, StoreError> {
        self.write("claim retention", move |store, _| wait_for(store.claim_retention())).await
    }

    async fn apply_retention(&self, kind: RetentionKind, age: Duration, limit: u32) -> Result<u32, StoreError> {
        self.write("apply retention", move |store, history| {
            let count = wait_for(store.apply_retention(kind, age, limit))?;
            if count > 0 {
                history.tell(Moment::Retained { kind, count });
            }
            Ok(count)
        })
        .await
    }

    async fn declare_lost(&self, by: &NodeText, why: &str) -> Result<(), StoreError> {
        let (by, why) = (by.clone(), why.to_owned());
        self.write("declare lost", move |store, _| wait_for(store.declare_lost(&by, &why))).await
    }

    async fn declare_reconciled(&self, by: &NodeText, why: &str) -> Result<(), StoreError> {
        let (by, why) = (by.clone(), why.to_owned());
        self.write("declare reconciled", move |store, _| wait_for(store.declare_reconciled(&by, &why))).await
    }
}
