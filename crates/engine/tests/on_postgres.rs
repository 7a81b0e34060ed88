//! Lease keeper, lane writer and intake on a real PostgreSQL.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test")]

#[path = "../../store-postgres/tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gapless_domain::{LaneCommit, Lease, Tick, TxId};
use gapless_engine::{BatchLimits, Clock, Intake, IntakeLimits, LaneWriter, LeaseKeeper, SystemClock, TimeOrderedIds};
use gapless_store::conformance::fixtures as f;
use gapless_store::{Accepted, Acquired, CommitVerdict, Lanes, Leases};
use gapless_store_postgres::PgStore;
use support::{Database, TERMS, take_over};

/// A node's clock that is ahead, jumps, or stands still.
#[derive(Debug)]
struct SkewedClock {
    real: SystemClock,
    ahead_ms: AtomicU64,
    stands_still: bool,
}

impl SkewedClock {
    fn new(ahead: Duration, stands_still: bool) -> Arc<Self> {
        let ahead_ms = AtomicU64::new(ahead.as_millis() as u64);
        Arc::new(SkewedClock { real: SystemClock::start(), ahead_ms, stands_still })
    }

    fn jump(&self, span: Duration) {
        self.ahead_ms.fetch_add(span.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Tick {
        let ahead = Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst));
        let real = if self.stands_still { Duration::ZERO } else { self.real.now().elapsed() };
        Tick::since_start(real + ahead)
    }
}

const HOUR: Duration = Duration::from_secs(3600);

fn keeper(store: &Arc<PgStore>, clock: Arc<dyn Clock>) -> LeaseKeeper {
    LeaseKeeper::new(Arc::clone(store) as f::Node, clock, TERMS)
}

async fn hold(keeper: &LeaseKeeper, lane: &gapless_domain::SubmitterId) -> Lease {
    match keeper.acquire(std::slice::from_ref(lane)).await.unwrap().remove(0) {
        Acquired::Held(lease) => lease,
        other => panic!("not held: {other:?}"),
    }
}

/// proves N06
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_that_cannot_renew_has_no_permit_before_takeover() {
    let db = Database::shared().await;
    let (a, b) = (db.open("a").await, db.open("b").await);
    let lane = f::lane(&(Arc::clone(&a) as f::Node), 1).await;
    let keeper = keeper(&a, Arc::new(SystemClock::start()));
    let lease = hold(&keeper, &lane).await;
    assert_eq!(keeper.permit(&lane).unwrap().lease(), &lease);
    let taken = take_over(&b, &lane).await;
    assert!(keeper.permit(&lane).is_err(), "the old owner no longer trusts its lease");
    assert!(taken.token() > lease.token());
    assert_eq!(keeper.renew().await.unwrap(), [lease], "the renewal reports the lost lease");
}

/// proves N06
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_lane_has_no_permit_under_a_stopped_clock() {
    let db = Database::shared().await;
    let (a, b) = (db.open("a").await, db.open("b").await);
    let lane = f::lane(&(Arc::clone(&a) as f::Node), 1).await;
    let clock = SkewedClock::new(Duration::ZERO, true);
    let keeper = keeper(&a, Arc::clone(&clock) as Arc<dyn Clock>);
    let lease = hold(&keeper, &lane).await;
    take_over(&b, &lane).await;
    assert!(keeper.permit(&lane).is_ok(), "by its own clock, which stands still, the lease is valid");

    let (writer, write_loop) = LaneWriter::new(Arc::clone(&a) as f::Node, clock, BatchLimits::default());
    let driver = tokio::spawn(write_loop.run());
    let written = writer.write(LaneCommit::new(&lease)).await.unwrap();
    assert_eq!(written.verdict, CommitVerdict::Fenced);
    assert!(keeper.drop_lease(&lease));
    assert!(keeper.permit(&lane).is_err());
    drop(writer);
    driver.await.unwrap();
}

/// The clocks of nodes are an hour ahead or stand still. No verb takes a time from a node, so the database's clock
/// alone decides: no node gets a lane early, and none keeps one too long.
///
/// proves N04
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skewed_node_clock_neither_wins_nor_keeps_a_lane() {
    let db = Database::shared().await;
    let (owner, ahead, behind) = (db.open("owner").await, db.open("ahead").await, db.open("behind").await);
    let lane = f::lane(&(Arc::clone(&owner) as f::Node), 1).await;
    let clock = SkewedClock::new(HOUR, false);
    let kept = keeper(&owner, Arc::clone(&clock) as Arc<dyn Clock>);
    let lease = hold(&kept, &lane).await;

    let early = keeper(&ahead, SkewedClock::new(HOUR * 2, false));
    assert_eq!(early.acquire(std::slice::from_ref(&lane)).await.unwrap(), [Acquired::HeldByOther]);
    // The owner's clock jumps ahead: the owner no longer trusts its lease, and the database still has it as the owner.
    clock.jump(HOUR);
    assert!(kept.permit(&lane).is_err());
    assert_eq!(early.acquire(std::slice::from_ref(&lane)).await.unwrap(), [Acquired::HeldByOther]);
    assert_eq!(hold(&kept, &lane).await, lease, "the lease comes back with the same token");

    // By a clock that stands still the lease never ends. By the database's clock it does.
    kept.release(std::slice::from_ref(&lease)).await.unwrap();
    let late = keeper(&behind, SkewedClock::new(Duration::ZERO, true));
    let stale = hold(&late, &lane).await;
    let taken = take_over(&ahead, &lane).await;
    assert!(taken.token() > stale.token());
    assert!(late.permit(&lane).is_ok());
    let verdicts = behind.commit(&[LaneCommit::new(&stale)]).await.unwrap().verdicts;
    assert_eq!(verdicts, [CommitVerdict::Fenced]);
}

