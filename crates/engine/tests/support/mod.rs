//! Nodes of a made-up world: real engines on the model store and a small chain, with time that passes as fast as it can.

pub(crate) mod toy_chain;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_domain::{
    Intent, IntentRecord, LaneSetup, LeaseTerms, NoncePolicy, OwnerId, StateName, SubmitterId, SubmitterPolicy, Tick,
    Timestamp, TxId,
};
use gapless_engine::{
    ChainSetup, Clock, Driver, Engine, EngineOptions, EngineParts, FaultPoints, GasPolicy, NoFaults, TimeOrderedIds,
    WaitForOperator, WatcherOptions,
};
use gapless_store::conformance::fixtures;
use gapless_store::{Accepted, DatabaseClock, Model, NewSubmitter, Store};
use tokio::time::Instant;

pub(crate) use toy_chain::ToyChain;

/// Tokio's clock, which a test pauses: then time jumps to the next thing that somebody waits for.
#[derive(Debug)]
pub(crate) struct TestDriver(Instant);

impl TestDriver {
    pub(crate) fn start() -> Arc<Self> {
        Arc::new(TestDriver(Instant::now()))
    }
}

impl Clock for TestDriver {
    fn now(&self) -> Tick {
        Tick::since_start(self.0.elapsed())
    }
}

impl Driver for TestDriver {
    fn sleep_until(&self, at: Tick) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(self.0 + at.elapsed()))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }
}

impl DatabaseClock for TestDriver {
    fn now(&self) -> Timestamp {
        let micros = i64::try_from(self.0.elapsed().as_micros()).unwrap();
        Timestamp::from_micros(1_900_000_000_000_000 + micros)
    }
}

/// One database, one chain, any number of nodes.
pub(crate) struct World {
    pub(crate) driver: Arc<TestDriver>,
    pub(crate) model: Model,
    pub(crate) chain: Arc<ToyChain>,
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
    /// A new block comes every second.
    #[allow(dead_code, reason = "not every test has blocks of itself")]
    pub(crate) async fn new(lanes: u64) -> World {
        let world = Self::without_blocks(lanes).await;
        world.chain.mine_every(Duration::from_secs(1));
        world
    }

    pub(crate) async fn without_blocks(lanes: u64) -> World {
        let driver = TestDriver::start();
        let model = Model::new(LeaseTerms::default(), Arc::clone(&driver) as Arc<dyn DatabaseClock>);
        let lanes: Vec<SubmitterId> = (1..=lanes).map(fixtures::submitter).collect();
        let chain = ToyChain::new(lanes[0].chain().clone());
        let world = World {
            driver,
            model,
            chain,
            lanes,
            setup: LaneSetup::default(),
            watcher: WatcherOptions { confirmations: 3, ..WatcherOptions::default() },
            nodes: Default::default(),
        };
        let store = world.store("setup");
        let new = world.lanes.iter().map(|id| NewSubmitter { id: id.clone(), alias: None });
        store.register_submitters(&new.collect::<Vec<_>>()).await.unwrap();
        world
    }

    #[allow(dead_code, reason = "not every test has a window")]
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
            chains: vec![ChainSetup { chain, watcher, gas: GasPolicy::default() }],
            lanes: self.lanes.iter().map(|lane| (lane.clone(), Arc::new(setup.clone()))).collect(),
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

/// Waits until all of them are in that state; `limit` of made-up time at most.
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
        panic!("not all are {state:?} after {limit:?}: {states:?}");
    }
}

/// The nonces of intents, in the order given.
#[allow(dead_code, reason = "not every test looks at nonces")]
pub(crate) async fn nonces(store: &Arc<dyn Store>, ids: &[TxId]) -> Vec<u64> {
    let txs = store.get(ids).await.unwrap();
    txs.into_iter().flatten().map(|tx| tx.state.nonce().unwrap().get()).collect()
}
