//! The schema and its versions.

use gapless_domain::Timestamp;
use gapless_store::{Migration, StoreError, pending};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

/// Every step since the first release. Steps are added, never changed.
pub(crate) const MIGRATIONS: [Migration; 1] =
    [Migration { version: 1, name: "ledger", sql: include_str!("../migrations/0001_ledger.sql") }];

const HISTORY: &str = "CREATE TABLE IF NOT EXISTS schema_migration (
    version    INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    checksum   INTEGER NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT";

/// What can be wrong with bringing a schema up to date.
#[derive(Debug)]
pub(crate) enum SchemaError {
    Sql(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for SchemaError {
    fn from(error: rusqlite::Error) -> Self {
        SchemaError::Sql(error)
    }
}

impl From<StoreError> for SchemaError {
    fn from(error: StoreError) -> Self {
        SchemaError::Store(error)
    }
}

/// Applies what is missing, each step in a transaction of its own, or says that something is.
pub(crate) fn bring_up_to_date(sql: &Connection, migrate: bool, now: Timestamp) -> Result<(), SchemaError> {
    let applied = applied(sql)?;
    let missing = pending(&MIGRATIONS, &applied)?.steps;
    if let (Some(newest), false) = (missing.last(), migrate) {
        let found = applied.last().map_or(0, |(version, _)| *version);
        return Err(StoreError::SchemaIsOlder { found, known: newest.version }.into());
    }
    for step in missing {
        let transaction = Transaction::new_unchecked(sql, TransactionBehavior::Immediate)?;
        sql.execute_batch(HISTORY)?;
        sql.execute_batch(step.sql)?;
        sql.execute(
            "INSERT INTO schema_migration (version, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)",
            (step.version, step.name, step.checksum(), now.as_micros()),
        )?;
        transaction.commit()?;
    }
    Ok(())
}

fn applied(sql: &Connection) -> Result<Vec<(i64, i64)>, SchemaError> {
    if !has_table(sql, "schema_migration")? {
        // An empty file is a new database. One with tables that we have not made is somebody else's.
        let strange: Option<String> =
            sql.query_one("SELECT name FROM sqlite_schema LIMIT 1", [], |row| row.get(0)).optional()?;
        return match strange {
            None => Ok(Vec::new()),
            Some(table) => {
                Err(StoreError::Setup(format!("the file is another program's database (it has {table})")).into())
            }
        };
    }
    let mut statement = sql.prepare("SELECT version, checksum FROM schema_migration ORDER BY version")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn has_table(sql: &Connection, name: &str) -> Result<bool, rusqlite::Error> {
    sql.query_one("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)", [name], |row| {
        row.get(0)
    })
}
