//! Servers that lost commits, or may have: set back, promoted, restored.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, clippy::print_stderr, reason = "a test")]

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    Cursor, FailReason, LaneCommit, NodeText, Nonce, OwnerId, ProtectCode, Protection, StateName, Transition,
};
use gapless_store::conformance::fixtures as f;
use gapless_store::{CancelVerdict, CommitVerdict, IntentIntake, Lanes, Leases, StoreError, TxFilter, Upkeep, Views};
use gapless_store_postgres::PgStore;
use gapless_testbed::{Error, Options, Postgres};
use support::proxy::Action;
use support::{Database, Scene, take_over};
use tokio_postgres::Client;

/// Every lane of a database that lost commits must enter PROTECT before it writes anything else.
async fn assert_lane_must_take_notice(store: &Arc<PgStore>, scene: &Scene) {
    let node: f::Node = Arc::clone(store) as f::Node;
    take_over(store, &scene.lane).await;
    let view = f::view(&node, &scene.lane).await;
    assert!(view.lane.regressed);
    let cursor: Cursor = view.lane.cursor.unwrap();
    let lease = f::acquire(&node, &scene.lane).await;
    let mut ordinary = LaneCommit::new(&lease);
    ordinary.observe_counts(&cursor, Nonce::ZERO, Nonce::ZERO).unwrap();
    assert_eq!(store.commit(&[ordinary]).await.unwrap().verdicts, [CommitVerdict::Regressed]);
    let mut notice = LaneCommit::new(&lease);
    let protection = Protection { code: ProtectCode::StoreRegressed, detail: NodeText::new("a failover") };
    notice.protect(&cursor, protection).unwrap();
    assert_eq!(store.commit(&[notice]).await.unwrap().verdicts, [CommitVerdict::Done]);
    assert!(!f::view(&node, &scene.lane).await.lane.regressed);
}

/// A file-level copy of a stopped server is put back later: the same server and timeline, with fewer commits.
///
/// proves O07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_node_notices_a_server_that_was_set_back() {
    let server = Postgres::start(Options::default()).unwrap();
    let db = Database::on(&server.base_url()).await;
    let scene = Scene::on(db.open("a").await, &["one", "two"]).await;
    assert_eq!(scene.write(scene.bind().await).await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
    let copy = server.data_dir().with_extension("copy");
    server.stop_immediate().unwrap();
    copy_folder(&server.data_dir(), &copy);
    server.start_again().unwrap();

    let commit = scene.bind().await;
    assert_eq!(scene.write(commit).await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
    server.stop_immediate().unwrap();
    std::fs::remove_dir_all(server.data_dir()).unwrap();
    copy_folder(&copy, &server.data_dir());
    server.start_again().unwrap();

    // A renewal finds the loss, as a commit would; no commit was sent in between.
    let noticed = scene.store.renew().await;
    assert!(matches!(noticed, Err(StoreError::Regressed(_))), "{noticed:?}");
    // The loss is reported once. From then on the lanes take notice, and the process can write that.
    scene.store.renew().await.unwrap();
    scene.store.commit(&[]).await.unwrap();
    assert_eq!(epoch(&db).await, 2);
    assert_lane_must_take_notice(&scene.store, &scene).await;
    // A new process does not know of the lost commits, but the lane is in PROTECT.
    assert_eq!(epoch(&db).await, 2);
    let fresh: f::Node = db.open("b").await;
    take_over_from(&scene, &fresh).await;
    let cursor = f::view(&fresh, &scene.lane).await.cursor;
    assert!(cursor.state.is_store_regressed());
}

/// A queued intent may have been sent by a lost commit, so no intent ends before the lane is reconciled.
///
/// proves O07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn intents_of_an_unreconciled_lane_do_not_end() {
    let db = Database::shared().await;
    let scene = Scene::on(db.open("a").await, &["one", "two"]).await;
    let node: f::Node = Arc::clone(&scene.store) as f::Node;
    scene.write(scene.bind().await).await.unwrap().unwrap();
    scene.store.declare_lost(&NodeText::new("operator"), "an operator says so").await.unwrap();
    let queued = f::view(&node, &scene.lane).await.queue[0].clone();
    assert_eq!(scene.store.cancel_queued(&[queued.id]).await.unwrap(), [CancelVerdict::Regressed]);
    assert_lane_must_take_notice(&scene.store, &scene).await;
    assert_eq!(scene.store.cancel_queued(&[queued.id]).await.unwrap(), [CancelVerdict::Regressed]);
    let fail = Transition::FailInQueue(FailReason::Expired, NodeText::default());
    let mut commit = LaneCommit::new(&f::acquire(&node, &scene.lane).await);
    commit.change(queued.change(fail).unwrap());
    assert_eq!(scene.store.commit(&[commit]).await.unwrap().verdicts, [CommitVerdict::Regressed]);
}

