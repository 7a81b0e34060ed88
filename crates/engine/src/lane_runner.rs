//! Runs one lane: executes its effects, and passes the results to it as facts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use gapless_chain::{SendAnswer, Verdict};
use gapless_domain::{
    ChainFacts, CommitOutcome, DiagnoseRequest, Effect, Fact, LaneCommit, LaneSetup, LaneSnapshot, Lease,
    MempoolSignal, Outgoing, Permit, ScanRequest, SentTx, SignRequest, Step, StuckCase, Tick, TxId,
};
use gapless_store::{CommitVerdict, StoreError};

use crate::batched_io::Peeker;
use crate::chain_desk::ChainDesk;
use crate::commit_summary::CommitSummary;
use crate::driver::Driver;
use crate::fault_points::{FaultPoint, FaultPoints};
use crate::lane_inbox::{InboxMessage, LaneInbox};
use crate::lane_machine::LaneFactory;
use crate::lane_writer::{LaneWriter, WriteError};
use crate::lease_keeper::LeaseKeeper;
use crate::published::Follower;
use crate::signing::LaneSigner;
use crate::stuck_policy::StuckPolicy;
use crate::watcher::ChainStatus;

/// Services that all lanes of this node share.
#[derive(Clone, Debug)]
pub(crate) struct LaneServices {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) keeper: Arc<LeaseKeeper>,
    pub(crate) writer: LaneWriter,
    pub(crate) peeker: Peeker,
    pub(crate) faults: Arc<dyn FaultPoints>,
    pub(crate) stuck: Arc<dyn StuckPolicy>,
    pub(crate) lane_factory: Arc<dyn LaneFactory>,
}

/// The outcome of a run of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunOutcome {
    /// The lane has nothing to do: release the lease.
    Released,
    /// The lease is held, but the lane's memory differs from the store, or may differ: load the lane again.
    Reload,
    /// The signer signs nothing here: release the lease, and leave the lane to other nodes first.
    SignerFails,
    /// The store cannot hold a write of the lane: load the lane again, after a pause.
    Refused,
    /// The lease is lost.
    Lost,
}

#[derive(Debug)]
pub(crate) struct LaneRunner {
    services: LaneServices,
    desk: Arc<ChainDesk>,
    signer: LaneSigner,
    lease: Lease,
    inbox: Arc<LaneInbox>,
    /// Set when the signer has signed nothing for too long. The lane then drains.
    signer_fails: Arc<AtomicBool>,
}

/// However a run ends, no further sightings are delivered to it.
impl Drop for LaneRunner {
    fn drop(&mut self) {
        self.desk.book.forget(&self.inbox);
        self.desk.lane_ended();
    }
}

type EffectFuture = BoxFuture<'static, Result<Fact, RunOutcome>>;

impl LaneRunner {
    pub(crate) fn new(
        services: LaneServices,
        desk: Arc<ChainDesk>,
        signer: LaneSigner,
        lease: Lease,
        inbox: Arc<LaneInbox>,
    ) -> Self {
        desk.lane_started();
        signer.begin_run();
        LaneRunner { services, desk, signer, lease, inbox, signer_fails: Arc::default() }
    }

    /// Runs until there is nothing to do or the lane must stop. Effects in flight are dropped then; the next owner
    /// finds everything that is durable.
    pub(crate) async fn run(self, snapshot: LaneSnapshot, setup: LaneSetup) -> RunOutcome {
        let driver = Arc::clone(&self.services.driver);
        let chain = Arc::clone(&self.desk.chain);
        let factory = &self.services.lane_factory;
        let mut lane = factory.restore(&self.lease, snapshot, setup, &|raw| chain.outline(raw), driver.now());
        let mut in_flight: FuturesUnordered<EffectFuture> = FuturesUnordered::new();
        let mut updates = ChainUpdates { status: self.desk.status.clone(), last: None };
        // First of all: a finality violation stops the lane.
        let mut fact = updates.take_violation().map_or(Fact::Woken, Fact::Chain);
        loop {
            let was_message = matches!(fact, Fact::Woken | Fact::QueueChanged | Fact::Drain | Fact::Sightings(_));
            lane.limit_signing(self.signer.batch_max());
            let Step { effects, wake_at } = lane.handle(fact, driver.now());
            if let Some(outcome) = self.begin_all(effects, &mut in_flight) {
                return outcome;
            }
            let updates = updates.next(lane.follows_heads());
            fact = match self.next_fact(&mut in_flight, wake_at, updates, was_message).await {
                Ok(fact) => fact,
                Err(outcome) => return outcome,
            };
        }
    }

