//! The database under test, and rows of older schemas.

use std::sync::Arc;

use async_trait::async_trait;
use gapless_domain::{B256, Timestamp, TxId};
use gapless_store::{Store, StoreError};

use crate::Migration;

/// One database that is created with an older schema, filled with rows, and migrated.
#[async_trait]
pub trait MigrationHarness: Send + Sync {
    /// The migrations that the store knows.
    fn migrations(&self) -> &'static [Migration];

    /// Creates the database, empty, with the migrations up to `version` and no later one.
    async fn create_at(&self, version: i64);

    /// Writes rows with plain SQL, past the store.
    async fn insert(&self, rows: &[FixtureRow]);

    /// Writes an intent as retention has moved it out, with plain SQL.
    async fn insert_archived(&self, intent: &ArchivedIntent);

    /// Opens the store for a new process, with or without leave to migrate. The caller drops it before it opens another
    /// one.
    async fn open(&self, migrate: bool) -> Result<Arc<dyn Store>, StoreError>;

    /// The first column of the only row of an answer. The store is closed meanwhile.
    async fn integer(&self, sql: &str) -> Option<i64>;

    /// Lets the clock of the database go on a little. A database with a real clock waits.
    async fn pass_a_moment(&self);
}

/// A row with the names of the columns that both databases have.
///
/// The harness adds the columns that only its database has: the position of an event, the time at which an intent
/// ended, the epoch of a lane. It also turns each value into a literal of its database.
#[derive(Clone, Debug)]
pub struct FixtureRow {
    pub table: &'static str,
    pub columns: Vec<(&'static str, FixtureValue)>,
}

/// An intent that has ended, with its attempts and its events. The request key is a row of its own.
#[derive(Clone, Debug)]
pub struct ArchivedIntent {
    pub intent: FixtureRow,
    pub attempts: Vec<FixtureRow>,
    pub events: Vec<FixtureRow>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FixtureValue {
    Integer(i64),
    /// Text, or JSON.
    Text(String),
    Bytes(Vec<u8>),
    Flag(bool),
    Time(Timestamp),
}

impl FixtureRow {
    pub fn new(table: &'static str) -> Self {
        FixtureRow { table, columns: Vec::new() }
    }

    #[must_use]
    pub fn with(mut self, column: &'static str, value: impl Into<FixtureValue>) -> Self {
        self.columns.push((column, value.into()));
        self
    }

    #[must_use]
    pub fn with_some(self, column: &'static str, value: Option<impl Into<FixtureValue>>) -> Self {
        match value {
            Some(value) => self.with(column, value),
            None => self,
        }
    }

    pub fn get(&self, column: &str) -> Option<&FixtureValue> {
        self.columns.iter().find(|(name, _)| *name == column).map(|(_, value)| value)
    }

    /// The text of a column, for columns that hold text.
    pub fn text(&self, column: &str) -> Option<&str> {
        match self.get(column) {
            Some(FixtureValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The statement that inserts the row.
    pub fn insert_sql(&self, literal: impl Fn(&FixtureValue) -> String) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let values: Vec<String> = self.columns.iter().map(|(_, value)| literal(value)).collect();
        format!("INSERT INTO {} ({}) VALUES ({});\n", self.table, names.join(", "), values.join(", "))
    }
}

impl FixtureValue {
    /// Text as a literal of SQL.
    pub fn quoted(text: &str) -> String {
        format!("'{}'", text.replace('\'', "''"))
    }

    pub fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl From<i64> for FixtureValue {
    fn from(value: i64) -> Self {
        FixtureValue::Integer(value)
    }
}

impl From<&str> for FixtureValue {
    fn from(text: &str) -> Self {
        FixtureValue::Text(text.to_owned())
    }
}

impl From<String> for FixtureValue {
    fn from(text: String) -> Self {
        FixtureValue::Text(text)
    }
}

impl From<TxId> for FixtureValue {
    fn from(id: TxId) -> Self {
        FixtureValue::Text(id.to_string())
    }
}

impl From<B256> for FixtureValue {
    fn from(hash: B256) -> Self {
        FixtureValue::Bytes(hash.to_vec())
    }
}

impl From<Vec<u8>> for FixtureValue {
    fn from(bytes: Vec<u8>) -> Self {
        FixtureValue::Bytes(bytes)
    }
}

impl From<bool> for FixtureValue {
    fn from(flag: bool) -> Self {
        FixtureValue::Flag(flag)
    }
}

impl From<Timestamp> for FixtureValue {
    fn from(time: Timestamp) -> Self {
        FixtureValue::Time(time)
    }
}