/// proves O07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_notice_a_promoted_standby_that_missed_a_commit() {
    let primary = Postgres::start(Options::default()).unwrap();
    let db = Database::on(&primary.base_url()).await;
    let (proxy, url) = db.proxied().await;
    let scene = Scene::on(db.open_at(&url, "a").await, &["one", "two"]).await;
    assert_eq!(scene.write(scene.bind().await).await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
    let standby = match Postgres::standby_of(&primary) {
        Err(Error::MissingTool { .. }) => {
            return eprintln!("skipped: this PostgreSQL has no pg_basebackup, so there is no standby to promote");
        }
        standby => standby.unwrap(),
    };
    let standby_url = db.url.replace(&format!(":{}/", primary.port()), &format!(":{}/", standby.port()));
    let on_standby = PgStore::open(&standby_url, OwnerId::new("reader", 1), db.options.clone()).await;
    assert!(matches!(on_standby, Err(StoreError::ReadOnly(_))), "a standby must be refused: {on_standby:?}");
    standby.stop_immediate().unwrap();
    let lost = scene.write(scene.bind().await).await.unwrap().unwrap();
    assert_eq!(lost.verdicts, [CommitVerdict::Done], "the primary acknowledges a commit that the standby misses");
    primary.stop_immediate().unwrap();
    standby.start_again().unwrap();
    standby.promote().unwrap();
    proxy.lead_to(standby.port());

    // The timeline shows the loss also to a process that does not remember the lost commit.
    let fresh = db.open_at(&url, "b").await;
    assert_lane_must_take_notice(&fresh, &scene).await;
    let noticed = scene.store.renew().await;
    assert!(matches!(noticed, Err(StoreError::Regressed(_))), "{noticed:?}");
}

/// The standby that must confirm is away: the server reports that the commit is only local, and so does the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_without_replication_is_reported() {
    let server = Postgres::start(Options::default()).unwrap();
    let db = Database::on(&server.base_url()).await;
    let scene = Scene::on(db.open("a").await, &["one"]).await;
    let commit = scene.bind().await;
    let admin = db.raw().await;
    admin.batch_execute("SET synchronous_commit = local").await.unwrap();
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'away'").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let write = scene.write(commit);
    let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    while admin.query_one(cancel, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let committed = write.await.unwrap().unwrap();
    assert_eq!((committed.verdicts, committed.replicated), (vec![CommitVerdict::Done], false));
    admin.batch_execute("ALTER SYSTEM RESET synchronous_standby_names").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(scene.store.commit(&[]).await.unwrap().replicated);
}

/// A running node is connected to a promoted standby that missed a bind. The bound intent, which may have been sent, is
/// QUEUED there, and must not be canceled before notice is taken of the loss.
///
/// proves O07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promoted_standby_refuses_cancel_before_notice() {
    let primary = Postgres::start(Options::default()).unwrap();
    let db = Database::on(&primary.base_url()).await;
    let (proxy, url) = db.proxied().await;
    let scene = Scene::on(db.open_at(&url, "a").await, &["one", "two"]).await;
    let standby = match Postgres::standby_of(&primary) {
        Err(Error::MissingTool { .. }) => {
            return eprintln!("skipped: this PostgreSQL has no pg_basebackup, so there is no standby to promote");
        }
        standby => standby.unwrap(),
    };
    standby.stop_immediate().unwrap();
    assert_eq!(scene.write(scene.bind().await).await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
    primary.stop_immediate().unwrap();
    standby.start_again().unwrap();
    standby.promote().unwrap();
    proxy.lead_to(standby.port());

    let all = TxFilter { submitter: Some(scene.lane.clone()), limit: 10, ..TxFilter::default() };
    let queued = loop {
        // Connections to the old server fail first.
        if let Ok(queued) = scene.store.list(&all).await {
            break queued;
        }
    };
    assert!(queued.iter().all(|tx| tx.state.name() == StateName::Queued));
    let ids: Vec<_> = queued.iter().map(|tx| tx.id).collect();
    assert_eq!(scene.store.cancel_queued(&ids).await.unwrap(), [CancelVerdict::Regressed, CancelVerdict::Regressed]);
}

/// Makes the database look as after a logical restore: its newest epoch names another server.
async fn another_server_takes_over(db: &Database) {
    db.raw().await.batch_execute("UPDATE store_epoch SET system_identifier = 'the old server'").await.unwrap();
}

