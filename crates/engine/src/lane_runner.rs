//! Runs one lane: executes its effects, and passes the results to it as facts.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use gapless_chain::{SendAnswer, SignError, Verdict};
use gapless_domain::mistakes::{self, Mistake};
use gapless_domain::{
    ChainFacts, CommitOutcome, DiagnoseRequest, Effect, EventKind, Fact, Inclusion, Lane, LaneCommit, LaneSetup,
    LaneSnapshot, Lease, MempoolSignal, NodeText, Outgoing, ScanRequest, SentTx, SignFailure, SignRequest, SignedTx,
    Step, StuckCase, Tick, TransitionName, TxId, U256,
};
use gapless_store::{CommitVerdict, StoreError};

use crate::chain_desk::ChainDesk;
use crate::driver::Driver;
use crate::fault_points::{FaultPoint, FaultPoints};
use crate::gathered::Peeker;
use crate::lane_inbox::{LaneInbox, Letter};
use crate::lane_writer::{LaneWriter, WriteError};
use crate::lease_keeper::LeaseKeeper;
use crate::published::Follower;
use crate::stuck_policy::StuckPolicy;
use crate::watcher::ChainStatus;

/// Services that all lanes of this node share.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) keeper: Arc<LeaseKeeper>,
    pub(crate) writer: LaneWriter,
    pub(crate) peeker: Peeker,
    pub(crate) faults: Arc<dyn FaultPoints>,
    pub(crate) stuck: Arc<dyn StuckPolicy>,
}

/// The outcome of a run of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The lane has nothing to do: release the lease.
    Released,
    /// The lease is held, but the lane's memory differs from the store, or may differ: load the lane again.
    Reload,
    /// The store cannot hold a write of the lane: load the lane again, after a pause.
    Refused,
    /// The lease is lost.
    Lost,
}

#[derive(Debug)]
pub(crate) struct LaneRunner {
    tools: Tools,
    desk: Arc<ChainDesk>,
    lease: Lease,
    inbox: Arc<LaneInbox>,
}

/// However a run ends, no further sightings are delivered to it.
impl Drop for LaneRunner {
    fn drop(&mut self) {
        self.desk.book.forget(&self.inbox);
        self.desk.lane_ended();
    }
}

type Work = BoxFuture<'static, Result<Fact, Ending>>;

impl LaneRunner {
    pub(crate) fn new(tools: Tools, desk: Arc<ChainDesk>, lease: Lease, inbox: Arc<LaneInbox>) -> Self {
        desk.lane_began();
        LaneRunner { tools, desk, lease, inbox }
    }

    /// Runs until there is nothing to do or the lane must stop. Effects in flight are dropped then; the next owner
    /// finds everything that is durable.
    pub(crate) async fn run(self, snapshot: LaneSnapshot, setup: LaneSetup) -> Ending {
        let driver = Arc::clone(&self.tools.driver);
        let chain = Arc::clone(&self.desk.chain);
        let mut lane = Lane::restore(&self.lease, snapshot, setup, |raw| chain.outline(raw), driver.now());
        let mut under_way: FuturesUnordered<Work> = FuturesUnordered::new();
        let mut news = ChainNews { status: self.desk.status.clone(), told: None };
        // First of all: a finality violation stops the lane.
        let mut fact = news.if_broken().map_or(Fact::Woken, Fact::Chain);
        loop {
            let was_letter = matches!(fact, Fact::Woken | Fact::Drain | Fact::Sightings(_));
            let Step { effects, wake_at } = lane.handle(fact, driver.now());
            if let Some(ending) = self.begin_all(effects, &mut under_way) {
                return ending;
            }
            let news = news.next(lane.follows_heads());
            fact = match self.next_fact(&mut under_way, wake_at, news, was_letter).await {
                Ok(fact) => fact,
                Err(ending) => return ending,
            };
        }
    }

    fn begin_all(&self, effects: Vec<Effect>, under_way: &mut FuturesUnordered<Work>) -> Option<Ending> {
        for effect in effects {
            match effect {
                Effect::Watch(watched) => self.desk.book.watch(&self.inbox, &watched),
                Effect::Unwatch(hashes) => self.desk.book.unwatch(&hashes),
                Effect::Notice { nonce, text } => {
                    let nonce = nonce.map(|nonce| nonce.get());
                    tracing::warn!(submitter = %self.lease.submitter(), node_id = %self.lease.owner(), fencing_token = %self.lease.token(), nonce, "{text}");
                }
                Effect::Release => return Some(Ending::Released),
                Effect::Peek { limit, without } => under_way.push(self.peek(limit, without)),
                Effect::Prepare(requests) => under_way.push(self.prepare(requests)),
                Effect::Sign(requests) => under_way.push(self.sign(requests)),
                Effect::Commit(commit) => under_way.push(self.commit(*commit)),
                Effect::Broadcast(outgoing) => under_way.push(self.broadcast(outgoing)),
                Effect::ReadAccount => under_way.push(self.read_account()),
                Effect::Scan(request) => under_way.push(self.survey(request)),
                Effect::Diagnose(asked) => under_way.push(self.diagnose(asked)),
                Effect::Decide(case) => under_way.push(self.decide(*case)),
            }
        }
        None
    }