    fn begin_all(&self, effects: Vec<Effect>, in_flight: &mut FuturesUnordered<EffectFuture>) -> Option<RunOutcome> {
        for effect in effects {
            match effect {
                Effect::Watch(watched) => self.desk.book.watch(&self.inbox, &watched),
                Effect::Unwatch(hashes) => self.desk.book.unwatch(&hashes),
                Effect::Notice { nonce, text } => {
                    let nonce = nonce.map(|nonce| nonce.get());
                    tracing::warn!(nonce, "{text}");
                }
                Effect::Release if self.signer_fails.load(Ordering::Relaxed) => return Some(RunOutcome::SignerFails),
                Effect::Release => return Some(RunOutcome::Released),
                Effect::Peek { limit, without } => in_flight.push(self.peek(limit, without)),
                Effect::Prepare(requests) => in_flight.push(self.prepare(requests)),
                Effect::Sign(requests) => in_flight.push(self.sign(requests)),
                Effect::Commit(commit) => in_flight.push(self.commit(*commit)),
                Effect::Broadcast(outgoing) => in_flight.push(self.broadcast(outgoing)),
                Effect::ReadAccount => in_flight.push(self.read_account()),
                Effect::Scan(request) => in_flight.push(self.scan(request)),
                Effect::Diagnose(requests) => in_flight.push(self.diagnose(requests)),
                Effect::Decide(case) => in_flight.push(self.decide(*case)),
            }
        }
        None
    }

