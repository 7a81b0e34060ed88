//! A client that counts its statements.

use std::ops::Deref;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, ToStatement};

type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The methods here shadow those of the client. As with the client, a statement is sent when its future is polled.
#[derive(Debug)]
pub(crate) struct Counted(Client);

impl Counted {
    pub(crate) fn new(client: Client) -> Self {
        Counted(client)
    }

    pub(crate) async fn query(
        &self,
        statement: &(impl ?Sized + ToStatement),
        params: Params<'_>,
    ) -> Result<Vec<Row>, Error> {
        count();
        self.0.query(statement, params).await
    }

    pub(crate) async fn query_one(
        &self,
        statement: &(impl ?Sized + ToStatement),
        params: Params<'_>,
    ) -> Result<Row, Error> {
        count();
        self.0.query_one(statement, params).await
    }

    pub(crate) async fn query_opt(
        &self,
        statement: &(impl ?Sized + ToStatement),
        params: Params<'_>,
    ) -> Result<Option<Row>, Error> {
        count();
        self.0.query_opt(statement, params).await
    }

    pub(crate) async fn execute(
        &self,
        statement: &(impl ?Sized + ToStatement),
        params: Params<'_>,
    ) -> Result<u64, Error> {
        count();
        self.0.execute(statement, params).await
    }

    /// BEGIN and COMMIT count as statements.
    pub(crate) async fn batch_execute(&self, sql: &str) -> Result<(), Error> {
        count();
        self.0.batch_execute(sql).await
    }
}

impl Deref for Counted {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

fn count() {
    metrics::counter!("gapless_store_statements_total").increment(1);
}
