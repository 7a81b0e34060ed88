//! The schema and its versions.

use gapless_domain::Timestamp;
use gapless_store::StoreError;
use gapless_store_sql::{MIGRATIONS_APPLIED, Migration, missing_migrations};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

/// All steps since the first release. A step is added, never changed. A step has the number of the same step in
/// PostgreSQL; PostgreSQL has some that SQLite does not need.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "ledger", sql: include_str!("../migrations/0001_ledger.sql") },
    Migration { version: 2, name: "open_cursors", sql: include_str!("../migrations/0002_open_cursors.sql") },
    Migration { version: 3, name: "confirmations", sql: include_str!("../migrations/0003_confirmations.sql") },
    Migration { version: 4, name: "reconciling", sql: include_str!("../migrations/0004_reconciling.sql") },
    Migration { version: 5, name: "floors", sql: include_str!("../migrations/0005_floors.sql") },
    Migration { version: 7, name: "control", sql: include_str!("../migrations/0007_control.sql") },
    Migration { version: 10, name: "retention", sql: include_str!("../migrations/0010_retention.sql") },
];

const MIGRATION_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_migration (
    version    INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    checksum   INTEGER NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT";

/// Why the schema could not be brought up to date.
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

/// Applies the missing migrations, each in a transaction of its own. Without leave to migrate, a missing one is an
/// error.
pub(crate) fn bring_up_to_date(sql: &Connection, migrate: bool, now: Timestamp) -> Result<(), SchemaError> {
    for step in missing_migrations(MIGRATIONS, &applied(sql)?, migrate)? {
        let transaction = Transaction::new_unchecked(sql, TransactionBehavior::Immediate)?;
        sql.execute_batch(MIGRATION_TABLE)?;
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
        // A file without tables is a new database. One with other tables belongs to another program.
        let foreign: Option<String> =
            sql.query_one("SELECT name FROM sqlite_schema LIMIT 1", [], |row| row.get(0)).optional()?;
        return match foreign {
            None => Ok(Vec::new()),
            Some(table) => {
                Err(StoreError::Setup(format!("the file is a database of another program (it has {table})")).into())
            }
        };
    }
    let mut statement = sql.prepare(MIGRATIONS_APPLIED)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn has_table(sql: &Connection, name: &str) -> Result<bool, rusqlite::Error> {
    sql.query_one("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)", [name], |row| {
        row.get(0)
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::ErrorCode;

    use super::*;

    fn database() -> Connection {
        let sql = Connection::open_in_memory().unwrap();
        bring_up_to_date(&sql, true, Timestamp::EPOCH).unwrap();
        sql.execute_batch(
            "INSERT INTO submitter VALUES ('s', NULL, 0, 0);
             INSERT INTO request_key VALUES ('s', 'r', zeroblob(32), '018f0000-0000-7000-8000-000000000001', NULL);
             INSERT INTO managed_tx (tx_id, seq, submitter, request_id, payload, speed, state, detail, version,
                 created_at, updated_at)
             VALUES ('018f0000-0000-7000-8000-000000000001', 1, 's', 'r', '{}', 'fast', 'QUEUED', '{}', 1, 0, 0);
             INSERT INTO slot (submitter, nonce, kind, bound_at) VALUES ('s', 0, 'fill', 0);
             INSERT INTO tx_attempt (submitter, nonce, ordinal, kind, hash, raw, fees, created_at)
             VALUES ('s', 0, 0, 'fill', zeroblob(32), x'01', '{}', 0);
             INSERT INTO submitter_nonce_cursor VALUES ('s', 1, 0, 0, 0, 'IDLE', NULL, NULL, 0, 1, 0, 0, 1, 0, 0);
             INSERT INTO lane_command (submitter, kind, body, issued_by, issued_at)
             VALUES ('s', 'pause', '{}', 'me', 0);
             INSERT INTO submitter_nonce_allocation VALUES ('s', 0, 'RECYCLABLE', NULL, NULL, NULL, 1);
             INSERT INTO tx_event (commit_no, idx, submitter, tx_id, seq, kind, state, detail, at)
             VALUES (1, 1, 's', '018f0000-0000-7000-8000-000000000001', 1, 'accepted', 'QUEUED', '{}', 0);
             INSERT INTO tx_event (commit_no, idx, submitter, seq, kind, text, at)
             VALUES (1, 2, 's', 1, 'paused', '', 0);
             INSERT INTO chain_head (chain, latest_number, latest_hash, parent_hash, updated_at)
             VALUES ('c', 7, zeroblob(32), zeroblob(32), 0);",
        )
        .unwrap();
        sql
    }

    /// The tables refuse rows that the domain crate never makes.
    ///
    /// proves N08
    #[test]
    fn tables_refuse_rows_that_break_an_invariant() {
        let sql = database();
        for refused in [
            "INSERT INTO slot (submitter, nonce, kind, bound_at) VALUES ('s', 0, 'fill', 0)",
            "INSERT INTO slot (submitter, nonce, kind, bound_at) VALUES ('s', -1, 'fill', 0)",
            "INSERT INTO slot (submitter, nonce, kind, bound_at) VALUES ('s', 1, 'intent', 0)",
            "INSERT INTO slot (submitter, nonce, kind, bound_at) VALUES ('s', 1, 'gift', 0)",
            "UPDATE slot SET above_block = -1",
            "UPDATE slot SET above_hash = zeroblob(32)",
            "UPDATE slot SET above_block = 1, above_hash = zeroblob(31)",
            "UPDATE slot SET evidence = 'not foreign'",
            "UPDATE slot SET tries = -1",
            "UPDATE slot SET tries = NULL",
            "UPDATE slot SET tries = 65536",
            "UPDATE slot SET signal = 'lost'",
            "DELETE FROM slot",
            "UPDATE managed_tx SET state = 'LOST'",
            "UPDATE managed_tx SET nonce = 0",
            "UPDATE managed_tx SET sub_state = 'PENDING'",
            "UPDATE managed_tx SET state = 'TRACKING', nonce = 0",
            "UPDATE managed_tx SET state = 'TRACKING', sub_state = 'PENDING'",
            "UPDATE managed_tx SET state = 'CONFIRMED'",
            "UPDATE managed_tx SET state = 'CONFIRMED', nonce = 0, sub_state = 'MINED'",
            "UPDATE managed_tx SET version = 0",
            "UPDATE managed_tx SET payload = 'no json'",
            "UPDATE managed_tx SET replacement = 'no json'",
            "UPDATE managed_tx SET metadata = '{'",
            "UPDATE managed_tx SET seq = 'first'",
            "DELETE FROM request_key",
            "INSERT INTO tx_attempt (submitter, nonce, ordinal, kind, hash, raw, fees, created_at)
             VALUES ('s', 7, 0, 'fill', randomblob(32), x'01', '{}', 0)",
            "INSERT INTO tx_attempt (submitter, nonce, ordinal, kind, hash, raw, fees, created_at)
             VALUES ('s', 0, 1, 'fill', zeroblob(32), x'01', '{}', 0)",
            "UPDATE tx_attempt SET sends = 1",
            "UPDATE tx_attempt SET history = NULL",
            "UPDATE tx_attempt SET history = '['",
            "UPDATE tx_attempt SET history = '{}'",
            "UPDATE submitter_nonce_cursor SET state = 'PROTECT'",
            "UPDATE submitter_nonce_cursor SET protect_code = 'cannot_fill'",
            "UPDATE submitter_nonce_cursor SET next_nonce = -1",
            "UPDATE submitter_nonce_cursor SET open_nonce = -1",
            "UPDATE submitter_nonce_cursor SET open_nonce = 2",
            "UPDATE submitter_nonce_cursor SET low_balance = 2",
            "UPDATE lane_command SET refused = 1",
            "UPDATE lane_command SET refused = 2, done_at = 1, result = ''",
            "INSERT INTO audit_log (at, subject, actor, action) VALUES (0, 's', 'me', 'pause')",
            "UPDATE submitter SET epoch = -1",
            "UPDATE submitter_nonce_allocation SET status = 'RESERVED'",
            "UPDATE submitter_nonce_allocation SET status = 'RESERVED', lock_owner = 'me', locked_until = 0",
            "UPDATE submitter_nonce_allocation SET status = 'USED', lock_owner = 'me', locked_until = 0",
            "UPDATE submitter_nonce_allocation SET tx_id = '018f0000-0000-7000-8000-000000000001'",
            "UPDATE submitter_nonce_allocation SET lock_owner = 'me'",
            "INSERT INTO tx_event (commit_no, idx, submitter, tx_id, seq, kind, state, detail, at)
             VALUES (2, 1, 's', '018f0000-0000-7000-8000-000000000001', 1, 'bind', 'QUEUED', '{}', 0)",
            "INSERT INTO tx_event (commit_no, idx, submitter, seq, kind, text, at)
             VALUES (2, 1, 's', 1, 'paused', '', 0)",
            "UPDATE tx_event SET notice = '{}' WHERE tx_id IS NULL",
            "UPDATE tx_event SET notice = '{' WHERE tx_id IS NOT NULL",
            "UPDATE chain_head SET tail_first = 7",
            "UPDATE chain_head SET tail = zeroblob(64)",
            "UPDATE chain_head SET tail_first = 7, tail = zeroblob(32)",
            "UPDATE chain_head SET tail_first = 7, tail = zeroblob(65)",
            "UPDATE chain_head SET tail_first = -1, tail = zeroblob(64)",
            "UPDATE chain_head SET genesis = zeroblob(31)",
            "INSERT INTO submitter_lease VALUES ('s', 'me', 0, 0, 0)",
            "INSERT INTO canary VALUES (2, randomblob(16), 0, 0)",
        ] {
            let code = sql.execute(refused, []).err().and_then(|error| error.sqlite_error_code());
            assert_eq!(code, Some(ErrorCode::ConstraintViolation), "{refused}");
        }
        sql.execute("UPDATE managed_tx SET state = 'TRACKING', nonce = 0, sub_state = 'MINED', version = 2", [])
            .unwrap();
    }
}