    /// Inbox messages come first, but not twice in a row while another fact waits: a lane that is woken all the time
    /// still receives the results of its own effects.
    async fn next_fact(
        &self,
        under_way: &mut FuturesUnordered<Work>,
        wake_at: Option<Tick>,
        news: impl Future<Output = Arc<ChainFacts>>,
        was_letter: bool,
    ) -> Result<Fact, Ending> {
        let tick = async {
            match wake_at {
                Some(at) => self.tools.driver.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            letter = self.inbox.next(), if !was_letter => opened(letter),
            Some(done) = under_way.next(), if !under_way.is_empty() => done,
            chain = news => Ok(Fact::Chain(chain)),
            letter = self.inbox.next(), if was_letter => opened(letter),
            () = tick => Ok(Fact::Tick),
        }
    }

    fn peek(&self, limit: u32, without: Vec<TxId>) -> Work {
        let (peeker, faults) = (self.tools.peeker.clone(), Arc::clone(&self.tools.faults));
        let lane = self.lease.submitter().clone();
        Box::pin(async move {
            faults.reach(FaultPoint::BeforePeek);
            let peeked = peeker.peek(lane, limit, without).await;
            faults.reach(FaultPoint::AfterPeek);
            Ok(Fact::Peeked(peeked))
        })
    }

    fn prepare(&self, requests: Vec<gapless_domain::PrepareRequest>) -> Work {
        let (desk, faults) = (Arc::clone(&self.desk), Arc::clone(&self.tools.faults));
        let lane = self.lease.submitter().clone();
        Box::pin(async move {
            faults.reach(FaultPoint::BeforePrepare);
            let prepared = desk.prepare(&lane, requests).await;
            faults.reach(FaultPoint::AfterPrepare);
            Ok(Fact::Prepared(prepared))
        })
    }

    fn sign(&self, requests: Vec<SignRequest>) -> Work {
        let (desk, tools, lease) = (Arc::clone(&self.desk), self.tools.clone(), self.lease.clone());
        Box::pin(async move {
            tools.faults.reach(FaultPoint::BeforeSign);
            let mut signed = Vec::with_capacity(requests.len());
            for request in requests {
                let permit = tools.keeper.permit(lease.submitter()).map_err(|_| lapsed(&tools, &lease))?;
                if permit.lease() != &lease {
                    return Err(lapsed(&tools, &lease));
                }
                let answer: Result<SignedTx, SignFailure> =
                    desk.chain.sign(&permit, &request.plan).await.map_err(|error| {
                        let text = NodeText::new(&error.to_string());
                        match error {
                            SignError::Refused(_) => SignFailure::Refused(text),
                            SignError::NoKey(_) | SignError::Unavailable(_) | SignError::Mismatch(_) => {
                                SignFailure::Unavailable(text)
                            }
                        }
                    });
                signed.push(answer);
            }
            tools.faults.reach(FaultPoint::AfterSign);
            Ok(Fact::Signed(signed))
        })
    }

    fn broadcast(&self, outgoing: Vec<Outgoing>) -> Work {
        let (desk, tools, lease) = (Arc::clone(&self.desk), self.tools.clone(), self.lease.clone());
        Box::pin(async move {
            let until = may_send_until(&tools, &lease)?;
            tools.faults.reach(FaultPoint::BeforeBroadcast);
            let txs = outgoing.iter().map(|outgoing| outgoing.tx.clone()).collect();
            let answers = desk.sender.send(txs, until).await.ok_or_else(|| lapsed(&tools, &lease))?;
            tools.faults.reach(FaultPoint::AfterBroadcast);
            let sent = outgoing.into_iter().zip(answers).map(|(outgoing, SendAnswer { classified: answer, heard })| {
                let outcome = answer.send_outcome();
                metrics::counter!("gapless_tx_submit_total", "result" => outcome.as_str()).increment(1);
                let (nonce, hash) = (outgoing.nonce, outgoing.tx.hash);
                if !matches!(answer.verdict, Verdict::Accepted | Verdict::AlreadyKnown) {
                    tracing::warn!(submitter = %lease.submitter(), node_id = %lease.owner(), fencing_token = %lease.token(), nonce = nonce.get(), %hash, outcome = outcome.as_str(), reason = answer.reason.as_str(), "not taken: {}", answer.text);
                }
                SentTx { nonce, hash, outcome, text: answer.text, answers: heard }
            });
            Ok(Fact::Sent(sent.collect()))
        })
    }

    fn read_account(&self) -> Work {
        let (desk, lane) = (Arc::clone(&self.desk), self.lease.submitter().clone());
        Box::pin(async move { Ok(Fact::Account(desk.account(&lane).await)) })
    }

    fn survey(&self, request: ScanRequest) -> Work {
        let (desk, lane) = (Arc::clone(&self.desk), self.lease.submitter().clone());
        Box::pin(async move { Ok(Fact::Scanned(desk.survey(&lane, request).await)) })
    }

    fn diagnose(&self, asked: Vec<DiagnoseRequest>) -> Work {
        let (desk, lane) = (Arc::clone(&self.desk), self.lease.submitter().clone());
        Box::pin(async move {
            let signals = desk.chain.diagnose(&lane, &asked).await.into_iter();
            let signals = signals.chain(std::iter::repeat(MempoolSignal::Unknown));
            Ok(Fact::Diagnosed(asked.iter().map(|asked| asked.nonce).zip(signals).collect()))
        })
    }

    fn decide(&self, case: StuckCase) -> Work {
        let policy = Arc::clone(&self.tools.stuck);
        Box::pin(async move {
            let decision = policy.decide(&case).await;
            metrics::counter!("gapless_stuck_decisions_total", "decision" => decision.as_str()).increment(1);
            Ok(Fact::Decided(case.nonce, decision))
        })
    }

    fn commit(&self, commit: LaneCommit) -> Work {
        let (tools, lease) = (self.tools.clone(), self.lease.clone());
        Box::pin(async move {
            let (before, after) = FaultPoint::around_commit(&commit);
            tools.faults.reach(before);
            let story = Story::of(&commit);
            let written = tools.writer.write(commit).await;
            tools.faults.reach(after);
            match written {
                Ok(written) => match written.verdict {
                    CommitVerdict::Done => {
                        tools.keeper.committed(&lease, written.asked_at);
                        story.tell(&lease);
                        let outcome = CommitOutcome::Done { at: written.at, replicated: written.replicated };
                        Ok(Fact::Committed(outcome))
                    }
                    CommitVerdict::Busy => Ok(Fact::Committed(CommitOutcome::NotWritten)),
                    CommitVerdict::Fenced => {
                        metrics::counter!("gapless_lease_fenced_total").increment(1);
                        tools.keeper.drop_lease(&lease);
                        Err(Ending::Lost)
                    }
                    CommitVerdict::Conflict(conflict) => {
                        tracing::info!(submitter = %lease.submitter(), node_id = %lease.owner(), fencing_token = %lease.token(), ?conflict, "the rows are not what the lane thought; loading it anew");
                        Err(Ending::Reload)
                    }
                    CommitVerdict::Regressed => Err(Ending::Reload),
                    CommitVerdict::Refused(why) => {
                        tracing::error!(submitter = %lease.submitter(), node_id = %lease.owner(), fencing_token = %lease.token(), "the store cannot hold a write: {why}");
                        Err(Ending::Refused)
                    }
                },
                Err(WriteError::NotWritten(error)) => match *error {
                    StoreError::Regressed(_) => {
                        tools.keeper.distrust_all();
                        Err(Ending::Reload)
                    }
                    _ => Ok(Fact::Committed(CommitOutcome::NotWritten)),
                },
                // Only the store knows whether the commit is durable (S12).
                Err(WriteError::Unknown(_)) => Err(Ending::Reload),
                Err(WriteError::ShuttingDown) => Err(Ending::Lost),
            }
        })
    }
}

/// The watcher's publications, as far as the lane needs them.
struct ChainNews {
    status: Follower<Option<ChainStatus>>,
    told: Option<Arc<ChainFacts>>,
}

impl ChainNews {
    fn if_broken(&mut self) -> Option<Arc<ChainFacts>> {
        let facts = self.status.read(|status| status.as_ref().map(|status| Arc::clone(&status.facts)));
        self.told = facts.filter(|facts| facts.finality_violation.is_some());
        self.told.clone()
    }

