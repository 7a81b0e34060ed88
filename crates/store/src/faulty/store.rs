//! The delegation of every verb. A call owns copies of its arguments, because it may outlive its caller.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{
    Attempt, AuditEntry, ChainId, Command, CommandId, CommandStatus, Event, EventPosition, Head, IntentRecord,
    LaneCommit, Lease, NewCommand, NodeText, Nonce, OwnerId, RequestId, SubmitterId, Timestamp, TxId,
};

use super::{ExecutedWrite, FaultyStore, StoreFaults, StoreVerb};
use crate::error::StoreError;
use crate::retention::RetentionKind;
use crate::roles::{
    Accepted, Acquired, AuditFilter, CancelVerdict, Census, Committed, HeadVerdict, Heads, IntentIntake, LaneStatus,
    Lanes, Leases, Loaded, NewIntent, NewSubmitter, Outbox, Renewal, SlotStatus, Store, TxFilter, Upkeep, Views,
};
use crate::wake::Wakeups;

impl<F: StoreFaults> FaultyStore<F> {
    /// Runs a call that names no lane.
    async fn run<T, W>(
        &self,
        verb: StoreVerb,
        work: impl FnOnce(Arc<dyn Store>) -> W + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.run_for(verb, &[], |store, _| work(store)).await
    }

    async fn run_for<T, W>(
        &self,
        verb: StoreVerb,
        lanes: &[SubmitterId],
        work: impl FnOnce(Arc<dyn Store>, Arc<F>) -> W + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let call = work(Arc::clone(&self.inner), Arc::clone(&self.faults));
        self.faults.call(verb, lanes, Box::pin(call)).await
    }

    /// Runs one accept call on the inner store, with the faults of [`StoreFaults::call`].
    pub async fn run_accept(&self, intents: Vec<NewIntent>) -> Result<Vec<Accepted>, StoreError> {
        let lanes: Vec<_> = intents.iter().map(|new| new.intent.submitter().clone()).collect();
        self.run_for(StoreVerb::Accept, &lanes, |store, faults| async move {
            let verdicts = store.accept(&intents).await?;
            faults.executed(ExecutedWrite::Accept(&intents, &verdicts));
            Ok(verdicts)
        })
        .await
    }

    /// Runs one commit call on the inner store, with the faults of [`StoreFaults::call`].
    pub async fn run_commit(&self, commits: Vec<LaneCommit>) -> Result<Committed, StoreError> {
        let lanes: Vec<_> = commits.iter().map(|commit| commit.lease().submitter().clone()).collect();
        self.run_for(StoreVerb::Commit, &lanes, |store, faults| async move {
            let committed = store.commit(&commits).await?;
            faults.executed(ExecutedWrite::Commit(&commits, &committed));
            Ok(committed)
        })
        .await
    }
}

fn lanes_of(leases: &[Lease]) -> Vec<SubmitterId> {
    leases.iter().map(|lease| lease.submitter().clone()).collect()
}

#[async_trait]
impl<F: StoreFaults> IntentIntake for FaultyStore<F> {
    async fn register_submitters(&self, submitters: &[NewSubmitter]) -> Result<(), StoreError> {
        let lanes: Vec<_> = submitters.iter().map(|submitter| submitter.id.clone()).collect();
        let submitters = submitters.to_vec();
        self.run_for(StoreVerb::RegisterSubmitters, &lanes, |store, _| async move {
            store.register_submitters(&submitters).await
        })
        .await
    }

    async fn accept(&self, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError> {
        self.faults.accept(self, intents).await
    }

    async fn cancel_queued(&self, ids: &[TxId]) -> Result<Vec<CancelVerdict>, StoreError> {
        let ids = ids.to_vec();
        self.run_for(StoreVerb::CancelQueued, &[], |store, faults| async move {
            let verdicts = store.cancel_queued(&ids).await?;
            faults.executed(ExecutedWrite::CancelQueued(&ids, &verdicts));
            Ok(verdicts)
        })
        .await
    }

    async fn put_commands(&self, commands: &[NewCommand]) -> Result<Vec<CommandId>, StoreError> {
        let lanes: Vec<_> = commands.iter().map(|command| command.submitter.clone()).collect();
        let commands = commands.to_vec();
        self.run_for(StoreVerb::PutCommands, &lanes, |store, faults| async move {
            let ids = store.put_commands(&commands).await?;
            faults.executed(ExecutedWrite::PutCommands(&commands, &ids));
            Ok(ids)
        })
        .await
    }
}

#[async_trait]
impl<F: StoreFaults> Leases for FaultyStore<F> {
    fn owner(&self) -> &OwnerId {
        self.inner.owner()
    }

