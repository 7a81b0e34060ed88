//! Nodes and servers that stop answering, and leases of a wrong clock.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::time::{Duration, Instant};

use gapless_domain::OwnerId;
use gapless_store::conformance::fixtures as f;
use gapless_store::{Acquired, CommitVerdict, Lanes, Leases, Renewal, StoreError};
use gapless_store_postgres::{PgOptions, PgStore};
use support::proxy::Action;
use support::{Database, Scene, TERMS, take_over};

/// The node stops between its two flights: its transaction is open, and holds the lease row. The server sees the same
/// after a stopped process or a cut network.
///
/// proves O08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_stopped_in_a_transaction_does_not_block_takeover() {
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

    // The node goes on, and sends the rest of its commit.
    rule.release();
    let late = write.await.unwrap();
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert_eq!(scene.bound_seen_by(&other).await, 0);
    let commit = gapless_domain::LaneCommit::new(&taken);
    assert_eq!(other.commit(&[commit]).await.unwrap().verdicts, [CommitVerdict::Done]);
}

/// A server whose clock was ahead granted a lease far into the future, and a server with the right time replaced it.
/// Such a lease counts as expired, for its owner too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_from_the_future_counts_as_expired() {
    let db = Database::shared().await;
    let scene = Scene::on(db.open("a").await, &["r"]).await;
    let commit = scene.bind().await;
    let far = "UPDATE submitter_lease SET expires_at = clock_timestamp() + interval '1 hour'";
    db.raw().await.execute(far, &[]).await.unwrap();
    assert_eq!(scene.store.renew().await.unwrap(), Renewal::default());
    assert_eq!(scene.store.commit(std::slice::from_ref(&commit)).await.unwrap().verdicts, [CommitVerdict::Fenced]);
    let other = db.open("b").await;
    let taken = other.acquire(std::slice::from_ref(&scene.lane)).await.unwrap().remove(0);
    assert!(matches!(taken, Acquired::Held(lease) if lease.token() > commit.lease().token()));
}

/// Another session holds the row of one lease: the other leases are renewed at once.
///
/// proves N27
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewal_does_not_wait_for_a_locked_lease() {
    let mut db = Database::shared().await;
    db.options.lock_timeout = Duration::from_secs(30);
    let store = db.open("a").await;
    let lanes = [f::submitter(1), f::submitter(2)];
    store.acquire(&lanes).await.unwrap();
    let raw = db.raw().await;
    let lock = "SELECT FROM submitter_lease WHERE submitter = $1 FOR UPDATE";
    raw.batch_execute("BEGIN; SELECT FROM node FOR UPDATE").await.unwrap();
    raw.query(lock, &[&lanes[0].as_str()]).await.unwrap();
    let renewal = f::soon("the renewal", store.renew()).await.unwrap();
    assert_eq!(renewal.extended.iter().map(|lease| lease.submitter()).collect::<Vec<_>>(), [&lanes[1]]);
    assert_eq!(renewal.busy.iter().map(|lease| lease.submitter()).collect::<Vec<_>>(), [&lanes[0]]);
}

/// A server that accepts connections and does not answer counts as unavailable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_server_is_unavailable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://gapless@{}/none", listener.local_addr().unwrap());
    let options = PgOptions { connect_timeout: Duration::from_millis(300), ..PgOptions::default() };
    let opened = f::soon("the connect time-out", PgStore::open(&url, OwnerId::new("a", 1), options)).await;
    assert!(matches!(opened, Err(StoreError::Unavailable(_))), "{opened:?}");
}
