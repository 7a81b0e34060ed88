//! Bugs of the store, and of nodes that misread its answers.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gapless_domain::ledger::{CommitFacts, LeaseFact, Rejection};
use gapless_domain::{Event, EventBody, FencingToken, Intent, LaneCommit, Lease, RequestId, SubmitterId};
use gapless_store::{
    Accepted, Acquired, CommitVerdict, Committed, FaultyStore, Loaded, ModelRules, NewIntent, PendingCall, Store,
    StoreError, StoreFaults, StoreVerb, Views,
};

use super::Mistake;
use crate::net::Net;
use crate::stage::TaskOwner;

/// A bug inside of the database, between its tables and every connection.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseBug {
    mistake: Mistake,
    /// The first token of each lane.
    tokens: Arc<Mutex<BTreeMap<SubmitterId, FencingToken>>>,
}

impl DatabaseBug {
    pub(crate) fn of(mistake: Option<Mistake>) -> Option<DatabaseBug> {
        let is_here = |mistake: &Mistake| {
            use Mistake::{EventApart, ExistsFence, ForgetRequest, KeepToken, LostWakeup, NoEpoch};
            matches!(mistake, EventApart | ExistsFence | ForgetRequest | KeepToken | LostWakeup | NoEpoch)
        };
        mistake.filter(is_here).map(|mistake| DatabaseBug { mistake, tokens: Arc::default() })
    }

    /// The store as connections see it.
    pub(crate) fn wrap(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(FaultyStore::new(store, self.clone()))
    }

    /// False if a process does not notice that the server is another one.
    pub(crate) fn notices_takeovers(&self) -> bool {
        self.mistake != Mistake::NoEpoch
    }

    fn alter(&self, verb: StoreVerb, answer: &mut dyn Any) {
        match self.mistake {
            Mistake::KeepToken => {
                let acquired = answer.downcast_mut::<Vec<Acquired>>();
                acquired.into_iter().flatten().for_each(|acquired| self.keep_token(acquired));
            }
            Mistake::EventApart => {
                if let Some(events) = answer.downcast_mut::<Vec<Event>>() {
                    drop_some(events);
                } else if let Some(Some(events)) = answer.downcast_mut::<Option<Vec<Event>>>() {
                    drop_some(events);
                }
            }
            Mistake::LostWakeup if verb == StoreVerb::LanesWithWork => {
                answer.downcast_mut::<Vec<SubmitterId>>().into_iter().for_each(Vec::clear);
            }
            _ => {}
        }
    }

    fn keep_token(&self, acquired: &mut Acquired) {
        let Acquired::Held(lease) = acquired else { return };
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let token = *tokens.entry(lease.submitter().clone()).or_insert(lease.token());
        *lease = Lease::granted(lease.submitter().clone(), lease.owner().clone(), token);
    }
}

/// Drops the events of every seventh database transaction.
fn drop_some(events: &mut Vec<Event>) {
    events.retain(|event| matches!(event.body, EventBody::Lane { .. }) || !event.position.commit.is_multiple_of(7));
}

impl StoreFaults for DatabaseBug {
    async fn call<T: Send + 'static>(
        &self,
        verb: StoreVerb,
        _: &[SubmitterId],
        call: PendingCall<T>,
    ) -> Result<T, StoreError> {
        let mut answer = call.await?;
        self.alter(verb, &mut answer);
        Ok(answer)
    }

    /// A request that is known already gets another id, so the store does not recognize it.
    async fn accept(&self, store: &FaultyStore<Self>, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError> {
        let mut intents = intents.to_vec();
        if self.mistake == Mistake::ForgetRequest {
            for new in &mut intents {
                let known = store.find_request(new.intent.submitter(), new.intent.request_id()).await?;
                if known.is_some() {
                    new.intent = under_other_id(new);
                }
            }
        }
        store.run_accept(intents).await
    }
}

fn under_other_id(new: &NewIntent) -> Intent {
    let intent = &new.intent;
    Intent::restore(
        intent.submitter().clone(),
        RequestId::restore(&format!("{} of {}", intent.request_id(), new.id)),
        intent.payload().clone(),
        intent.speed(),
        intent.valid_until(),
        intent.metadata().cloned(),
    )
}