/// The keeper releases a lease whose lane was dropped without a release, or whose acquisition was abandoned. Renewed
/// for ever, it would keep other nodes from taking the lane over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_without_a_lane_is_released() {
    let db = Database::shared().await;
    let (a, b) = (db.open("a").await, db.open("b").await);
    let lane = f::lane(&(Arc::clone(&a) as f::Node), 1).await;
    let keeper = keeper(&a, Arc::new(SystemClock::start()));
    let lease = hold(&keeper, &lane).await;
    keeper.drop_lease(&lease);
    assert_eq!(keeper.renew().await.unwrap(), []);
    let acquired = b.acquire(std::slice::from_ref(&lane)).await.unwrap().remove(0);
    assert!(matches!(acquired, Acquired::Held(_)), "{acquired:?}");
}

/// A process releases a lane and acquires it again before the release is answered. The store would renew the lease
/// that is about to be released, and the process would go on trusting it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_during_release_is_busy() {
    let db = Database::shared().await;
    let (proxy, url) = db.proxied().await;
    let a = db.open_at(&url, "a").await;
    let lane = f::lane(&(Arc::clone(&a) as f::Node), 1).await;
    let keeper = Arc::new(keeper(&a, Arc::new(SystemClock::start())));
    let lease = hold(&keeper, &lane).await;
    let rule = proxy.arm(b"-infinity", support::proxy::Action::HoldBefore);
    let (releasing, released) = (Arc::clone(&keeper), lease.clone());
    let release = tokio::spawn(async move { releasing.release(&[released]).await });
    rule.wait_until_seen().await;
    assert_eq!(keeper.acquire(std::slice::from_ref(&lane)).await.unwrap(), [Acquired::Busy]);
    rule.release();
    release.await.unwrap().unwrap();
    assert!(hold(&keeper, &lane).await.token() > lease.token());
}

/// proves S11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_request_from_a_hundred_callers_is_one_intent() {
    let db = Database::shared().await;
    let mut intakes = Vec::new();
    let mut drivers = Vec::new();
    for name in ["a", "b", "c"] {
        let store = db.open(name).await;
        f::register(&(Arc::clone(&store) as f::Node), &[f::submitter(1)]).await;
        let (intake, run) = Intake::new(store, Arc::new(TimeOrderedIds), IntakeLimits::default());
        intakes.push(intake);
        drivers.push(tokio::spawn(run.run()));
    }
    let lane = f::submitter(1);
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let intake = intakes[n % 3].clone();
            let intent = f::intent(&lane, "order-42");
            tokio::spawn(async move { intake.accept(vec![intent]).await.unwrap().remove(0) })
        })
        .collect();
    let mut answers: Vec<(TxId, Accepted)> = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    let ids: std::collections::HashSet<TxId> = answers.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(answers.iter().filter(|(_, verdict)| *verdict == Accepted::New).count(), 1);

    // The intents of one call stay together, in their order.
    let many: Vec<_> = (0..500).map(|n| f::intent(&lane, &format!("many-{n}"))).collect();
    let given: Vec<TxId> = intakes[0].accept(many).await.unwrap().into_iter().map(|(id, _)| id).collect();
    let store = db.open("reader").await;
    let queue = store.peek_queues(&[(lane, 1000)], &[]).await.unwrap().remove(0);
    assert_eq!(queue.iter().skip(1).map(|tx| tx.id).collect::<Vec<_>>(), given);
    drop(intakes);
    for driver in drivers {
        driver.await.unwrap();
    }
}

/// Another transaction holds the lease row: the commit waits for the next flush, and is not fenced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_lease_row_delays_only_its_own_commit() {
    let db = Database::shared().await;
    let store = db.open("a").await;
    let node: f::Node = Arc::clone(&store) as f::Node;
    let (slow, quick) = (f::lane(&node, 1).await, f::lane(&node, 2).await);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let keeper = keeper(&store, Arc::clone(&clock));
    let (slow_lease, quick_lease) = (hold(&keeper, &slow).await, hold(&keeper, &quick).await);
    let (writer, write_loop) = LaneWriter::new(node, clock, BatchLimits::default());
    let driver = tokio::spawn(write_loop.run());

    let raw = db.raw().await;
    raw.batch_execute("BEGIN").await.unwrap();
    let lock = "SELECT FROM submitter_lease WHERE submitter = $1 FOR UPDATE";
    raw.query(lock, &[&slow.as_str()]).await.unwrap();
    let written = writer.write(LaneCommit::new(&quick_lease)).await.unwrap();
    assert_eq!(written.verdict, CommitVerdict::Done, "the other lane is not held up");
    assert_eq!(writer.write(LaneCommit::new(&slow_lease)).await.unwrap().verdict, CommitVerdict::Busy);
    raw.batch_execute("COMMIT").await.unwrap();
    assert_eq!(writer.write(LaneCommit::new(&slow_lease)).await.unwrap().verdict, CommitVerdict::Done);
    drop(writer);
    driver.await.unwrap();
}
