//! Databases of older schemas are migrated with their rows: the suite of `gapless-store-sql`, on PostgreSQL.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails by panicking and owns its names")]

mod support;

use std::sync::Arc;

use async_trait::async_trait;
use gapless_domain::OwnerId;
use gapless_store::conformance::fixtures as f;
use gapless_store::{Store, StoreError};
use gapless_store_postgres::{MIGRATIONS, PgOptions, PgStore};
use gapless_store_sql::Migration;
use gapless_store_sql::conformance::{ArchivedIntent, FixtureRow, FixtureValue, MigrationHarness};
use support::Database;
use uuid::Uuid;

gapless_store_sql::migration_suite!(OldDatabase::new().await);

struct OldDatabase {
    database: Database,
}

/// The table of the migrations, as the first release created it.
const MIGRATION_TABLE: &str = "CREATE TABLE schema_migration (
    version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum BIGINT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp());";

/// The epoch of a database that has lost no commits, on a server that does not tell its identity.
const FIRST_EPOCH: &str =
    "INSERT INTO store_epoch (epoch, why, reconciled_at) VALUES (1, 'first start', clock_timestamp());";

impl OldDatabase {
    async fn new() -> Self {
        OldDatabase { database: Database::shared().await }
    }

    async fn run(&self, sql: &str) {
        self.database.raw().await.batch_execute(sql).await.unwrap();
    }
}

#[async_trait]
impl MigrationHarness for OldDatabase {
    fn migrations(&self) -> &'static [Migration] {
        MIGRATIONS
    }

    async fn create_at(&self, version: i64) {
        let mut sql = MIGRATION_TABLE.to_owned();
        for step in MIGRATIONS.iter().filter(|step| step.version <= version) {
            sql.push_str(step.sql);
            let row = FixtureRow::new("schema_migration")
                .with("version", step.version)
                .with("name", step.name)
                .with("checksum", step.checksum());
            sql.push_str(&row.insert_sql(literal));
        }
        sql.push_str(FIRST_EPOCH);
        self.run(&sql).await;
    }

    async fn insert(&self, rows: &[FixtureRow]) {
        let mut sql: String = rows.iter().map(|row| adapted(row).insert_sql(literal)).collect();
        sql.push_str("SELECT setval('managed_tx_seq', (SELECT coalesce(max(seq), 0) + 1 FROM managed_tx), false)");
        self.run(&sql).await;
    }

    async fn insert_archived(&self, archived: &ArchivedIntent) {
        let at = archived.intent.get("updated_at").unwrap().clone();
        let intent = FixtureRow { table: "archived_tx", ..adapted(&archived.intent) }.with("archived_at", at);
        let mut sql = intent.insert_sql(literal);
        for (table, rows) in [("archived_attempt", &archived.attempts), ("archived_event", &archived.events)] {
            for row in rows {
                sql.push_str(&FixtureRow { table, ..row.clone() }.insert_sql(literal));
            }
        }
        self.run(&sql).await;
    }

    async fn open(&self, migrate: bool) -> Result<Arc<dyn Store>, StoreError> {
        let options = PgOptions { migrate, ..self.database.options.clone() };
        let owner = OwnerId::new("migrating", Uuid::new_v4().as_u128());
        Ok(Arc::new(PgStore::open(&self.database.url, owner, options).await?))
    }

    async fn integer(&self, sql: &str) -> Option<i64> {
        self.database.raw().await.query_one(sql, &[]).await.unwrap().get(0)
    }

    async fn pass_a_moment(&self) {
        f::pause().await;
    }
}

/// The row with the columns that only PostgreSQL has.
fn adapted(row: &FixtureRow) -> FixtureRow {
    let row = row.clone();
    match row.table {
        "submitter" | "submitter_nonce_cursor" => row.with("epoch", 1_i64),
        "managed_tx" if matches!(row.text("state"), Some("CONFIRMED" | "FAILED_FINAL" | "CANCELED")) => {
            let at = row.get("updated_at").unwrap().clone();
            row.with("ended_at", at)
        }
        _ => row,
    }
}

fn literal(value: &FixtureValue) -> String {
    match value {
        FixtureValue::Integer(value) => value.to_string(),
        FixtureValue::Text(text) => FixtureValue::quoted(text),
        FixtureValue::Bytes(bytes) => format!("'\\x{}'", FixtureValue::hex(bytes)),
        FixtureValue::Flag(flag) => flag.to_string(),
        FixtureValue::Time(time) => {
            format!("timestamptz 'epoch' + {} * interval '1 microsecond'", time.as_micros())
        }
    }
}