/// The server processes that wait for a lock of this kind, in the order in which they started.
async fn waiting_for(watcher: &Client, kind: &str) -> Vec<i32> {
    let waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                       AND wait_event = $1 ORDER BY backend_start";
    watcher.query(waiting, &[&kind]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// All connections have read the old epoch before the first can begin the new one.
///
/// proves O07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_many_nodes_begin_one_epoch() {
    let db = Database::shared().await;
    let nodes = [db.open("a").await, db.open("b").await, db.open("c").await];
    another_server_takes_over(&db).await;
    let (gate, watcher) = (db.raw().await, db.raw().await);
    gate.batch_execute("BEGIN; LOCK TABLE event_origin IN SHARE MODE").await.unwrap();
    let calls: Vec<_> = (0..8)
        .map(|call| {
            let node = Arc::clone(&nodes[call % nodes.len()]);
            tokio::spawn(async move { node.lanes_with_work(None, 10).await })
        })
        .collect();
    // One connection is at work. Of each other node one connection waits for it, and not all of them.
    while (waiting_for(&watcher, "relation").await.len(), waiting_for(&watcher, "advisory").await.len()) != (1, 2) {
        f::pause().await;
    }
    assert_eq!(epoch(&db).await, 1);
    gate.batch_execute("COMMIT").await.unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(epoch(&db).await, 2);
}

/// A connection reads the old epoch and is then held up. Meanwhile another one takes notice of the new server, and
/// events are written there. The late connection changes neither their positions nor the positions of later events.
///
/// proves W07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_notice_of_another_server_changes_no_event_position() {
    let db = Database::shared().await;
    let (proxy, url) = db.proxied().await;
    let (slow, quick) = (db.open_at(&url, "slow").await, db.open("quick").await);
    let node: f::Node = Arc::clone(&quick) as f::Node;
    let lane = f::lane(&node, 1).await;
    f::accept(&node, &lane, &["old"]).await;
    let raw = db.raw().await;
    let events = "SELECT e.xid::text FROM tx_event e ORDER BY e.xid, e.id";
    let old: String = raw.query_one(events, &[]).await.unwrap().get(0);
    another_server_takes_over(&db).await;
    let held = proxy.arm(b"pg_advisory_xact_lock", Action::HoldBefore);
    let late = tokio::spawn(async move { slow.lanes_with_work(None, 10).await });
    held.wait_until_seen().await;

    db.open("quicker").await;
    assert_eq!(epoch(&db).await, 2);
    let insert =
        "INSERT INTO tx_event (submitter, seq, kind, text) VALUES ($1, 1, 'paused', 'new') RETURNING xid::text";
    let written: String = raw.query_one(insert, &[&lane.as_str()]).await.unwrap().get(0);
    held.release();
    late.await.unwrap().unwrap();

    let again =
        "INSERT INTO tx_event (submitter, seq, kind, text) VALUES ($1, 2, 'paused', 'later') RETURNING xid::text";
    let later: String = raw.query_one(again, &[&lane.as_str()]).await.unwrap().get(0);

    let places: Vec<String> = raw.query(events, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(places, [old, written, later]);
    assert_eq!(epoch(&db).await, 2);
}

/// Taking notice of a new server may wait for a lock for longer than a call may take. Calls give up, the work goes on,
/// and no call starts it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taking_notice_outlives_the_call_that_began_it() {
    let mut db = Database::shared().await;
    db.options.call_timeout = Duration::from_secs(2);
    db.options.lock_timeout = Duration::from_millis(500);
    db.options.statement_timeout = Duration::from_secs(1);
    db.options.connection_check_interval = Duration::from_millis(50);
    let store = db.open("a").await;
    another_server_takes_over(&db).await;
    let (gate, watcher) = (db.raw().await, db.raw().await);
    gate.batch_execute("BEGIN; LOCK TABLE event_origin IN SHARE MODE").await.unwrap();
    assert!(matches!(store.lanes_with_work(None, 10).await, Err(StoreError::Unavailable(_))));
    let at_work = waiting_for(&watcher, "relation").await;
    assert_eq!(at_work.len(), 1);
    let (read, written) = tokio::join!(store.lanes_with_work(None, 10), store.commit(&[]));
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    assert!(matches!(written, Err(StoreError::Unavailable(_))), "{written:?}");
    assert_eq!(waiting_for(&watcher, "relation").await, at_work);
    assert!(waiting_for(&watcher, "advisory").await.is_empty(), "calls wait in their process, not on the server");
    gate.batch_execute("COMMIT").await.unwrap();
    // On a busy machine a call may still be too slow.
    while let Err(error) = store.lanes_with_work(None, 10).await {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    }
    assert_eq!(epoch(&db).await, 2);
}

async fn epoch(db: &Database) -> i64 {
    db.raw().await.query_one("SELECT max(epoch) FROM store_epoch", &[]).await.unwrap().get(0)
}

async fn take_over_from(scene: &Scene, node: &f::Node) {
    let lease = f::acquire(&(Arc::clone(&scene.store) as f::Node), &scene.lane).await;
    scene.store.release(&[lease]).await.unwrap();
    f::acquire(node, &scene.lane).await;
}

fn copy_folder(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}
