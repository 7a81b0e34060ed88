//! Nodes for tests: real engines on the model store and the simulator's chain, on a paused clock.

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    EvmRules, Intent, IntentRecord, LaneSetup, LeaseTerms, NoncePolicy, OwnerId, StateName, SubmitterId,
    SubmitterPolicy, TxId,
};
use gapless_engine::{
    ChainSetup, DomainLanes, Driver, Engine, EngineOptions, EngineParts, FaultPoints, NoFaults, PriceOptions,
    ServedLane, TimeOrderedIds, WaitForOperator, WatcherOptions,
};
use gapless_signer::Signer;
use gapless_sim::testing::{PausedDriver, ScriptedChain, ScriptedSigner, TextEncoder};
use gapless_store::conformance::fixtures;
use gapless_store::{Accepted, DatabaseClock, Model, NewSubmitter, Store};

/// One database, one chain, any number of nodes.
pub(crate) struct World {
    pub(crate) driver: Arc<PausedDriver>,
    pub(crate) model: Model,
    pub(crate) chain: Arc<ScriptedChain>,
    pub(crate) lanes: Vec<SubmitterId>,
    pub(crate) setup: LaneSetup,
    pub(crate) watcher: WatcherOptions,
    nodes: std::sync::atomic::AtomicU32,
}

pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
}

impl World {
    /// A world whose chain mines every second.
    #[allow(dead_code, reason = "not every test file mines by the clock")]
    pub(crate) async fn new(lanes: u64) -> World {
        let world = Self::without_blocks(lanes).await;
        world.chain.mine_every(Duration::from_secs(1));
        world
    }

    pub(crate) async fn without_blocks(lanes: u64) -> World {
        let driver = PausedDriver::start();
        let model = Model::new(LeaseTerms::default(), Arc::clone(&driver) as Arc<dyn DatabaseClock>);
        let lanes: Vec<SubmitterId> = (1..=lanes).map(fixtures::submitter).collect();
        let chain = ScriptedChain::new(&lanes, Arc::clone(&driver) as Arc<dyn Driver>);
        let world = World {
            driver,
            model,
            chain,
            lanes,
            setup: LaneSetup::new(&EvmRules),
            watcher: WatcherOptions { confirmations: 3, ..WatcherOptions::default() },
            nodes: Default::default(),
        };
        let store = world.store("setup");
        let new = world.lanes.iter().map(|id| NewSubmitter { id: id.clone(), alias: None });
        store.register_submitters(&new.collect::<Vec<_>>()).await.unwrap();
        world
    }

    /// Another chain with the same id. Its blocks are the same until one of the chains forks.
    #[allow(dead_code, reason = "not every test file has two chains")]
    pub(crate) fn other_chain(&self) -> Arc<ScriptedChain> {
        ScriptedChain::new(&self.lanes, Arc::clone(&self.driver) as Arc<dyn Driver>)
    }

    #[allow(dead_code, reason = "not every test file has a window")]
    pub(crate) fn window(mut self, max_in_flight: u16) -> Self {
        let nonce = NoncePolicy { max_in_flight, ..NoncePolicy::default() };
        self.setup = LaneSetup { policy: SubmitterPolicy { nonce, ..SubmitterPolicy::default() }, ..self.setup };
        self
    }

    pub(crate) fn store(&self, name: &str) -> Arc<dyn Store> {
        let unique = self.nodes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Arc::new(self.model.node(OwnerId::new(name, u128::from(unique))))
    }

    pub(crate) fn node(&self, name: &str) -> Node {
        self.node_with(self.store(name), Arc::new(NoFaults))
    }

    pub(crate) fn node_with(&self, store: Arc<dyn Store>, faults: Arc<dyn FaultPoints>) -> Node {
        self.start(store, faults, EngineOptions::default())
    }

    #[allow(dead_code, reason = "not every test sets options")]
    pub(crate) fn node_running(&self, store: Arc<dyn Store>, options: EngineOptions) -> Node {
        self.start(store, Arc::new(NoFaults), options)
    }

