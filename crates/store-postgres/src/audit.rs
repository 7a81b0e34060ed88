//! The audit log: entries that no lane commit writes (`commit/write.rs` writes the others), and reading.

use gapless_domain::AuditEntry;
use gapless_store::{AuditFilter, AuditRow, StoreError};
use gapless_store_sql::{AUDIT_LOG, AUDIT_LOG_OF_SUBJECT, AuditEntryRow, signed};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row};

use crate::rows::{get, time};
use crate::store::PgStore;

pub(crate) const WRITE: &str = "INSERT INTO audit_log (subject, actor, action, detail) VALUES ($1, $2, $3, $4)";

/// Runs a statement whose first four parameters are those of [`WRITE`]: that statement itself, or one that contains it.
pub(crate) async fn write(
    client: &Client,
    sql: &str,
    row: &AuditRow,
    more: &[&(dyn ToSql + Sync)],
) -> Result<(), Error> {
    let (actor, detail) = (row.actor.as_str(), row.detail.as_str());
    let entry: [&(dyn ToSql + Sync); 4] = [&row.subject, &actor, &row.action, &detail];
    let params: Vec<_> = entry.iter().chain(more).copied().collect();
    client.execute(sql, &params).await.map(|_| ())
}

pub(crate) async fn log(store: &PgStore, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
    let (before, limit) = (filter.before.map_or(i64::MAX, signed), i64::from(filter.limit));
    let rows = store
        .with_session("reading the audit log", async |session| match &filter.subject {
            Some(subject) => {
                let statement = session.prepared(AUDIT_LOG_OF_SUBJECT).await?;
                session.client().query(&statement, &[subject, &before, &limit]).await
            }
            None => {
                let statement = session.prepared(AUDIT_LOG).await?;
                session.client().query(&statement, &[&before, &limit]).await
            }
        })
        .await?;
    rows.iter().map(entry).collect()
}

fn entry(row: &Row) -> Result<AuditEntry, StoreError> {
    let columns = AuditEntryRow {
        id: get(row, "id")?,
        at: time(row, "at")?,
        subject: get(row, "subject")?,
        actor: get(row, "actor")?,
        action: get(row, "action")?,
        detail: get(row, "detail")?,
    };
    Ok(AuditEntry::try_from(columns)?)
}
