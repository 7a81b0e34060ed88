//! Engines whose store, endpoint or task is full, slow, down or wrong.
#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test panic too")]

#[path = "support/store_faults.rs"]
mod store_faults;
#[allow(dead_code, reason = "not every test file uses all of it")]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_chain::Chain;
use gapless_domain::{LeaseTerms, StateName, Tick, TxState};
use gapless_engine::{
    ChainSetup, Clock, DispatchOptions, DomainLanes, Driver, Engine, EngineOptions, EngineParts, FaultPoint,
    FaultPoints, NoFaults, PriceOptions, TimeOrderedIds, WaitForOperator,
};
use gapless_sim::testing::{ScriptedChain, TextEncoder};
use gapless_store::FaultyStore;
use gapless_store::conformance::fixtures::text;
use store_faults::SwitchedFaults;
use support::{Node, World, get, until_all};

const A_WHILE: Duration = Duration::from_secs(30);

/// A driver that finds a busy loop: a task that sleeps until a time in the past, again and again, would stop the paused
/// clock. Such a task then sleeps for ever.
#[derive(Debug)]
struct SpinGuard {
    inner: Arc<dyn Driver>,
    moment: std::sync::Mutex<(Tick, usize)>,
    spun: Arc<AtomicBool>,
}

impl Clock for SpinGuard {
    fn now(&self) -> Tick {
        self.inner.now()
    }
}

impl Driver for SpinGuard {
    fn sleep_until(&self, at: Tick) -> BoxFuture<'static, ()> {
        let now = self.now();
        let mut moment = self.moment.lock().unwrap();
        *moment = if moment.0 == now { (now, moment.1 + 1) } else { (now, 0) };
        if moment.1 > 10_000 {
            self.spun.store(true, Ordering::SeqCst);
            return Box::pin(std::future::pending());
        }
        self.inner.sleep_until(at)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.inner.spawn(task);
    }
}

/// The parts of a node that a test may change before it starts.
struct Parts {
    parts: EngineParts,
    spun: Arc<AtomicBool>,
}

impl Parts {
    fn of(world: &World, name: &str) -> Self {
        let spun = Arc::new(AtomicBool::new(false));
        let inner = Arc::clone(&world.driver) as Arc<dyn Driver>;
        let driver = SpinGuard { inner, moment: Default::default(), spun: Arc::clone(&spun) };
        let watcher = world.watcher.clone();
        let chain = Arc::clone(&world.chain) as Arc<dyn Chain>;
        let parts = EngineParts {
            store: world.store(name),
            driver: Arc::new(driver),
            ids: Arc::new(TimeOrderedIds),
            faults: Arc::new(NoFaults),
            stuck: Arc::new(WaitForOperator),
            chains: vec![ChainSetup {
                chain,
                encoder: Arc::new(TextEncoder),
                watcher,
                prices: PriceOptions::default(),
            }],
            lanes: world.served(&world.setup, &world.signer()),
            lane_factory: Arc::new(DomainLanes),
            terms: LeaseTerms::default(),
            options: EngineOptions::default(),
        };
        Parts { parts, spun }
    }

    fn faulty_store(mut self) -> (Self, Arc<FaultyStore<SwitchedFaults>>) {
        let store = FaultyStore::new(Arc::clone(&self.parts.store), SwitchedFaults::default());
        let store = Arc::new(store);
        self.parts.store = store.clone();
        (self, store)
    }

    fn with_own_endpoint(mut self, world: &World) -> (Self, Arc<ScriptedChain>) {
        let endpoint = world.chain.endpoint();
        self.parts.chains[0].chain = Arc::clone(&endpoint) as Arc<dyn Chain>;
        (self, endpoint)
    }

    fn change(mut self, change: impl FnOnce(&mut EngineParts)) -> Self {
        change(&mut self.parts);
        self
    }

