//! Servers that lost commits, and servers that may have.

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
use gapless_store::{CancelVerdict, CommitVerdict, Store, StoreError, TxFilter};
use gapless_store_postgres::PgStore;
use gapless_testbed::{Error, Options, Postgres};
use support::proxy::Action;
use support::{Database, Scene, take_over};
use tokio_postgres::Client;

/// Every lane of a database that lost commits must go into PROTECT before it writes anything else.
async fn assert_takes_notice(store: &Arc<PgStore>, scene: &Scene) {
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

/// A file-level copy of a stopped server, put back later: the same server, the same timeline, fewer commits.
///
/// proves O07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_node_notices_a_server_that_was_set_back() {
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

    // Renewing notices it as well as committing does; nothing was sent in between.
    let noticed = scene.store.renew().await;
    assert!(matches!(noticed, Err(StoreError::Regressed(_))), "{noticed:?}");
    // It is told once. From then on it is the lanes that have to take notice, and the process can write that down.
    scene.store.renew().await.unwrap();
    scene.store.commit(&[]).await.unwrap();
    assert_eq!(epoch(&db).await, 2);
    assert_takes_notice(&scene.store, &scene).await;
    // A process that begins now knows nothing of the lost commits, but the lane is stopped.
    assert_eq!(epoch(&db).await, 2);
    let fresh: f::Node = db.open("b").await;
    take_over_from(&scene, &fresh).await;
    let cursor = f::view(&fresh, &scene.lane).await.cursor;
    assert!(cursor.state.is_store_regressed());
}

/// What is still queued may have been sent by a commit that was lost: nothing ends before somebody has looked.
///
/// proves O07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_ends_in_a_lane_that_is_not_reconciled() {
    let db = Database::shared().await;
    let scene = Scene::on(db.open("a").await, &["one", "two"]).await;
    let node: f::Node = Arc::clone(&scene.store) as f::Node;
    scene.write(scene.bind().await).await.unwrap().unwrap();
    scene.store.declare_lost(&NodeText::new("operator"), "an operator says so").await.unwrap();
    let queued = f::view(&node, &scene.lane).await.queue[0].clone();
    assert_eq!(scene.store.cancel_queued(&[queued.id]).await.unwrap(), [CancelVerdict::Regressed]);
    assert_takes_notice(&scene.store, &scene).await;
    assert_eq!(scene.store.cancel_queued(&[queued.id]).await.unwrap(), [CancelVerdict::Regressed]);
    let fail = Transition::FailInQueue(FailReason::Expired, NodeText::default());
    let mut commit = LaneCommit::new(&f::acquire(&node, &scene.lane).await);
    commit.change(queued.change(fail).unwrap());
    assert_eq!(scene.store.commit(&[commit]).await.unwrap().verdicts, [CommitVerdict::Regressed]);
}

/// proves O07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_that_missed_a_commit_is_noticed_by_all() {
    let primary = Postgres::start(Options::default()).unwrap();
    let db = Database::on(&primary.base_url()).await;
    let (proxy, url) = db.proxied().await;
    let scene = Scene::on(db.open_at(&url, "a").await, &["one", "two"]).await;
    assert_eq!(scene.write(scene.bind().await).await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
    let standby = match Postgres::standby_of(&primary) {
        Err(Error::MissingTool { .. }) => {
            return eprintln!("this PostgreSQL comes without pg_basebackup, so there is no standby to promote");
        }
        standby => standby.unwrap(),
    };
    let standby_url = db.url.replace(&format!(":{}/", primary.port()), &format!(":{}/", standby.port()));
    let on_standby = PgStore::open(&standby_url, OwnerId::new("reader", 1), db.options.clone()).await;
    assert!(matches!(on_standby, Err(StoreError::ReadOnly(_))), "a standby is no authority: {on_standby:?}");
    standby.stop_immediate().unwrap();
    let lost = scene.write(scene.bind().await).await.unwrap().unwrap();
    assert_eq!(lost.verdicts, [CommitVerdict::Done], "acknowledged by a server that is about to die");
    primary.stop_immediate().unwrap();
    standby.start_again().unwrap();
    standby.promote().unwrap();
    proxy.lead_to(standby.port());

    // No process that remembers the lost commit needs to be left: the timeline tells.
    let fresh = db.open_at(&url, "b").await;
    assert_takes_notice(&fresh, &scene).await;
    let noticed = scene.store.renew().await;
    assert!(matches!(noticed, Err(StoreError::Regressed(_))), "{noticed:?}");
}

/// The standby that must confirm is away: the server says that the commit is only local, and we say so too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_was_not_replicated_is_told_until_one_is() {
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

/// A running node is led to a promoted standby that missed a bind. What was bound, and may have been sent, is QUEUED there; nobody
/// cancels it before the loss is noticed.
///
/// proves O07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_canceled_on_a_promoted_standby_before_the_loss_is_noticed() {
    let primary = Postgres::start(Options::default()).unwrap();
    let db = Database::on(&primary.base_url()).await;
    let (road, url) = db.proxied().await;
    let scene = Scene::on(db.open_at(&url, "a").await, &["one", "two"]).await;
    let standby = match Postgres::standby_of(&primary) {
        Err(Error::MissingTool { .. }) => {
            return eprintln!("this PostgreSQL comes without pg_basebackup, so there is no standby to promote");
        }
        standby => standby.unwrap(),
    };
    standby.stop_immediate().unwrap();
    assert_eq!(scene.write(scene.bind().await).await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
    primary.stop_immediate().unwrap();
    standby.start_again().unwrap();
    standby.promote().unwrap();
    road.lead_to(standby.port());

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

/// As after a logical restore: what the database knows of its server is another one, and every new connection finds out.
async fn another_server_takes_over(db: &Database) {
    db.raw().await.batch_execute("UPDATE store_epoch SET system_identifier = 'the old server'").await.unwrap();
}

/// The server processes that wait for a lock of this kind, in the order of their beginning.
async fn waiting_for(watcher: &Client, kind: &str) -> Vec<i32> {
    let waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                       AND wait_event = $1 ORDER BY backend_start";
    watcher.query(waiting, &[&kind]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// All of them have read the old epoch before the first can begin the new one.
///
/// proves O07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_of_many_nodes_begin_one_epoch() {
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
    // One of them is at work; of each other node, one waits for it, and not all of its connections.
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

/// A connection read the old epoch and was then held up. Meanwhile another connection noticed the new server, and
/// events were written there. The late connection changes neither their positions nor the positions of later events.
///
/// proves W07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_notice_changes_no_event_position() {
    let db = Database::shared().await;
    let (proxy, url) = db.proxied().await;
    let (slow, quick) = (db.open_at(&url, "slow").await, db.open("quick").await);
    let node: f::Node = Arc::clone(&quick) as f::Node;
    let lane = f::lane(&node, 1).await;
    f::accept(&node, &lane, &["old"]).await;
    let raw = db.raw().await;
    let events = "SELECT xid::text FROM tx_event ORDER BY xid, id";
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

/// Noticing a new server may wait for a lock for longer than any call may take. Calls give up, the work goes on, and
/// later calls do not begin it anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noticing_outlives_the_call_that_began_it() {
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
    assert!(waiting_for(&watcher, "advisory").await.is_empty(), "they wait inside their process, not on the server");
    gate.batch_execute("COMMIT").await.unwrap();
    // Calls of a busy machine may still be too slow.
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