    /// Inbox messages come first, but not twice in a row while another fact waits: a lane that is woken all the time
    /// still receives the results of its own effects.
    async fn next_fact(
        &self,
        in_flight: &mut FuturesUnordered<EffectFuture>,
        wake_at: Option<Tick>,
        updates: impl Future<Output = Arc<ChainFacts>>,
        was_message: bool,
    ) -> Result<Fact, RunOutcome> {
        let tick = async {
            match wake_at {
                Some(at) => self.services.driver.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            message = self.inbox.next(), if !was_message => message_fact(message),
            Some(done) = in_flight.next(), if !in_flight.is_empty() => done,
            chain = updates => Ok(Fact::Chain(chain)),
            message = self.inbox.next(), if was_message => message_fact(message),
            () = tick => Ok(Fact::Tick),
        }
    }

    fn peek(&self, limit: u32, without: Vec<TxId>) -> EffectFuture {
        let (peeker, faults) = (self.services.peeker.clone(), Arc::clone(&self.services.faults));
        let lane = self.lease.submitter().clone();
        Box::pin(async move {
            faults.reach(FaultPoint::BeforePeek);
            let peeked = peeker.peek(lane, limit, without).await;
            faults.reach(FaultPoint::AfterPeek);
            Ok(Fact::Peeked(peeked))
        })
    }

    fn prepare(&self, requests: Vec<gapless_domain::PrepareRequest>) -> EffectFuture {
        let (desk, faults) = (Arc::clone(&self.desk), Arc::clone(&self.services.faults));
        let lane = self.lease.submitter().clone();
        Box::pin(async move {
            faults.reach(FaultPoint::BeforePrepare);
            let prepared = desk.prepare(&lane, requests).await;
            faults.reach(FaultPoint::AfterPrepare);
            Ok(Fact::Prepared(prepared))
        })
    }

    /// Signs the batch with one call. If the signer has signed nothing for too long, the lane drains, and the lease is
    /// released for another node. The intents of the batch stay queued. The next owner sends what the draining lane has
    /// committed and not sent.
    fn sign(&self, requests: Vec<SignRequest>) -> EffectFuture {
        let (services, lease, signer) = (self.services.clone(), self.lease.clone(), self.signer.clone());
        let (inbox, signer_fails) = (Arc::clone(&self.inbox), Arc::clone(&self.signer_fails));
        Box::pin(async move {
            services.faults.reach(FaultPoint::BeforeSign);
            let batch = signer.sign(&permit(&services, &lease)?, requests).await;
            services.faults.reach(FaultPoint::AfterSign);
            // Signing may have taken longer than the lease is trusted.
            permit(&services, &lease)?;
            if batch.hands_over {
                signer_fails.store(true, Ordering::Relaxed);
                inbox.drain();
            }
            Ok(Fact::Signed(batch.answers))
        })
    }

    fn broadcast(&self, outgoing: Vec<Outgoing>) -> EffectFuture {
        let (desk, services, lease) = (Arc::clone(&self.desk), self.services.clone(), self.lease.clone());
        Box::pin(async move {
            let until = permit(&services, &lease)?.until();
            services.faults.reach(FaultPoint::BeforeBroadcast);
            let txs = outgoing.iter().map(|outgoing| outgoing.tx.clone()).collect();
            let answers = desk.sender.send(txs, until).await.ok_or_else(|| drop_lapsed(&services, &lease))?;
            services.faults.reach(FaultPoint::AfterBroadcast);
            let sent = outgoing.into_iter().zip(answers).map(|(outgoing, SendAnswer { classified: answer, heard })| {
                let outcome = answer.send_outcome();
                metrics::counter!("gapless_tx_submit_total", "result" => outcome.as_str()).increment(1);
                let (nonce, hash) = (outgoing.nonce, outgoing.tx.hash);
                if !matches!(answer.verdict, Verdict::Accepted | Verdict::AlreadyKnown) {
                    let (nonce, outcome, reason) = (nonce.get(), outcome.as_str(), answer.reason.as_str());
                    tracing::warn!(nonce, %hash, outcome, reason, "transaction not accepted: {}", answer.text);
                }
                SentTx { nonce, hash, outcome, text: answer.text, answers: heard }
            });
            Ok(Fact::Sent(sent.collect()))
        })
    }

    fn read_account(&self) -> EffectFuture {
        let (desk, lane) = (Arc::clone(&self.desk), self.lease.submitter().clone());
        Box::pin(async move { Ok(Fact::Account(desk.account(&lane).await)) })
    }

    fn scan(&self, request: ScanRequest) -> EffectFuture {
        let (desk, lane) = (Arc::clone(&self.desk), self.lease.submitter().clone());
        Box::pin(async move { Ok(Fact::Scanned(desk.scan(&lane, request).await)) })
    }

    fn diagnose(&self, requests: Vec<DiagnoseRequest>) -> EffectFuture {
        let (desk, lane) = (Arc::clone(&self.desk), self.lease.submitter().clone());
        Box::pin(async move {
            let signals = desk.chain.diagnose(&lane, &requests).await.into_iter();
            let signals = signals.chain(std::iter::repeat(MempoolSignal::Unknown));
            Ok(Fact::Diagnosed(requests.iter().map(|request| request.nonce).zip(signals).collect()))
        })
    }

    fn decide(&self, case: StuckCase) -> EffectFuture {
        let policy = Arc::clone(&self.services.stuck);
        Box::pin(async move {
            let decision = policy.decide(&case).await;
            metrics::counter!("gapless_stuck_decisions_total", "decision" => decision.as_str()).increment(1);
            Ok(Fact::Decided(case.nonce, decision))
        })
    }

    fn commit(&self, commit: LaneCommit) -> EffectFuture {
        let (services, lease) = (self.services.clone(), self.lease.clone());
        Box::pin(async move {
            let (before, after) = FaultPoint::around_commit(&commit);
            services.faults.reach(before);
            let summary = CommitSummary::new(&commit);
            let written = services.writer.write(commit).await;
            services.faults.reach(after);
            match written {
                Ok(written) => match written.verdict {
                    CommitVerdict::Done => {
                        services.keeper.committed(&lease, written.asked_at);
                        summary.record();
                        let outcome = CommitOutcome::Done { at: written.at, replicated: written.replicated };
                        Ok(Fact::Committed(outcome))
                    }
                    CommitVerdict::Busy => Ok(Fact::Committed(CommitOutcome::NotWritten)),
                    CommitVerdict::Fenced => {
                        tracing::warn!("lease lost: commit fenced");
                        metrics::counter!("gapless_lease_fenced_total").increment(1);
                        services.keeper.drop_lease(&lease);
                        Err(RunOutcome::Lost)
                    }
                    CommitVerdict::Conflict(conflict) => {
                        tracing::info!(?conflict, "rows differ from the lane's memory; lane is loaded again");
                        Err(RunOutcome::Reload)
                    }
                    CommitVerdict::Regressed => Err(RunOutcome::Reload),
                    CommitVerdict::Refused(why) => {
                        tracing::error!("commit refused by the store: {why}");
                        Err(RunOutcome::Refused)
                    }
                },
                Err(WriteError::NotWritten(error)) => match *error {
                    StoreError::Regressed(_) => {
                        services.keeper.distrust_all();
                        Err(RunOutcome::Reload)
                    }
                    _ => Ok(Fact::Committed(CommitOutcome::NotWritten)),
                },
                // Only the store knows whether the commit is durable (S12).
                Err(WriteError::Unknown(_)) => Err(RunOutcome::Reload),
                Err(WriteError::ShuttingDown) => Err(RunOutcome::Lost),
            }
        })
    }
}

/// The watcher's publications, as far as the lane needs them.
struct ChainUpdates {
    status: Follower<Option<ChainStatus>>,
    /// The facts that the lane has received last.
    last: Option<Arc<ChainFacts>>,
}

impl ChainUpdates {
    fn take_violation(&mut self) -> Option<Arc<ChainFacts>> {
        let facts = self.status.read(|status| status.as_ref().map(|status| Arc::clone(&status.facts)));
        self.last = facts.filter(|facts| facts.finality_violation.is_some());
        self.last.clone()
    }

