//! The connection of one node to the database. Requests travel over the network, and faults disturb them.

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{OwnerId, SubmitterId};
use gapless_store::{
    Accepted, Acquired, CancelVerdict, CommitVerdict, ExecutedWrite, FaultyStore, HeadVerdict, PendingCall, Store,
    StoreError, StoreFaults, StoreVerb, VerbKind, WakeBoard, Wakeups,
};

use super::database::{Database, wait_for};
use crate::fault::{Fault, Faults, Odds};
use crate::history::{History, Moment};
use crate::net::{Net, TravelTime};
use crate::stage::{Stage, TaskOwner};

/// The delay before a statement timeout: longer than any statement may take.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The faults on the way between one node and the database.
#[derive(Debug)]
pub(crate) struct DatabaseConnection {
    inner: Arc<dyn Store>,
    database: Database,
    net: Net,
    faults: Faults,
    history: History,
    wakes: Arc<WakeBoard>,
    changes: Arc<WakeBoard>,
}

/// The text of a simulated database error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ConnectionError(&'static str);

/// The error of a call whose answer did not arrive.
fn interrupted(verb: StoreVerb, why: &'static str) -> StoreError {
    match verb.kind() {
        VerbKind::Commit => StoreError::OutcomeUnknown(ConnectionError(why).into()),
        VerbKind::Read | VerbKind::Write => StoreError::Unavailable(ConnectionError(why).into()),
    }
}

impl DatabaseConnection {
    /// Connects a node that starts now. Tasks on `home` pass its wake-ups on.
    pub(crate) fn open(
        database: &Database,
        owner: OwnerId,
        net: Net,
        faults: Faults,
        history: History,
        task_owner: TaskOwner,
    ) -> Arc<dyn Store> {
        let inner = database.open(owner);
        let (wakes, changes): (Arc<WakeBoard>, Arc<WakeBoard>) = (Arc::default(), Arc::default());
        let stage = net.stage();
        stage.spawn(task_owner, pass_on(inner.wakeups(), Arc::clone(&wakes), net.clone(), faults.clone()));
        // No part of a world waits for changes, so no fault is spent on them.
        let no_faults = Faults::new(0, &Odds::new());
        stage.spawn(task_owner, pass_on(inner.changes(), Arc::clone(&changes), net.clone(), no_faults));
        let database = database.clone();
        let connection =
            DatabaseConnection { inner: Arc::clone(&inner), database, net, faults, history, wakes, changes };
        Arc::new(FaultyStore::new(inner, connection))
    }

    fn stage(&self) -> &Stage {
        self.net.stage()
    }

    fn struck(&self, fault: Fault, verb: StoreVerb) {
        let what = format!("{} of {}", verb.as_str(), self.inner.owner());
        self.history.tell(Moment::Struck { fault, what });
    }

    /// Sends a call to the server, runs it there in one moment, and brings the answer back.
    async fn travel<T: Send + 'static>(
        &self,
        travel_time: TravelTime,
        verb: StoreVerb,
        call: PendingCall<T>,
    ) -> Result<T, StoreError> {
        let server = self.database.server();
        let (inner, database) = (Arc::clone(&self.inner), self.database.clone());
        let answer = self.net.ask(travel_time, move || {
            if database.server() != server {
                return Err(StoreError::Unavailable(ConnectionError("terminating connection").into()));
            }
            database.greet(&*inner);
            wait_for(call)
        });
        match answer.await {
            Ok(_) if self.database.server() != server => Err(interrupted(verb, "server closed the connection")),
            answer => answer,
        }
    }

    /// Runs a write whose answer is lost. The call may reach the database or not.
    async fn lose_answer<T: Send + 'static>(
        &self,
        travel_time: TravelTime,
        verb: StoreVerb,
        call: PendingCall<T>,
    ) -> Result<T, StoreError> {
        let (arrives, late) = self.net.roll(|dice| (dice.permille(700), dice.latency(Duration::from_millis(300))));
        if arrives && verb.kind() == VerbKind::Commit {
            // The next load of the lane waits for this commit in a real database, so the commit ends before the error.
            drop(self.travel(travel_time, verb, call).await?);
        } else if arrives {
            // The database may execute the call long after the caller has heard that the connection is gone.
            let travel_time = TravelTime { there: travel_time.there + late, ..travel_time };
            tokio::select! {
                biased;
                done = self.travel(travel_time, verb, call) => drop(done?),
                () = self.stage().sleep(travel_time.there / 2) => {}
            }
        } else {
            self.stage().sleep(travel_time.there + travel_time.back).await;
        }
        Err(interrupted(verb, "connection reset by peer"))
    }
}

