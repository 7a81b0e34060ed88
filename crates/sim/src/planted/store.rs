//! Bugs of the store, and of nodes that misread its answers.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::ledger::{CommitFacts, LeaseFact, Rejection};
use gapless_domain::{Event, EventBody, FencingToken, Intent, LaneCommit, Lease, RequestId, SubmitterId};
use gapless_store::{
    Accepted, CommitVerdict, Committed, DomainRules, FaultyStore, Loaded, ModelRules, NewIntent, PendingCall, Store,
    StoreError, StoreFaults, StoreVerb, Views,
};

use super::Mistake;
use crate::net::Net;
use crate::stage::TaskOwner;

/// A bug inside of the database, between its tables and every connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatabaseBug {
    mistake: Mistake,
}

impl DatabaseBug {
    pub(crate) fn of(mistake: Option<Mistake>) -> Option<DatabaseBug> {
        let is_here = |mistake: &Mistake| {
            use Mistake::{EventApart, ExistsFence, ForgetRequest, KeepToken, LostWakeup, NoEpoch};
            matches!(mistake, EventApart | ExistsFence | ForgetRequest | KeepToken | LostWakeup | NoEpoch)
        };
        mistake.filter(is_here).map(|mistake| DatabaseBug { mistake })
    }

    /// The store as connections see it.
    pub(crate) fn wrap(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(FaultyStore::new(store, *self))
    }

    /// False if a process does not notice that the server is another one.
    pub(crate) fn notices_takeovers(&self) -> bool {
        self.mistake != Mistake::NoEpoch
    }

    fn alter(&self, verb: StoreVerb, answer: &mut dyn Any) {
        match self.mistake {
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

    fn next_token(&self, last: FencingToken) -> FencingToken {
        if self.mistake == Mistake::KeepToken { last } else { DomainRules.next_token(last) }
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

#[cfg(test)]
mod tests {
    use gapless_domain::{LeaseTerms, OwnerId, Timestamp};
    use gapless_store::{Acquired, Lanes as _, Leases as _, ManualClock, Model};

    use super::*;
    use crate::chain::account;
    use crate::store::wait_for;

    /// The tokens of two owners in succession. Each of them can load the lane.
    fn tokens(mistake: Mistake) -> [u64; 2] {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(1_000_000)));
        let terms = LeaseTerms::default();
        let bug = DatabaseBug::of(Some(mistake)).unwrap();
        let model = Model::with_rules(terms, Arc::clone(&clock) as Arc<_>, Arc::new(bug));
        ["a", "b"].map(|owner| {
            let store = model.node(OwnerId::new(owner, 1));
            let acquired = wait_for(store.acquire(&[account(1).unwrap()])).unwrap().remove(0);
            let Acquired::Held(lease) = acquired else { panic!("{acquired:?}") };
            let loaded = wait_for(store.load_lanes(std::slice::from_ref(&lease))).unwrap();
            assert!(matches!(loaded[..], [Loaded::Lane(_)]), "{loaded:?}");
            clock.advance(terms.duration + 2 * terms.clock_skew);
            lease.token().get()
        })
    }

    #[test]
    fn kept_token_is_valid_for_the_new_owner() {
        assert_eq!([Mistake::KeepToken, Mistake::EventApart].map(tokens), [[1, 1], [1, 2]]);
    }
}