    fn start(self) -> Node {
        let store = Arc::clone(&self.parts.store);
        Node { engine: Engine::start(self.parts).unwrap(), store }
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// The owner and the token of the first lane's valid lease.
async fn lease(world: &World) -> Option<(String, u64)> {
    let status = world.store("look").lane_status(&world.lanes[..1]).await.unwrap().remove(0).unwrap();
    let lease = status.lease.filter(|lease| lease.valid)?;
    Some((lease.owner.to_string(), lease.token.get()))
}

/// Calls a function when a fault point is reached for the first time.
struct Once<F> {
    at: FaultPoint,
    reached: AtomicUsize,
    then: F,
}

impl<F> std::fmt::Debug for Once<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

impl<F: Fn() + Send + Sync> FaultPoints for Once<F> {
    fn reach(&self, point: FaultPoint) {
        if point == self.at && self.reached.fetch_add(1, Ordering::SeqCst) == 0 {
            (self.then)();
        }
    }
}

fn once(at: FaultPoint, then: impl Fn() + Send + Sync + 'static) -> Arc<dyn FaultPoints> {
    Arc::new(Once { at, reached: AtomicUsize::new(0), then })
}

/// A lane for which the node has no room waits for room, not for a time in the past.
#[tokio::test(start_paused = true)]
async fn full_node_waits_without_spinning() {
    let world = World::without_blocks(2).await;
    let parts = Parts::of(&world, "a").change(|parts| {
        parts.options.dispatch = DispatchOptions { lanes_max: 1, ..DispatchOptions::default() };
    });
    let spun = Arc::clone(&parts.spun);
    let node = parts.start();
    let mut ids = node.submit(&world.lanes[0], 0..1).await;
    ids.extend(node.submit(&world.lanes[1], 0..1).await);
    pass(10).await;
    assert!(!spun.load(Ordering::SeqCst), "a task spins");
    assert_eq!(world.chain.sends().len(), 1, "one lane runs, and waits for a block");
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
}

/// A lane that cannot commit is dropped when its lease runs out.
#[tokio::test(start_paused = true)]
async fn drain_without_database_ends_with_the_lease() {
    let world = World::without_blocks(1).await;
    let (parts, store) = Parts::of(&world, "a").faulty_store();
    let outage = Arc::clone(&store);
    let faults = once(FaultPoint::AfterBroadcast, move || outage.faults().set().is_down = true);
    let node = parts.change(|parts| parts.faults = faults).start();
    node.submit(&world.lanes[0], 0..1).await;
    pass(1).await;
    assert_eq!(world.chain.sends().len(), 1);
    let drained = tokio::time::timeout(Duration::from_secs(15), node.engine.drain()).await;
    assert!(drained.is_ok(), "the drain still waits for the database");
}

/// A drain also releases the lease of a lane that could not be loaded yet.
/// proves N21
#[tokio::test(start_paused = true)]
async fn drain_releases_lease_of_unloaded_lane() {
    let world = World::without_blocks(1).await;
    let (parts, store) = Parts::of(&world, "a").faulty_store();
    let node = parts.start();
    store.faults().set().load_fails = true;
    node.submit(&world.lanes[0], 0..1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(lease(&world).await.is_some());
    node.engine.drain().await;
    assert_eq!(lease(&world).await, None, "the unused lease is released");
}

/// New headers do not link to the known ones, and a request for headers fails while the watcher walks back.
/// proves R05, R07
#[tokio::test(start_paused = true)]
async fn deep_fork_is_noticed_after_a_failed_header_request() {
    for answered in 0.. {
        let world = World::without_blocks(1).await;
        (0..20).for_each(|_| world.chain.mine());
        let (parts, chain) = Parts::of(&world, "a").with_own_endpoint(&world);
        let node = parts.change(|parts| parts.chains[0].watcher.margin = 2).start();
        let ids = node.submit(&world.lanes[0], 0..1).await;
        until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
        world.chain.mine();
        pass(3).await;
        assert_eq!(get(&node.store, ids[0]).await.state.sub_state().unwrap().as_str(), "MINED");
        chain.scripted().header_fails_after = Some(answered);
        world.chain.reorg(10, false);
        pass(10).await;
        if chain.scripted().header_fails_after.is_some() {
            assert!(answered > 1, "too few requests for headers");
            return;
        }
        let state = get(&node.store, ids[0]).await.state;
        assert_eq!(state.sub_state().unwrap().as_str(), "PENDING", "header {answered} failed");
        world.chain.mine_every(Duration::from_secs(1));
        pass(30).await;
        assert_eq!(
            get(&node.store, ids[0]).await.state.name(),
            StateName::Tracking,
            "no intent ends during a finality violation"
        );
        node.store.forget_head(world.lanes[0].chain(), &text("operator"), "test").await.unwrap();
        until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    }
}

/// Every request for receipts by hash fails. The watcher still follows blocks.
/// proves R02
#[tokio::test(start_paused = true)]
async fn failed_lookup_does_not_stop_the_watcher() {
    let world = World::without_blocks(2).await;
    let first = world.node("a");
    let old = first.submit(&world.lanes[0], 0..1).await;
    until_all(&first.store, &old, StateName::Tracking, A_WHILE).await;
    drop(first);
    let (parts, chain) = Parts::of(&world, "b").with_own_endpoint(&world);
    chain.scripted().receipts_fail = true;
    let node = parts.start();
    // Node b takes the lane over, and looks its hash up.
    pass(20).await;
    world.chain.mine_every(Duration::from_secs(1));
    let new = node.submit(&world.lanes[1], 0..1).await;
    until_all(&node.store, &[old, new].concat(), StateName::Confirmed, A_WHILE).await;
}

/// A reorg deeper than finality puts a transaction below the block that was final before.
#[tokio::test(start_paused = true)]
async fn transaction_mined_below_old_final_block_becomes_final() {
    let world = World::without_blocks(1).await;
    let node = world.node("a");
    pass(1).await;
    (0..20).for_each(|_| world.chain.mine());
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
    world.chain.mine();
    pass(3).await;
    world.chain.reorg_keeping(8);
    pass(3).await;
    world.chain.mine_every(Duration::from_secs(1));
    pass(30).await;
    node.store.forget_head(world.lanes[0].chain(), &text("operator"), "test").await.unwrap();
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    let TxState::Confirmed(settled) = get(&node.store, ids[0]).await.state else { panic!() };
    assert_eq!(settled.inclusion.block.number, 14);
}

/// A row that cannot be read stops only its own lane.
#[tokio::test(start_paused = true)]
async fn unreadable_queue_stops_only_its_lane() {
    let world = World::new(8).await;
    let (parts, store) = Parts::of(&world, "a").faulty_store();
    store.faults().set().bad_queue = Some(world.lanes[3].clone());
    let node = parts.start();
    let intents = |lane| gapless_store::conformance::fixtures::intent(lane, "r");
    let ids = node.accept(world.lanes.iter().map(intents).collect()).await;
    let others: Vec<_> = ids.iter().enumerate().filter(|(n, _)| *n != 3).map(|(_, id)| *id).collect();
    until_all(&node.store, &others, StateName::Confirmed, A_WHILE).await;
    assert_eq!(get(&node.store, ids[3]).await.state, TxState::Queued);
    store.faults().set().bad_queue = None;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
}

/// A panic ends one run of a lane. The node loads the lane again, and neither its lease nor a drain hangs.
#[tokio::test(start_paused = true)]
async fn panic_in_a_lane_run_reloads_the_lane() {
    let world = World::new(1).await;
    let faults = once(FaultPoint::BeforeSign, || panic!("a defect"));
    let node = Parts::of(&world, "a").change(|parts| parts.faults = faults).start();
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(60)).await;
    tokio::time::timeout(A_WHILE, node.engine.drain()).await.unwrap();
}

/// Lease renewals do not wait for the dispatcher's sweep.
#[tokio::test(start_paused = true)]
async fn slow_sweep_costs_no_lease() {
    let world = World::without_blocks(1).await;
    let (parts, store) = Parts::of(&world, "a").faulty_store();
    let node = parts.start();
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
    let before = lease(&world).await;
    store.faults().set().sweep_delay = Duration::from_secs(20);
    for _ in 0..60 {
        pass(1).await;
        assert_eq!(lease(&world).await, before);
    }
}

/// Wrong receipts for some hashes do not keep other hashes from being looked up.
/// proves R02
#[tokio::test(start_paused = true)]
async fn wrong_receipts_do_not_delay_other_lookups() {
    let world = World::without_blocks(12).await;
    let first = world.node("a");
    let intents = |lane| gapless_store::conformance::fixtures::intent(lane, "r");
    let ids = first.accept(world.lanes.iter().map(intents).collect()).await;
    until_all(&first.store, &ids, StateName::Tracking, A_WHILE).await;
    drop(first);
    (0..5).for_each(|_| world.chain.mine());
    let (parts, chain) = Parts::of(&world, "b").with_own_endpoint(&world);
    let honest = world.chain.mined(&world.lanes[11])[0].1;
    let all = world.lanes.iter().flat_map(|lane| world.chain.mined(lane)).map(|(_, hash)| hash);
    chain.scripted().misplaced = all.filter(|hash| *hash != honest).collect();
    let node = parts.change(|parts| parts.chains[0].watcher.look_ups = 2).start();
    until_all(&node.store, &ids[11..], StateName::Confirmed, A_WHILE).await;
    chain.scripted().misplaced.clear();
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
}

/// The intent that the account could not pay for is canceled. The lane then reads no balance, and does not wait for a
/// time in the past.
#[tokio::test(start_paused = true)]
async fn canceled_unpayable_intent_leaves_no_spinning_lane() {
    let world = World::new(1).await;
    let parts = Parts::of(&world, "a");
    let spun = Arc::clone(&parts.spun);
    let node = parts.start();
    world.chain.script(|script| script.balance = Some(1000));
    let ids = node.submit(&world.lanes[0], 0..1).await;
    pass(3).await;
    node.store.cancel_queued(&ids).await.unwrap();
    pass(10).await;
    assert!(!spun.load(Ordering::SeqCst), "a task spins");
}

/// The node that takes the lane over has an endpoint that lags behind the endpoint of the node before.
#[tokio::test(start_paused = true)]
async fn takeover_by_lagging_node_does_not_protect() {
    for rounds in 14..=20 {
        let world = World::without_blocks(1).await.window(4);
        world.chain.mine_every(Duration::from_secs(2));
        let a = world.node("a");
        let (parts, chain) = Parts::of(&world, "b").with_own_endpoint(&world);
        chain.scripted().lag = 2;
        let b = parts.start();
        let mut ids = Vec::new();
        for round in 0..rounds {
            ids.extend(a.submit(&world.lanes[0], round..round + 1).await);
            pass(1).await;
        }
        a.engine.drain().await;
        pass(10).await;
        let status = b.store.lane_status(&world.lanes[..1]).await.unwrap().remove(0).unwrap();
        assert!(!status.cursor.as_ref().unwrap().is_protected(), "{rounds}: {:?}", status.cursor);
        until_all(&b.store, &ids, StateName::Confirmed, Duration::from_secs(60)).await;
    }
}