impl StoreFaults for DatabaseConnection {
    async fn call<T: Send + 'static>(
        &self,
        verb: StoreVerb,
        _: &[SubmitterId],
        call: PendingCall<T>,
    ) -> Result<T, StoreError> {
        let writes = verb.kind() != VerbKind::Read;
        let mut travel_time = self.net.travel_time();
        if self.faults.strikes(Fault::StoreSlow) {
            self.struck(Fault::StoreSlow, verb);
            travel_time.there += self.net.roll(|dice| dice.duration(Duration::from_secs(1), Duration::from_secs(14)));
        }
        if self.faults.strikes(Fault::StatementTimeout) {
            self.struck(Fault::StatementTimeout, verb);
            self.stage().sleep(STATEMENT_TIMEOUT).await;
            return Err(StoreError::Unavailable(ConnectionError("statement timeout").into()));
        }
        if writes && self.faults.strikes(Fault::CommitRefused) {
            self.struck(Fault::CommitRefused, verb);
            self.stage().sleep(travel_time.there + travel_time.back).await;
            return Err(StoreError::Unavailable(ConnectionError("could not serialize access").into()));
        }
        if writes && self.faults.strikes(Fault::AnswerLost) {
            self.struck(Fault::AnswerLost, verb);
            return self.lose_answer(travel_time, verb, call).await;
        }
        self.travel(travel_time, verb, call).await
    }

    fn executed(&self, write: ExecutedWrite<'_>) {
        match write {
            ExecutedWrite::Accept(intents, verdicts) => {
                for (new, _) in intents.iter().zip(verdicts).filter(|(_, verdict)| **verdict == Accepted::New) {
                    self.history.tell(Moment::Accepted { id: new.id, intent: Arc::new(new.intent.clone()) });
                }
            }
            ExecutedWrite::CancelQueued(ids, verdicts) => {
                let canceled = ids.iter().zip(verdicts).filter(|(_, verdict)| **verdict == CancelVerdict::Canceled);
                canceled.for_each(|(id, _)| self.history.tell(Moment::CanceledInQueue { id: *id }));
            }
            ExecutedWrite::PutCommands(commands, ids) => {
                for (id, command) in ids.iter().zip(commands) {
                    let (lane, kind) = (command.submitter.clone(), command.kind.clone());
                    self.history.tell(Moment::CommandPut { id: *id, lane, kind });
                }
            }
            ExecutedWrite::Acquire(acquired) => {
                for held in acquired {
                    if let Acquired::Held(lease) = held {
                        self.history.tell(Moment::Leased { lease: lease.clone() });
                    }
                }
            }
            ExecutedWrite::Release(leases) => {
                leases.iter().for_each(|lease| self.history.tell(Moment::Released { lease: lease.clone() }));
            }
            ExecutedWrite::Commit(commits, committed) => {
                for (commit, verdict) in commits.iter().zip(&committed.verdicts) {
                    let commit = Arc::new(commit.clone());
                    self.history.tell(match verdict {
                        CommitVerdict::Done => Moment::Committed { commit, at: committed.at },
                        other => Moment::NotCommitted { commit, verdict: other.clone() },
                    });
                }
            }
            ExecutedWrite::SaveHead(head, verdict) => {
                let block = head.finalized.filter(|block| block.number > 0 && *verdict == HeadVerdict::Saved);
                block.into_iter().for_each(|block| self.history.tell(Moment::FinalKept { block }));
            }
            ExecutedWrite::ForgetHead(chain) => self.history.tell(Moment::HeadForgotten { chain: chain.clone() }),
            ExecutedWrite::ApplyRetention(_, 0) => {}
            ExecutedWrite::ApplyRetention(kind, count) => self.history.tell(Moment::Retained { kind, count }),
        }
    }

    fn wakeups(&self, _: &dyn Store) -> Wakeups {
        self.wakes.listen()
    }

    fn changes(&self, _: &dyn Store) -> Wakeups {
        self.changes.listen()
    }
}

/// Delivers wake-ups after a delay. Faults lose some of them and deliver others twice.
async fn pass_on(mut from: Wakeups, to: Arc<WakeBoard>, net: Net, faults: Faults) {
    loop {
        let wakeup = from.next().await;
        if faults.strikes(Fault::WakeupLost) {
            continue;
        }
        if faults.strikes(Fault::WakeupDoubled) {
            let (again, to, stage) = (wakeup.clone(), Arc::clone(&to), net.stage().clone());
            let later = net.roll(|dice| dice.latency(Duration::from_millis(500)));
            net.stage().spawn(TaskOwner::World, async move {
                stage.sleep(later).await;
                to.post(&again);
            });
        }
        net.stage().sleep(net.travel_time().there).await;
        to.post(&wakeup);
    }
}