    fn start(&self, store: Arc<dyn Store>, faults: Arc<dyn FaultPoints>, options: EngineOptions) -> Node {
        self.start_signing(store, faults, options, self.signer())
    }

    /// A signer without faults.
    pub(crate) fn signer(&self) -> Arc<ScriptedSigner> {
        ScriptedSigner::new(Arc::clone(&self.driver) as Arc<dyn Driver>)
    }

    /// The lanes of this world with their signer.
    pub(crate) fn served(&self, setup: &LaneSetup, signer: &Arc<ScriptedSigner>) -> Vec<ServedLane> {
        let setup = Arc::new(setup.clone());
        let served = |lane: &SubmitterId| ServedLane {
            submitter: lane.clone(),
            setup: Arc::clone(&setup),
            signer: Arc::clone(signer) as Arc<dyn Signer>,
        };
        self.lanes.iter().map(served).collect()
    }

    #[allow(dead_code, reason = "not every test has a signer of its own")]
    pub(crate) fn node_signing(&self, name: &str, options: EngineOptions, signer: Arc<ScriptedSigner>) -> Node {
        self.start_signing(self.store(name), Arc::new(NoFaults), options, signer)
    }

    fn start_signing(
        &self,
        store: Arc<dyn Store>,
        faults: Arc<dyn FaultPoints>,
        options: EngineOptions,
        signer: Arc<ScriptedSigner>,
    ) -> Node {
        let watcher = self.watcher.clone();
        let mut setup = self.setup.clone();
        setup.policy.confirmations.required = watcher.confirmations;
        let chain = Arc::clone(&self.chain) as Arc<dyn gapless_chain::Chain>;
        let engine = Engine::start(EngineParts {
            store: Arc::clone(&store),
            driver: Arc::clone(&self.driver) as Arc<dyn Driver>,
            ids: Arc::new(TimeOrderedIds),
            faults,
            stuck: Arc::new(WaitForOperator),
            chains: vec![ChainSetup {
                chain,
                encoder: Arc::new(TextEncoder),
                watcher,
                prices: PriceOptions::default(),
            }],
            lanes: self.served(&setup, &signer),
            lane_factory: Arc::new(DomainLanes),
            terms: LeaseTerms::default(),
            options,
        })
        .unwrap();
        Node { engine, store }
    }
}

impl Node {
    pub(crate) async fn accept(&self, intents: Vec<Intent>) -> Vec<TxId> {
        let answers = self.engine.intake().accept(intents).await.unwrap();
        answers
            .into_iter()
            .map(|(id, verdict)| {
                assert!(matches!(verdict, Accepted::New | Accepted::Existing(_)), "{verdict:?}");
                id
            })
            .collect()
    }

    pub(crate) async fn submit(&self, lane: &SubmitterId, requests: std::ops::Range<u64>) -> Vec<TxId> {
        self.accept(requests.map(|n| fixtures::intent(lane, &format!("r{n}"))).collect()).await
    }
}

pub(crate) async fn get(store: &Arc<dyn Store>, id: TxId) -> IntentRecord {
    store.get(&[id]).await.unwrap().remove(0).unwrap()
}

/// Waits until all intents are in the state, for `limit` of the paused clock at most.
pub(crate) async fn until_all(store: &Arc<dyn Store>, ids: &[TxId], state: StateName, limit: Duration) {
    let all = async {
        loop {
            let txs = store.get(ids).await.unwrap();
            if txs.iter().flatten().all(|tx| tx.state.name() == state) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(limit, all).await.is_err() {
        let txs = store.get(ids).await.unwrap();
        let states: Vec<_> = txs.iter().flatten().map(|tx| (tx.seq, tx.state.clone())).collect();
        panic!("not all intents are {state:?} after {limit:?}: {states:?}");
    }
}

/// The nonces of the intents, in the given order.
#[allow(dead_code, reason = "not every test file reads nonces")]
pub(crate) async fn nonces(store: &Arc<dyn Store>, ids: &[TxId]) -> Vec<u64> {
    let txs = store.get(ids).await.unwrap();
    txs.into_iter().flatten().map(|tx| tx.state.nonce().unwrap().get()).collect()
}
