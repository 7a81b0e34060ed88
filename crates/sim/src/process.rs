//! One process of a node: a real engine on a simulated driver, store and chain.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{BumpPolicy, Decision, LaneSetup, LeaseTerms, OwnerId, StuckCase, StuckRule, SubmitterId, TxId};
use gapless_engine::{
    ChainSetup, Driver, Engine, EngineOptions, EngineParts, EngineView, FaultPoint, FaultPoints, Finality, Ids, Intake,
    PriceOptions, RetentionOptions, ServedLane, StuckPolicy, UnknownChain, WatcherOptions,
};
use gapless_signer::Signer;
use gapless_store::Store;
use uuid::Uuid;

use crate::chain::{ChainWorld, rules};
use crate::fault::{Fault, Faults};
use crate::history::{History, Moment};
use crate::net::Net;
use crate::node_clock::{NodeClock, NodeDriver};
use crate::planted::{self, NodeBug};
use crate::signer::WorldSigner;
use crate::stage::{ProcessCrash, Stage, TaskOwner};
use crate::store::{Database, DatabaseConnection};
use crate::world_spec::WorldSpec;

/// The parts of a world that its processes use.
#[derive(Debug)]
pub(crate) struct WorldParts {
    pub(crate) plan: WorldSpec,
    pub(crate) lanes: Vec<SubmitterId>,
    pub(crate) stage: Stage,
    pub(crate) history: History,
    pub(crate) faults: Faults,
    pub(crate) database: Database,
    pub(crate) chain: Arc<ChainWorld>,
    pub(crate) to_database: Net,
    pub(crate) to_chain: Net,
    pub(crate) to_people: Net,
    pub(crate) to_signers: Net,
    pub(crate) ids: Arc<CountedIds>,
}

/// Transaction ids that count up in the order of the requests.
#[derive(Debug, Default)]
pub(crate) struct CountedIds(AtomicU64);

impl Ids for CountedIds {
    fn next_tx(&self) -> TxId {
        TxId::from_uuid(Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::Relaxed)) + 1))
    }
}

/// A stuck policy that decides at random, after a delay.
#[derive(Debug)]
struct RandomDecisions {
    net: Net,
}

#[async_trait]
impl StuckPolicy for RandomDecisions {
    async fn decide(&self, _: &StuckCase) -> Decision {
        let decision = self.net.roll(|dice| dice.pick(Decision::ALL).unwrap_or(Decision::Wait));
        self.net.ask(self.net.travel_time(), move || decision).await
    }
}

/// A process may crash at any fault point.
#[derive(Debug)]
struct CrashPoints {
    faults: Faults,
    history: History,
    owner: OwnerId,
}

impl FaultPoints for CrashPoints {
    fn reach(&self, point: FaultPoint) {
        if self.faults.strikes(Fault::CrashAtPoint) {
            let what = format!("{} crashes at {}", self.owner, point.as_str());
            self.history.tell(Moment::Struck { fault: Fault::CrashAtPoint, what });
            resume_unwind(Box::new(ProcessCrash));
        }
    }
}

#[derive(Debug)]
pub(crate) struct RunningProcess {
    pub(crate) task_owner: TaskOwner,
    pub(crate) owner: OwnerId,
    pub(crate) intake: Intake,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<NodeClock>,
    /// The state that the process shows to operators.
    pub(crate) view: Arc<EngineView>,
    /// None while the engine drains: the task that drains it owns it.
    pub(crate) engine: Option<Engine>,
}

impl WorldParts {
    pub(crate) fn terms() -> LeaseTerms {
        LeaseTerms::default()
    }

