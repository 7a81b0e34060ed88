//! The audit log: written in the transaction of what it tells of.

use gapless_domain::{AuditEntry, CommandReport, NodeText};
use gapless_store::codec::{signed, unsigned};
use gapless_store::{AuditFilter, AuditRow};
use rusqlite::Row;

use crate::error::Failure;
use crate::ledger::{Reading, Writing};
use crate::rows;

pub(crate) fn write(writing: &Writing<'_>, row: &AuditRow) -> Result<(), Failure> {
    writing
        .sql
        .prepare_cached("INSERT INTO audit_log (at, subject, actor, action, detail) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute((
            writing.now.as_micros(),
            row.subject.as_str(),
            row.actor.as_str(),
            row.action,
            row.detail.as_str(),
        ))?;
    Ok(())
}

/// Two statements, so that each walks the index that fits and stops at the limit.
pub(crate) fn log(reading: &Reading<'_>, filter: &AuditFilter) -> Result<Vec<AuditEntry>, Failure> {
    let before = filter.before.map_or(i64::MAX, signed);
    match &filter.subject {
        Some(subject) => {
            let statement = reading.sql.prepare_cached(
                "SELECT id, at, subject, actor, action, detail FROM audit_log INDEXED BY audit_log_subject
                 WHERE subject = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3",
            )?;
            rows::all(statement, (subject, before, filter.limit), entry)
        }
        None => {
            let statement = reading.sql.prepare_cached(
                "SELECT id, at, subject, actor, action, detail FROM audit_log WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
            )?;
            rows::all(statement, (before, filter.limit), entry)
        }
    }
}

fn entry(row: &Row<'_>) -> Result<AuditEntry, Failure> {
    Ok(AuditEntry {
        id: unsigned("audit id", row.get(0)?)?,
        at: rows::time(row, 1)?,
        subject: rows::text(row, 2)?,
        actor: NodeText::new(&rows::text(row, 3)?),
        action: rows::text(row, 4)?,
        detail: CommandReport::new(&rows::text(row, 5)?),
    })
}
