//! Databases for the tests of this crate.

#![allow(dead_code, reason = "each test binary uses its own part of this")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "test support fails by panicking, and waits in real time"
)]

pub(crate) mod proxy;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{LaneCommit, Lease, LeaseTerms, OwnerId, SubmitterId};
use gapless_store::conformance::{Harness, fixtures as f};
use gapless_store::{Acquired, Committed, Lanes, Leases, Store, StoreError};
use gapless_store_postgres::{PgOptions, PgStore};
use gapless_testbed::Postgres;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use proxy::Proxy;

/// Long enough that a slow machine loses no lease by accident, short enough to wait for.
pub(crate) const TERMS: LeaseTerms = LeaseTerms {
    duration: Duration::from_millis(1500),
    renew_interval: Duration::from_millis(400),
    clock_skew: Duration::from_millis(300),
};

/// One fresh database on a server.
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) options: PgOptions,
}

impl Database {
    /// A database on the server that `cargo xtask test` has started for all tests.
    pub(crate) async fn shared() -> Self {
        Self::on(&Postgres::shared_url().unwrap()).await
    }

    pub(crate) async fn on(base_url: &str) -> Self {
        let name = format!("t_{}", Uuid::new_v4().simple());
        let admin = connect(&format!("{base_url}/postgres")).await;
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let options = PgOptions { lease: TERMS, pool_size: 4, ..PgOptions::default() };
        Database { url: format!("{base_url}/{name}"), options }
    }

    pub(crate) async fn open(&self, name: &str) -> Arc<PgStore> {
        self.open_at(&self.url, name).await
    }

    /// Opens the database by another URL, through a proxy for example.
    pub(crate) async fn open_at(&self, url: &str, name: &str) -> Arc<PgStore> {
        let owner = OwnerId::new(name, Uuid::new_v4().as_u128());
        Arc::new(PgStore::open(url, owner, self.options.clone()).await.unwrap())
    }

    /// A proxy for this database, and the URL of the database through it.
    pub(crate) async fn proxied(&self) -> (Proxy, String) {
        let config: tokio_postgres::Config = self.url.parse().unwrap();
        let port = config.get_ports()[0];
        let proxy = Proxy::before(SocketAddr::from(([127, 0, 0, 1], port))).await;
        let url = self.url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port));
        (proxy, url)
    }

    /// A connection that knows nothing of Gapless.
    pub(crate) async fn raw(&self) -> Client {
        connect(&self.url).await
    }
}

/// One store with one lane and its queued intents: the start of most tests.
pub(crate) struct Scene {
    pub(crate) store: Arc<PgStore>,
    pub(crate) lane: SubmitterId,
}

impl Scene {
    pub(crate) async fn on(store: Arc<PgStore>, requests: &[&str]) -> Self {
        let lane = f::submitter(1);
        let node: f::Node = Arc::clone(&store) as f::Node;
        f::register(&node, std::slice::from_ref(&lane)).await;
        f::accept(&node, &lane, requests).await;
        // Prepares the statements of a commit before the test counts on timing.
        store.commit(&[]).await.unwrap();
        Scene { store, lane }
    }

    /// A commit that binds the first intent of the queue, under a fresh lease.
    pub(crate) async fn bind(&self) -> LaneCommit {
        let node: f::Node = Arc::clone(&self.store) as f::Node;
        let lease = f::acquire(&node, &self.lane).await;
        let view = f::view(&node, &self.lane).await;
        let mut commit = LaneCommit::new(&lease);
        commit.bind(&view.cursor, &view.queue[0], view.next_attempt()).unwrap();
        commit
    }

    pub(crate) fn write(&self, commit: LaneCommit) -> JoinHandle<Result<Committed, StoreError>> {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move { store.commit(&[commit]).await })
    }

    /// The number of bound nonces that `node` loads under a lease of its own.
    pub(crate) async fn bound_seen_by(&self, node: &Arc<PgStore>) -> usize {
        f::view(&(Arc::clone(node) as f::Node), &self.lane).await.lane.slots.len()
    }
}

/// Acquires the lane; tries again until it is free.
pub(crate) async fn take_over(store: &PgStore, lane: &SubmitterId) -> Lease {
    for _ in 0..200 {
        match store.acquire(std::slice::from_ref(lane)).await.unwrap().remove(0) {
            Acquired::Held(lease) => return lease,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    panic!("the lane was never free");
}

#[async_trait]
impl Harness for Database {
    async fn node(&self, name: &str) -> Arc<dyn Store> {
        self.open(name).await
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    async fn jump_back(&self, span: Duration) {
        let update = "UPDATE tx_event SET at = at + $1::float8 * interval '1 second'";
        self.raw().await.execute(update, &[&span.as_secs_f64()]).await.unwrap();
    }

    fn terms(&self) -> LeaseTerms {
        TERMS
    }
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
