//! Commits whose answer was lost: the outcome is read back before the lane goes on.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::time::Duration;

use gapless_store::{CommitVerdict, Conflict, Lanes, StoreError};
use gapless_store_postgres::PgOptions;
use support::proxy::Action;
use support::{Database, Scene, take_over};

/// proves S12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answer_of_a_commit_is_read_back_as_done() {
    let db = Database::shared().await;
    let (proxy, url) = db.proxied().await;
    let scene = Scene::on(db.open_at(&url, "a").await, &["r"]).await;
    let commit = scene.bind().await;
    let rule = proxy.arm(b"COMMIT\0", Action::CutAfter);
    let committed = scene.write(commit).await.unwrap().unwrap();
    rule.wait_until_seen().await;
    assert_eq!(committed.verdicts, [CommitVerdict::Done]);
    assert!(committed.replicated);
    assert_eq!(scene.bound_seen_by(&scene.store).await, 1);
}

/// proves S12, N10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_that_never_arrived_can_be_repeated() {
    let db = Database::shared().await;
    let (proxy, url) = db.proxied().await;
    let scene = Scene::on(db.open_at(&url, "a").await, &["r"]).await;
    let commit = scene.bind().await;
    proxy.arm(b"COMMIT\0", Action::CutBefore);
    let lost = scene.write(commit.clone()).await.unwrap();
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    assert_eq!(scene.bound_seen_by(&scene.store).await, 0);
    assert_eq!(scene.write(commit).await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
    assert_eq!(scene.bound_seen_by(&scene.store).await, 1);
}

/// The server still works on the commit when the node reads it back: the read waits for it.
///
/// proves S12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_back_waits_for_a_commit_that_is_under_way() {
    let db = Database::shared().await;
    let (proxy, url) = db.proxied().await;
    let scene = Scene::on(db.open_at(&url, "a").await, &["r"]).await;
    let commit = scene.bind().await;
    proxy.arm(b"COMMIT\0", Action::CutThenDeliver(Duration::from_millis(700)));
    assert_eq!(scene.write(commit).await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
    assert_eq!(scene.bound_seen_by(&scene.store).await, 1);
}

/// proves S12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_not_read_back_in_time_is_unknown() {
    let mut db = Database::shared().await;
    db.options = PgOptions { read_back_timeout: Duration::from_millis(300), ..db.options };
    let (proxy, url) = db.proxied().await;
    let scene = Scene::on(db.open_at(&url, "a").await, &["r"]).await;
    let commit = scene.bind().await;
    proxy.arm(b"COMMIT\0", Action::CutThenDeliver(Duration::from_millis(1_000)));
    let lost = scene.write(commit).await.unwrap();
    assert!(matches!(lost, Err(StoreError::OutcomeUnknown(_))), "{lost:?}");
    // Loading the lane waits for the write, and shows its outcome.
    assert_eq!(scene.bound_seen_by(&scene.store).await, 1);
}

/// A call that is dropped half-way leaves no transaction open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_commit_is_rolled_back_at_once() {
    let db = Database::shared().await;
    let (proxy, url) = db.proxied().await;
    let scene = Scene::on(db.open_at(&url, "a").await, &["r"]).await;
    let commit = scene.bind().await;
    let rule = proxy.arm(b"COMMIT\0", Action::HoldBefore);
    let write = scene.write(commit.clone());
    rule.wait_until_seen().await;
    write.abort();
    assert!(write.await.unwrap_err().is_cancelled());
    let other = db.open("b").await;
    take_over(&other, &scene.lane).await;
    assert_eq!(scene.bound_seen_by(&other).await, 0);
    rule.release();
    assert_eq!(scene.store.commit(&[commit]).await.unwrap().verdicts, [CommitVerdict::Fenced]);
}

/// COMMIT is sent before the writes before it are answered, and answers "ok" also when it rolls back. A write that
/// misses its row must turn it into a rollback.
///
/// proves N10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_that_misses_its_row_rolls_back_the_commit() {
    let db = Database::shared().await;
    let scene = Scene::on(db.open("a").await, &["r"]).await;
    let raw = db.raw().await;
    raw.batch_execute(
        "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER lose BEFORE UPDATE ON managed_tx FOR EACH ROW EXECUTE FUNCTION lose()",
    )
    .await
    .unwrap();
    let commit = scene.bind().await;
    let verdicts = scene.store.commit(std::slice::from_ref(&commit)).await.unwrap().verdicts;
    assert_eq!(verdicts, [CommitVerdict::Conflict(Conflict::Cursor)]);
    let left = "SELECT (SELECT count(*) FROM slot) + (SELECT count(*) FROM tx_attempt)
                + (SELECT count(*) FROM submitter_nonce_cursor)
                + (SELECT count(*) FROM tx_event WHERE kind <> 'accepted')";
    assert_eq!(raw.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
    raw.batch_execute("DROP TRIGGER lose ON managed_tx").await.unwrap();
    assert_eq!(scene.write(scene.bind().await).await.unwrap().unwrap().verdicts, [CommitVerdict::Done]);
}