    /// The next head if the lane follows heads; a finality violation in any case. Dropping the future loses nothing.
    async fn next(&mut self, follows: bool) -> Arc<ChainFacts> {
        let last = self.last.clone();
        let is_new = |facts: &Arc<ChainFacts>| last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, facts));
        // A lane that stopped for a violation also needs to see its end.
        let was_violated = last.as_ref().is_some_and(|last| last.finality_violation.is_some());
        let concerns = |facts: &Arc<ChainFacts>| follows || was_violated || facts.finality_violation.is_some();
        let wanted = |status: &Option<ChainStatus>| {
            let facts = status.as_ref().map(|status| &status.facts);
            facts.filter(|facts| concerns(facts) && is_new(facts)).cloned()
        };
        match self.status.find(wanted).await {
            Some(facts) => {
                self.last = Some(Arc::clone(&facts));
                facts
            }
            // The watcher has ended, so the engine is stopping.
            None => std::future::pending().await,
        }
    }
}

fn message_fact(message: InboxMessage) -> Result<Fact, RunOutcome> {
    match message {
        InboxMessage::Fact(fact) => Ok(fact),
        InboxMessage::LeaseLost => {
            tracing::warn!("lease lost");
            Err(RunOutcome::Lost)
        }
    }
}

fn permit(services: &LaneServices, lease: &Lease) -> Result<Permit, RunOutcome> {
    let permit = services.keeper.permit(lease.submitter()).map_err(|_| drop_lapsed(services, lease))?;
    if permit.lease() == lease { Ok(permit) } else { Err(drop_lapsed(services, lease)) }
}

fn drop_lapsed(services: &LaneServices, lease: &Lease) -> RunOutcome {
    tracing::warn!("lease lapsed; signing and sending stop");
    services.keeper.drop_lease(lease);
    RunOutcome::Lost
}
