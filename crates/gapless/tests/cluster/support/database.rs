//! PostgreSQL, and its rows as they are.

use gapless_testbed::{Options, Postgres};
use tokio_postgres::{Client, NoTls};

use super::unique;

/// One fresh database.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) url: String,
    /// If the server is this test's own.
    pub(crate) server: Option<Postgres>,
}

impl Database {
    /// On the server that all tests share.
    pub(crate) async fn shared() -> Self {
        Self::on(&Postgres::shared_url().unwrap(), None).await
    }

    /// On a server of its own, which may be stopped.
    pub(crate) async fn private() -> Self {
        let server = Postgres::start(Options::default()).unwrap();
        Self::on(&server.base_url(), Some(server)).await
    }

    async fn on(base_url: &str, server: Option<Postgres>) -> Self {
        let name = format!("cluster_{}", unique());
        connect(&format!("{base_url}/postgres")).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        Database { url: format!("{base_url}/{name}"), server }
    }

    /// Where its server listens.
    pub(crate) fn port(&self) -> u16 {
        let (_, rest) = self.url.split_once("127.0.0.1:").unwrap();
        rest.split('/').next().unwrap().parse().unwrap()
    }

    /// A connection that knows nothing of Gapless.
    pub(crate) async fn raw(&self) -> Client {
        connect(&self.url).await
    }

    /// By the database's own clock.
    pub(crate) async fn now(&self) -> String {
        self.raw().await.query_one("SELECT clock_timestamp()::text", &[]).await.unwrap().get(0)
    }

    /// Every row tells under which token it was last written, and when.
    pub(crate) async fn assert_nothing_written_since(&self, token: u64, since: &str) {
        let tables = [("managed_tx", "updated_at"), ("submitter_nonce_cursor", "updated_at"), ("slot", "bound_at")];
        for (table, at) in tables.into_iter().chain([("tx_attempt", "created_at"), ("tx_attempt", "last_sent_at")]) {
            let query = format!("SELECT count(*) FROM {table} WHERE fencing_token = {token} AND {at} > '{since}'");
            assert_eq!(self.count(&query).await, 0, "{table} was written under a token that is over");
        }
    }

    /// One number.
    pub(crate) async fn count(&self, query: &str) -> i64 {
        self.raw().await.query_one(query, &[]).await.unwrap().get(0)
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
