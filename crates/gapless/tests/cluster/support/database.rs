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

    /// A connection that knows nothing of Gapless.
    pub(crate) async fn raw(&self) -> Client {
        connect(&self.url).await
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
