//! The audit log. An entry is written in the transaction of the act that it records.

use gapless_domain::AuditEntry;
use gapless_store::{AuditFilter, AuditRow};
use gapless_store_sql::{AUDIT_LOG, AUDIT_LOG_OF_SUBJECT, AuditEntryRow, signed};
use rusqlite::Row;

use crate::error::Failure;
use crate::ledger::{Reading, Writing};
use crate::rows;
use crate::statement::statement;

statement! {
    struct AuditInsert<'a> { at: i64, subject: &'a str, actor: &'a str, action: &'a str, detail: &'a str } =
        "INSERT INTO audit_log ({columns}) VALUES ({values})";
}

pub(crate) fn write(writing: &Writing<'_>, row: &AuditRow) -> Result<(), Failure> {
    let insert = AuditInsert {
        at: writing.now.as_micros(),
        subject: &row.subject,
        actor: row.actor.as_str(),
        action: row.action,
        detail: row.detail.as_str(),
    };
    insert.execute(writing.sql)?;
    Ok(())
}

pub(crate) fn log(reading: &Reading<'_>, filter: &AuditFilter) -> Result<Vec<AuditEntry>, Failure> {
    let before = filter.before.map_or(i64::MAX, signed);
    match &filter.subject {
        Some(subject) => {
            rows::all(reading.sql.prepare_cached(AUDIT_LOG_OF_SUBJECT)?, (subject, before, filter.limit), entry)
        }
        None => rows::all(reading.sql.prepare_cached(AUDIT_LOG)?, (before, filter.limit), entry),
    }
}

fn entry(row: &Row<'_>) -> Result<AuditEntry, Failure> {
    let columns = AuditEntryRow {
        id: row.get(0)?,
        at: rows::time(row, 1)?,
        subject: row.get(2)?,
        actor: rows::text(row, 3)?,
        action: row.get(4)?,
        detail: rows::text(row, 5)?,
    };
    Ok(AuditEntry::try_from(columns)?)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::schema::MIGRATIONS;

    /// PostgreSQL shares the statement, so it cannot name an index of SQLite.
    #[test]
    fn audit_log_of_a_subject_walks_its_index() {
        let sql = Connection::open_in_memory().unwrap();
        for step in MIGRATIONS {
            sql.execute_batch(step.sql).unwrap();
        }
        let mut statement = sql.prepare(&format!("EXPLAIN QUERY PLAN {AUDIT_LOG_OF_SUBJECT}")).unwrap();
        let plan: Vec<String> =
            statement.query_map(("s", 9, 10), |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        assert_eq!(plan, ["SEARCH audit_log USING INDEX audit_log_subject (subject=? AND id<?)"]);
    }
}
