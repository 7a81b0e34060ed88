//! Databases for the tests of this crate.

#![allow(dead_code, reason = "each test binary uses its own part of this")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "test support: it fails by panicking, and owns its own time"
)]

pub(crate) mod proxy;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{LeaseTerms, OwnerId};
use gapless_store::Store;
use gapless_store::conformance::Harness;
use gapless_store_postgres::{PgOptions, PgStore};
use gapless_testbed::Postgres;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use proxy::Proxy;

/// Long enough that a slow machine does not lose one by accident, short enough to wait for.
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
    /// On the server that `cargo xtask test` has started for all tests.
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

    /// The same database by another way, through a proxy for example.
    pub(crate) async fn open_at(&self, url: &str, name: &str) -> Arc<PgStore> {
        let owner = OwnerId::new(name, Uuid::new_v4().as_u128());
        Arc::new(PgStore::open(url, owner, self.options.clone()).await.unwrap())
    }

    /// A proxy before this database, and the URL that leads through it.
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

#[async_trait]
impl Harness for Database {
    async fn node(&self, name: &str) -> Arc<dyn Store> {
        self.open(name).await
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
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