    /// The next head if the lane follows heads; a finality violation in any case. Dropping the future loses nothing.
    async fn next(&mut self, follows: bool) -> Arc<ChainFacts> {
        let told = self.told.clone();
        let is_new = |facts: &Arc<ChainFacts>| told.as_ref().is_none_or(|told| !Arc::ptr_eq(told, facts));
        // A lane that stopped for a violation also needs to see its end.
        let was_broken = told.as_ref().is_some_and(|told| told.finality_violation.is_some());
        let concerns = |facts: &Arc<ChainFacts>| follows || was_broken || facts.finality_violation.is_some();
        let wanted = |status: &Option<ChainStatus>| {
            let facts = status.as_ref().map(|status| &status.facts);
            facts.filter(|facts| concerns(facts) && is_new(facts)).cloned()
        };
        match self.status.find(wanted).await {
            Some(facts) => {
                self.told = Some(Arc::clone(&facts));
                facts
            }
            // The watcher has ended, so the engine is stopping.
            None => std::future::pending().await,
        }
    }
}

fn opened(letter: Letter) -> Result<Fact, Ending> {
    match letter {
        Letter::Fact(fact) => Ok(fact),
        Letter::Lost => Err(Ending::Lost),
    }
}

fn may_send_until(tools: &Tools, lease: &Lease) -> Result<Tick, Ending> {
    if mistakes::made(Mistake::SendWithoutPermit) {
        return Ok(Tick::since_start(Duration::MAX));
    }
    let permit = tools.keeper.permit(lease.submitter()).map_err(|_| lapsed(tools, lease))?;
    if permit.lease() == lease { Ok(permit.until()) } else { Err(lapsed(tools, lease)) }
}

fn lapsed(tools: &Tools, lease: &Lease) -> Ending {
    tracing::warn!(submitter = %lease.submitter(), node_id = %lease.owner(), fencing_token = %lease.token(), "the lease is no longer trusted; nothing more is signed or sent");
    tools.keeper.drop_lease(lease);
    Ending::Lost
}

/// The gas cost of a final transaction in gwei, with the kind of its attempt.
fn paid(inclusion: &Inclusion) -> (&'static str, u64) {
    let wei = inclusion.effective_gas_price.get().saturating_mul(U256::from(inclusion.gas_used));
    (inclusion.kind.as_str(), u64::try_from(wei / U256::from(GWEI)).unwrap_or(u64::MAX))
}

const GWEI: u64 = 1_000_000_000;

/// The metrics and log lines of a commit. They are written only when the commit is durable.
struct Story {
    changes: Vec<(gapless_domain::TxId, &'static str, gapless_domain::StateName)>,
    /// Confirmation lists that do not continue the list before.
    new_forks: u64,
    /// Kinds of the new attempts, and gas costs in gwei by kind of the final ones: the metrics show the cost of
    /// bumping.
    attempts: Vec<&'static str>,
    paid: Vec<(&'static str, u64)>,
}

impl Story {
    fn of(commit: &LaneCommit) -> Self {
        let line = |change: &gapless_domain::Change| (change.tx_id(), change.event().as_str(), change.to().name());
        let forks = |change: &&gapless_domain::Change| {
            let first = change.event() == EventKind::Tx(TransitionName::Mine);
            !first && change.notice().is_some_and(|notice| notice.new_fork)
        };
        let unmined = |change: &&gapless_domain::Change| change.event() == EventKind::Tx(TransitionName::Unmine);
        let new_forks = commit.changes().iter().filter(|change| forks(change) || unmined(change)).count() as u64;
        Story {
            changes: commit.changes().iter().map(line).collect(),
            new_forks,
            attempts: commit.attempts().iter().map(|attempt| attempt.kind.as_str()).collect(),
            paid: commit.changes().iter().filter_map(|change| change.to().inclusion().map(paid)).collect(),
        }
    }

    fn tell(&self, lease: &Lease) {
        if self.new_forks > 0 {
            metrics::counter!("gapless_confirmations_new_fork_total").increment(self.new_forks);
        }
        for kind in &self.attempts {
            metrics::counter!("gapless_tx_attempts_total", "kind" => *kind).increment(1);
        }
        for (kind, gwei) in &self.paid {
            metrics::counter!("gapless_fees_paid_gwei_total", "kind" => *kind).increment(*gwei);
        }
        for (tx_id, event, state) in &self.changes {
            tracing::info!(submitter = %lease.submitter(), %tx_id, node_id = %lease.owner(), fencing_token = %lease.token(), event, state = state.as_str(), "changed");
            metrics::counter!("gapless_tx_changes_total", "event" => *event).increment(1);
        }
    }
}
