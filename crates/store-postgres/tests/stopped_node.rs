//! Nodes that stop at the worst moment.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::time::{Duration, Instant};

use gapless_store::{CommitVerdict, Store, StoreError};
use support::proxy::Action;
use support::{Database, Scene, TERMS, take_over};

/// The node stops between its two flights: its transaction is open, and holds the lease row. To the server that looks the
/// same as a stopped process or a cut network.
///
/// proves O08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_inside_a_transaction_does_not_block_the_takeover() {
    let db = Database::shared().await;
    let (proxy, url) = db.proxied().await;
    let scene = Scene::on(db.open_at(&url, "stopped").await, &["r"]).await;
    let other = db.open("other").await;
    let commit = scene.bind().await;
    let rule = proxy.arm(b"COMMIT\0", Action::HoldBefore);
    let write = scene.write(commit);
    rule.wait_until_seen().await;
    let stopped_at = Instant::now();
    let taken = take_over(&other, &scene.lane).await;
    assert!(stopped_at.elapsed() < TERMS.duration + Duration::from_secs(5), "{:?}", stopped_at.elapsed());

    // It wakes up, and sends what it had in hand.
    rule.release();
    let late = write.await.unwrap();
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert_eq!(scene.bound_seen_by(&other).await, 0);
    let commit = gapless_domain::LaneCommit::new(&taken);
    assert_eq!(other.commit(&[commit]).await.unwrap().verdicts, [CommitVerdict::Done]);
}