/// The rules of the model with a bug.
impl ModelRules for DatabaseBug {
    fn check(&self, commit: &LaneCommit, facts: &CommitFacts) -> Result<(), Rejection> {
        if self.mistake != Mistake::ExistsFence {
            return gapless_domain::ledger::check(commit, facts).map(drop);
        }
        let facts = CommitFacts { lease: LeaseFact::Held, written_by: None, ..facts.clone() };
        gapless_domain::ledger::check(commit, &facts).map(drop)
    }

    fn is_loss(&self, written: u64, found: u64) -> bool {
        self.mistake != Mistake::NoEpoch && written != found
    }
}

/// A bug of a node, between its engine and its connection to the database.
#[derive(Debug)]
pub(crate) struct NodeBug {
    mistake: Mistake,
    connection: Arc<dyn Store>,
    net: Net,
    task_owner: TaskOwner,
}

impl NodeBug {
    /// The store as the engine of a process sees it.
    pub(crate) fn wrap(
        mistake: Option<Mistake>,
        connection: Arc<dyn Store>,
        net: &Net,
        task_owner: TaskOwner,
    ) -> Arc<dyn Store> {
        let Some(mistake) = mistake.filter(|mistake| {
            matches!(mistake, Mistake::AckBeforeCommit | Mistake::ExistsFence | Mistake::UnknownIsDone)
        }) else {
            return connection;
        };
        let bug = NodeBug { mistake, connection: Arc::clone(&connection), net: net.clone(), task_owner };
        Arc::new(FaultyStore::new(connection, bug))
    }

    /// A first statement checks the leases, and a later one writes without a check.
    async fn check_and_write(&self, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
        let leases: Vec<Lease> = commits.iter().map(|commit| commit.lease().clone()).collect();
        let loaded = self.connection.load_lanes(&leases).await?;
        let holds: Vec<bool> = loaded.iter().map(|loaded| matches!(loaded, Loaded::Lane(_))).collect();
        let wait = self.net.roll(|dice| dice.latency(Duration::from_secs(2)));
        self.net.stage().sleep(wait).await;
        let held = commits.iter().zip(&holds).filter(|(_, holds)| **holds).map(|(commit, _)| commit.clone());
        let done = self.connection.commit(&held.collect::<Vec<_>>()).await?;
        let mut verdicts = done.verdicts.into_iter();
        let verdicts =
            holds.iter().map(|holds| if *holds { verdicts.next() } else { None }.unwrap_or(CommitVerdict::Fenced));
        Ok(Committed { verdicts: verdicts.collect(), ..done })
    }

    /// Takes commits with an unknown outcome for done, and asks the store only for the time.
    async fn assume_done(&self, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
        let unknown = match self.connection.commit(commits).await {
            Err(StoreError::OutcomeUnknown(error)) => StoreError::OutcomeUnknown(error),
            answer => return answer,
        };
        let Some(lease) = commits.first().map(LaneCommit::lease) else { return Err(unknown) };
        match self.connection.load_lanes(std::slice::from_ref(lease)).await.ok().and_then(|mut loaded| loaded.pop()) {
            Some(Loaded::Lane(lane)) => {
                let verdicts = commits.iter().map(|_| CommitVerdict::Done).collect();
                Ok(Committed { verdicts, at: lane.now, replicated: true })
            }
            _ => Err(unknown),
        }
    }
}

impl StoreFaults for NodeBug {
    /// Answers at once, and writes later.
    async fn accept(&self, store: &FaultyStore<Self>, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError> {
        if self.mistake != Mistake::AckBeforeCommit {
            return store.run_accept(intents.to_vec()).await;
        }
        let (connection, later) = (Arc::clone(&self.connection), intents.to_vec());
        self.net.stage().spawn(self.task_owner, async move {
            // The caller has its answer, whatever becomes of the write.
            let _ = connection.accept(&later).await;
        });
        Ok(vec![Accepted::New; intents.len()])
    }

    async fn commit(&self, store: &FaultyStore<Self>, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
        match self.mistake {
            Mistake::ExistsFence => self.check_and_write(commits).await,
            Mistake::UnknownIsDone => self.assume_done(commits).await,
            _ => store.run_commit(commits.to_vec()).await,
        }
    }
}