    /// Starts a process on this node. `born` is its number among all processes of the world.
    pub(crate) fn start(&self, node: u32, born: u32) -> Result<RunningProcess, UnknownChain> {
        let task_owner = TaskOwner::Process(born);
        let owner = OwnerId::new(&format!("node-{}", node + 1), u128::from(born));
        // Most machine clocks drift by some millionths, one in four drifts by up to a fifth.
        let drift = self.to_database.roll(|dice| match dice.below(4) {
            0 => dice.between(0, 400_000) as i64 - 200_000,
            _ => dice.between(0, 200) as i64 - 100,
        });
        let clock = Arc::new(NodeClock::new(self.stage.clone(), drift));
        let (faults, history) = (self.faults.clone(), self.history.clone());
        let to_database = self.to_database.clone();
        let store: Arc<dyn Store> = DatabaseConnection::open(
            &self.database,
            owner.clone(),
            to_database,
            faults.clone(),
            history.clone(),
            task_owner,
        );
        let mistake = self.plan.mistake;
        let store = NodeBug::wrap(mistake, store, &self.to_database, task_owner);
        let to_chain = self.to_chain.clone();
        let chain = if self.plan.own_endpoints {
            self.chain.client_of(node as usize, to_chain, faults.clone(), history.clone(), owner.clone())
        } else {
            self.chain.client(to_chain, faults.clone(), history.clone(), owner.clone())
        };
        let driver = NodeDriver { stage: self.stage.clone(), task_owner, clock: Arc::clone(&clock) };
        history.tell(Moment::Started { owner: owner.clone() });
        let setup = Arc::new(planted::lane_setup(mistake, self.lane_setup()));
        let signer = Arc::new(WorldSigner {
            net: self.to_signers.clone(),
            faults: faults.clone(),
            history: history.clone(),
            owner: owner.clone(),
        });
        let served = |lane: &SubmitterId| ServedLane {
            submitter: lane.clone(),
            setup: Arc::clone(&setup),
            signer: Arc::clone(&signer) as Arc<dyn Signer>,
        };
        let encoder = self.chain.encoder();
        let engine = Engine::start(EngineParts {
            store: Arc::clone(&store),
            driver: Arc::new(driver) as Arc<dyn Driver>,
            ids: Arc::clone(&self.ids) as Arc<dyn Ids>,
            faults: Arc::new(CrashPoints { faults, history, owner: owner.clone() }),
            stuck: Arc::new(RandomDecisions { net: self.to_people.clone() }),
            chains: vec![ChainSetup { chain, encoder, watcher: self.watcher(), prices: PriceOptions::default() }],
            lanes: self.lanes.iter().map(served).collect(),
            lane_factory: planted::lanes(mistake),
            terms: planted::node_terms(mistake, Self::terms()),
            options: EngineOptions { retention: self.retention(), ..EngineOptions::default() },
        })?;
        let (intake, view) = (engine.intake().clone(), Arc::clone(engine.view()));
        Ok(RunningProcess { task_owner, owner, intake, store, clock, view, engine: Some(engine) })
    }

    fn retention(&self) -> RetentionOptions {
        let Some(after) = self.plan.retention else { return RetentionOptions::never() };
        RetentionOptions {
            after: Some(after),
            events_after: Some(after * 2),
            attempts_after: Some(after * 2),
            commands_after: Some(after),
            // A process stands still for half a minute at the most, and the database's clock jumps by little more.
            nodes_after: Some(Duration::from_secs(150)),
            audit_after: Some(after),
            interval: Duration::from_secs(2),
            batch: 3,
            pause: Duration::from_millis(100),
        }
    }

    fn lane_setup(&self) -> LaneSetup {
        let plan = &self.plan;
        let mut setup = LaneSetup::new(rules());
        setup.policy.nonce.max_in_flight = plan.window;
        setup.policy.nonce.release = plan.release;
        setup.policy.nonce.on_external_nonce = plan.on_external_nonce;
        setup.policy.confirmations.required = plan.confirmations;
        let fees = plan.fees;
        setup.policy.resubmit.interval = fees.resubmits;
        if let Some((multiplier, most)) = fees.bumps {
            let min_interval = fees.resubmits;
            let bump = BumpPolicy { enabled: true, min_interval, max_attempts: most, ..BumpPolicy::default() };
            setup.policy.bump = BumpPolicy { multiplier_permille: multiplier, ..bump };
        }
        setup.policy.fees.max_price = fees.max_price;
        setup.policy.mempool.diagnose = fees.diagnoses;
        setup.policy.stuck = StuckRule { after_tries: fees.tries, ask_interval: Duration::from_secs(20) };
        setup.limits.pauses.resend_longest = Duration::from_secs(8);
        setup.limits.batch = plan.batch;
        setup.limits.broadcasts = plan.broadcasts;
        setup.limits.open_slots = plan.open_slots;
        setup
    }

    fn watcher(&self) -> WatcherOptions {
        WatcherOptions {
            confirmations: self.plan.confirmations,
            finality: if self.plan.by_tag { Finality::Finalized } else { Finality::Depth },
            walk_max: self.plan.walk_max,
            stale_receipt_timeout: Duration::from_secs(20),
            poll_min: Duration::from_millis(250),
            ..WatcherOptions::default()
        }
    }
}
