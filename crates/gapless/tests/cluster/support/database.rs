//! A PostgreSQL database, and access to its rows.

use gapless_testbed::{Options, Postgres};
use tokio_postgres::{Client, NoTls};

use super::unique;

/// A new database.
#[derive(Debug)]
pub(crate) struct TestDatabase {
    pub(crate) url: String,
    /// The server, if it belongs to this test.
    pub(crate) server: Option<Postgres>,
}

impl TestDatabase {
    /// A database on the server that all tests share.
    pub(crate) async fn shared() -> Self {
        Self::on(&Postgres::shared_url().unwrap(), None).await
    }

    /// A database on its own server, which the test may stop.
    pub(crate) async fn private() -> Self {
        let server = Postgres::start(Options::default()).unwrap();
        Self::on(&server.base_url(), Some(server)).await
    }

    async fn on(base_url: &str, server: Option<Postgres>) -> Self {
        let name = format!("cluster_{}", unique());
        connect(&format!("{base_url}/postgres")).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        TestDatabase { url: format!("{base_url}/{name}"), server }
    }

    /// The port of its server.
    pub(crate) fn port(&self) -> u16 {
        let (_, rest) = self.url.split_once("127.0.0.1:").unwrap();
        rest.split('/').next().unwrap().parse().unwrap()
    }

    /// A plain PostgreSQL connection.
    pub(crate) async fn raw(&self) -> Client {
        connect(&self.url).await
    }

    /// The time of the database's clock.
    pub(crate) async fn now(&self) -> String {
        self.raw().await.query_one("SELECT clock_timestamp()::text", &[]).await.unwrap().get(0)
    }

    /// Asserts that no row was written with `token` after `since`. Every row has the token and the time of its last
    /// write.
    pub(crate) async fn assert_nothing_written_since(&self, token: u64, since: &str) {
        let tables = [("managed_tx", "updated_at"), ("submitter_nonce_cursor", "updated_at"), ("slot", "bound_at")];
        for (table, at) in tables.into_iter().chain([("tx_attempt", "created_at"), ("tx_attempt", "last_sent_at")]) {
            let query = format!("SELECT count(*) FROM {table} WHERE fencing_token = {token} AND {at} > '{since}'");
            assert_eq!(self.count(&query).await, 0, "{table} was written with an old fencing token");
        }
    }

    /// The number that a query returns.
    pub(crate) async fn count(&self, query: &str) -> i64 {
        self.raw().await.query_one(query, &[]).await.unwrap().get(0)
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