    fn wakeups(&self) -> Wakeups {
        self.faults.wakeups(self.inner.as_ref())
    }

    async fn acquire(&self, lanes: &[SubmitterId]) -> Result<Vec<Acquired>, StoreError> {
        let wanted = lanes.to_vec();
        self.run_for(StoreVerb::Acquire, lanes, |store, faults| async move {
            let acquired = store.acquire(&wanted).await?;
            faults.executed(ExecutedWrite::Acquire(&acquired));
            Ok(acquired)
        })
        .await
    }

    async fn renew(&self) -> Result<Renewal, StoreError> {
        self.run(StoreVerb::Renew, |store| async move { store.renew().await }).await
    }

    async fn release(&self, leases: &[Lease]) -> Result<(), StoreError> {
        let (lanes, leases) = (lanes_of(leases), leases.to_vec());
        self.run_for(StoreVerb::Release, &lanes, |store, faults| async move {
            store.release(&leases).await?;
            faults.executed(ExecutedWrite::Release(&leases));
            Ok(())
        })
        .await
    }

    async fn lanes_with_work(&self, after: Option<&SubmitterId>, limit: u32) -> Result<Vec<SubmitterId>, StoreError> {
        let after = after.cloned();
        self.run(
            StoreVerb::LanesWithWork,
            move |store| async move { store.lanes_with_work(after.as_ref(), limit).await },
        )
        .await
    }

    async fn census(&self) -> Result<Census, StoreError> {
        self.run(StoreVerb::Census, |store| async move { store.census().await }).await
    }
}

#[async_trait]
impl<F: StoreFaults> Lanes for FaultyStore<F> {
    async fn load_lanes(&self, leases: &[Lease]) -> Result<Vec<Loaded>, StoreError> {
        let (lanes, leases) = (lanes_of(leases), leases.to_vec());
        self.run_for(StoreVerb::LoadLanes, &lanes, |store, _| async move { store.load_lanes(&leases).await }).await
    }

    async fn commit(&self, commits: &[LaneCommit]) -> Result<Committed, StoreError> {
        self.faults.commit(self, commits).await
    }

    async fn peek_queues(
        &self,
        lanes: &[(SubmitterId, u32)],
        without: &[TxId],
    ) -> Result<Vec<Vec<IntentRecord>>, StoreError> {
        let names: Vec<_> = lanes.iter().map(|(lane, _)| lane.clone()).collect();
        let (lanes, without) = (lanes.to_vec(), without.to_vec());
        self.run_for(StoreVerb::PeekQueues, &names, |store, _| async move { store.peek_queues(&lanes, &without).await })
            .await
    }

    async fn open_commands(&self, lanes: &[SubmitterId]) -> Result<Vec<Vec<Command>>, StoreError> {
        let names = lanes.to_vec();
        self.run_for(StoreVerb::OpenCommands, lanes, |store, _| async move { store.open_commands(&names).await }).await
    }
}

#[async_trait]
impl<F: StoreFaults> Outbox for FaultyStore<F> {
    async fn read_events(&self, after: EventPosition, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.run(StoreVerb::ReadEvents, move |store| async move { store.read_events(after, limit).await }).await
    }

    async fn claim_events(&self, consumer: &str, limit: u32) -> Result<Option<Vec<Event>>, StoreError> {
        let consumer = consumer.to_owned();
        self.run(StoreVerb::ClaimEvents, move |store| async move { store.claim_events(&consumer, limit).await }).await
    }

    async fn ack_events(&self, consumer: &str, upto: EventPosition) -> Result<bool, StoreError> {
        let consumer = consumer.to_owned();
        self.run(StoreVerb::AckEvents, move |store| async move { store.ack_events(&consumer, upto).await }).await
    }
}

#[async_trait]
impl<F: StoreFaults> Views for FaultyStore<F> {
    fn changes(&self) -> Wakeups {
        self.faults.changes(self.inner.as_ref())
    }

    async fn submitters(&self) -> Result<Vec<NewSubmitter>, StoreError> {
        self.run(StoreVerb::Submitters, |store| async move { store.submitters().await }).await
    }

    async fn lane_status(&self, lanes: &[SubmitterId]) -> Result<Vec<Option<LaneStatus>>, StoreError> {
        let names = lanes.to_vec();
        self.run_for(StoreVerb::LaneStatus, lanes, |store, _| async move { store.lane_status(&names).await }).await
    }

