//! The audit log. What lanes do is written by their commits (`commit/write.rs`); here is the rest of it, and reading.

use gapless_domain::{AuditEntry, CommandReport, NodeText};
use gapless_store::codec::{signed, unsigned};
use gapless_store::{AuditFilter, AuditRow, StoreError};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row};

use crate::rows::{get, timestamp};
use crate::store::PgStore;

pub(crate) const WRITE: &str = "INSERT INTO audit_log (subject, actor, action, detail) VALUES ($1, $2, $3, $4)";

// Two statements, so that each walks the index that fits and stops at the limit.

const ALL: &str = "
    SELECT id, at, subject, actor, action, detail FROM audit_log WHERE id < $1 ORDER BY id DESC LIMIT $2";

const OF_ONE: &str = "
    SELECT id, at, subject, actor, action, detail FROM audit_log
    WHERE id < $1 AND subject = $3 ORDER BY id DESC LIMIT $2";

/// Runs a statement whose first four parameters are the entry's: [`WRITE`], or what else happens with it.
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
                let statement = session.prepared(OF_ONE).await?;
                session.client().query(&statement, &[&before, &limit, subject]).await
            }
            None => {
                let statement = session.prepared(ALL).await?;
                session.client().query(&statement, &[&before, &limit]).await
            }
        })
        .await?;
    rows.iter().map(entry).collect()
}

fn entry(row: &Row) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        id: unsigned("audit id", get(row, "id")?)?,
        at: timestamp(get(row, "at")?),
        subject: get(row, "subject")?,
        actor: NodeText::new(get(row, "actor")?),
        action: get(row, "action")?,
        detail: CommandReport::new(get(row, "detail")?),
    })
}
