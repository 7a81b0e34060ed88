//! Databases of older schemas are migrated with their rows: the suite of `gapless-store-sql`, on files.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail like the test itself")]

mod support;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{OwnerId, Timestamp, keccak256};
use gapless_store::{ManualClock, Store, StoreError};
use gapless_store_sql::Migration;
use gapless_store_sql::conformance::{ArchivedIntent, FixtureRow, FixtureValue, MigrationHarness};
use gapless_store_sqlite::{Location, MIGRATIONS, SqliteOptions, SqliteStore};
use rusqlite::Connection;
use support::{Folder, options};

gapless_store_sql::migration_suite!(OldDatabase::new());

struct OldDatabase {
    folder: Folder,
    clock: Arc<ManualClock>,
    /// The commits that the events of the fixture stand for.
    commits: AtomicI64,
}

/// The table of the migrations, as the first release created it.
const MIGRATION_TABLE: &str = "CREATE TABLE schema_migration (
    version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum INTEGER NOT NULL, applied_at INTEGER NOT NULL) STRICT;";

impl OldDatabase {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(1_700_000_000_000_000)));
        OldDatabase { folder: Folder::new(), clock, commits: AtomicI64::new(0) }
    }

    fn run(&self, sql: &str) {
        Connection::open(self.folder.database()).unwrap().execute_batch(sql).unwrap();
    }

    /// The row with the columns of SQLite.
    fn adapted(&self, row: &FixtureRow) -> FixtureRow {
        let mut row = row.clone();
        match row.table {
            "submitter" | "submitter_nonce_cursor" => row.with("epoch", 0_i64),
            "tx_event" => {
                let commit = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
                row.with("commit_no", commit).with("idx", 0_i64)
            }
            "chain_head" => {
                for (name, _) in &mut row.columns {
                    *name = match *name {
                        "number" => "latest_number",
                        "hash" => "latest_hash",
                        other => other,
                    };
                }
                row
            }
            _ => row,
        }
    }

    /// Writes the sidecar of a database that was closed in order. Without a sidecar, the file would count as restored.
    fn write_sidecar(&self) {
        let sql = Connection::open(self.folder.database()).unwrap();
        let (id, writes): ([u8; 16], i64) =
            sql.query_one("SELECT database_id, writes FROM canary", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let count = writes.to_be_bytes();
        let mut record = [b"GAPLESS1".as_slice(), &id, &count, &count].concat();
        record.extend_from_slice(&keccak256(&record)[..8]);
        fs::write(self.folder.sidecar(), record).unwrap();
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
                .with("checksum", step.checksum())
                .with("applied_at", 0_i64);
            sql.push_str(&row.insert_sql(literal));
        }
        self.run(&sql);
    }

    async fn insert(&self, rows: &[FixtureRow]) {
        let mut sql: String = rows.iter().map(|row| self.adapted(row).insert_sql(literal)).collect();
        sql.push_str(
            "UPDATE canary SET tx_seq = (SELECT coalesce(max(seq), 0) FROM managed_tx),
                 writes = (SELECT coalesce(max(commit_no), 0) FROM tx_event);",
        );
        self.run(&sql);
    }

    async fn insert_archived(&self, archived: &ArchivedIntent) {
        let list = |rows: &[FixtureRow]| {
            let documents: Vec<String> = rows.iter().map(|row| document(&self.adapted(row))).collect();
            format!("json_array({})", documents.join(", "))
        };
        let row = &archived.intent;
        let text = |column| FixtureValue::quoted(row.text(column).unwrap());
        self.run(&format!(
            "INSERT INTO archived_tx (tx_id, submitter, request_id, archived_at, doc) VALUES ({}, {}, {}, 0,
                 json_object('tx', {}, 'attempts', {}, 'events', {}))",
            text("tx_id"),
            text("submitter"),
            text("request_id"),
            document(row),
            list(&archived.attempts),
            list(&archived.events),
        ));
    }

    async fn open(&self, migrate: bool) -> Result<Arc<dyn Store>, StoreError> {
        if !self.folder.sidecar().exists() {
            self.write_sidecar();
        }
        let options = SqliteOptions { migrate, clock: Arc::clone(&self.clock) as _, ..options() };
        let location = Location::File(self.folder.database());
        Ok(Arc::new(SqliteStore::open(location, OwnerId::new("migrating", 1), options)?))
    }

    async fn integer(&self, sql: &str) -> Option<i64> {
        Connection::open(self.folder.database()).unwrap().query_one(sql, [], |row| row.get(0)).unwrap()
    }

    async fn pass_a_moment(&self) {
        self.clock.advance(Duration::from_secs(1));
    }
}

/// The row as a part of the document of an archived intent: blobs are hex.
fn document(row: &FixtureRow) -> String {
    let fields: Vec<String> = row
        .columns
        .iter()
        .map(|(name, value)| {
            let value = match value {
                FixtureValue::Bytes(bytes) => FixtureValue::quoted(&FixtureValue::hex(bytes)),
                other => literal(other),
            };
            format!("'{name}', {value}")
        })
        .collect();
    format!("json_object({})", fields.join(", "))
}

fn literal(value: &FixtureValue) -> String {
    match value {
        FixtureValue::Integer(value) => value.to_string(),
        FixtureValue::Text(text) => FixtureValue::quoted(text),
        FixtureValue::Bytes(bytes) => format!("x'{}'", FixtureValue::hex(bytes)),
        FixtureValue::Flag(flag) => i64::from(*flag).to_string(),
        FixtureValue::Time(time) => time.as_micros().to_string(),
    }
}