    async fn open_slots(
        &self,
        lane: &SubmitterId,
        from: Option<Nonce>,
        limit: u32,
    ) -> Result<Vec<SlotStatus>, StoreError> {
        let name = lane.clone();
        self.run_for(StoreVerb::OpenSlots, std::slice::from_ref(lane), move |store, _| async move {
            store.open_slots(&name, from, limit).await
        })
        .await
    }

    async fn audit_log(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        let filter = filter.clone();
        self.run(StoreVerb::AuditLog, |store| async move { store.audit_log(&filter).await }).await
    }

    async fn get(&self, ids: &[TxId]) -> Result<Vec<Option<IntentRecord>>, StoreError> {
        let ids = ids.to_vec();
        self.run(StoreVerb::Get, |store| async move { store.get(&ids).await }).await
    }

    async fn find_request(&self, submitter: &SubmitterId, request: &RequestId) -> Result<Option<TxId>, StoreError> {
        let (name, request) = (submitter.clone(), request.clone());
        self.run_for(StoreVerb::FindRequest, std::slice::from_ref(submitter), |store, _| async move {
            store.find_request(&name, &request).await
        })
        .await
    }

    async fn used_for(&self, lane: &SubmitterId, nonce: Nonce) -> Result<Option<TxId>, StoreError> {
        let name = lane.clone();
        self.run_for(StoreVerb::UsedFor, std::slice::from_ref(lane), move |store, _| async move {
            store.used_for(&name, nonce).await
        })
        .await
    }

    async fn list(&self, filter: &TxFilter) -> Result<Vec<IntentRecord>, StoreError> {
        let filter = filter.clone();
        self.run(StoreVerb::List, |store| async move { store.list(&filter).await }).await
    }

    async fn commands(&self, ids: &[CommandId]) -> Result<Vec<Option<CommandStatus>>, StoreError> {
        let ids = ids.to_vec();
        self.run(StoreVerb::Commands, |store| async move { store.commands(&ids).await }).await
    }

    async fn attempts(&self, id: TxId) -> Result<Vec<Attempt>, StoreError> {
        self.run(StoreVerb::Attempts, move |store| async move { store.attempts(id).await }).await
    }

    async fn events_of(&self, id: TxId, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.run(StoreVerb::EventsOf, move |store| async move { store.events_of(id, limit).await }).await
    }
}

#[async_trait]
impl<F: StoreFaults> Heads for FaultyStore<F> {
    async fn save_head(&self, chain: &ChainId, head: &Head) -> Result<HeadVerdict, StoreError> {
        let (chain, head) = (chain.clone(), head.clone());
        self.run_for(StoreVerb::SaveHead, &[], |store, faults| async move {
            let verdict = store.save_head(&chain, &head).await?;
            faults.executed(ExecutedWrite::SaveHead(&head, &verdict));
            Ok(verdict)
        })
        .await
    }

    async fn head(&self, chain: &ChainId) -> Result<Option<Head>, StoreError> {
        let chain = chain.clone();
        self.run(StoreVerb::Head, |store| async move { store.head(&chain).await }).await
    }

    async fn forget_head(&self, chain: &ChainId, by: &NodeText, why: &str) -> Result<(), StoreError> {
        let (chain, by, why) = (chain.clone(), by.clone(), why.to_owned());
        self.run_for(StoreVerb::ForgetHead, &[], |store, faults| async move {
            store.forget_head(&chain, &by, &why).await?;
            faults.executed(ExecutedWrite::ForgetHead(&chain));
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl<F: StoreFaults> Upkeep for FaultyStore<F> {
    async fn claim_retention(&self) -> Result<Option<Timestamp>, StoreError> {
        self.run(StoreVerb::ClaimRetention, |store| async move { store.claim_retention().await }).await
    }

    async fn apply_retention(&self, kind: RetentionKind, age: Duration, limit: u32) -> Result<u32, StoreError> {
        self.run_for(StoreVerb::ApplyRetention, &[], move |store, faults| async move {
            let count = store.apply_retention(kind, age, limit).await?;
            faults.executed(ExecutedWrite::ApplyRetention(kind, count));
            Ok(count)
        })
        .await
    }

    async fn declare_lost(&self, by: &NodeText, why: &str) -> Result<(), StoreError> {
        let (by, why) = (by.clone(), why.to_owned());
        self.run(StoreVerb::DeclareLost, |store| async move { store.declare_lost(&by, &why).await }).await
    }

    async fn declare_reconciled(&self, by: &NodeText, why: &str) -> Result<(), StoreError> {
        let (by, why) = (by.clone(), why.to_owned());
        self.run(StoreVerb::DeclareReconciled, |store| async move { store.declare_reconciled(&by, &why).await }).await
    }
}
