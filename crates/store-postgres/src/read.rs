//! Reads for callers and operators.

use std::collections::HashMap;
use std::sync::LazyLock;

use gapless_domain::{Attempt, CommandId, CommandStatus, IntentRecord, Nonce, RequestId, SubmitterId, TxId};
use gapless_store::{NewSubmitter, StoreError, TxFilter};
use gapless_store_sql::{FIND_REQUEST, RESERVATION_USER, SUBMITTERS, command_status, signed, submitter};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::rows::{ATTEMPT_WITH_HISTORY_COLUMNS, INTENT_COLUMNS, attempt_with_history, get as column, intent_record};
use crate::store::PgStore;

static GET: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {INTENT_COLUMNS} FROM managed_tx WHERE tx_id = ANY($1)
         UNION ALL SELECT {INTENT_COLUMNS} FROM archived_tx WHERE tx_id = ANY($1)"
    )
});

static ATTEMPTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {ATTEMPT_WITH_HISTORY_COLUMNS} FROM tx_attempt WHERE tx_id = $1
         UNION ALL SELECT {ATTEMPT_WITH_HISTORY_COLUMNS} FROM archived_attempt WHERE tx_id = $1
         ORDER BY created_at, nonce, ordinal"
    )
});

pub(crate) async fn submitters(store: &PgStore) -> Result<Vec<NewSubmitter>, StoreError> {
    let rows =
        store.with_session("reading submitters", async |session| session.client().query(SUBMITTERS, &[]).await).await?;
    rows.iter()
        .map(|row| Ok(NewSubmitter { id: submitter(column(row, "submitter")?)?, alias: column(row, "alias")? }))
        .collect()
}

pub(crate) async fn get(store: &PgStore, ids: &[TxId]) -> Result<Vec<Option<IntentRecord>>, StoreError> {
    let uuids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let rows = store
        .with_session("reading intents", async |session| {
            let statement = session.prepared(GET.as_str()).await?;
            session.client().query(&statement, &[&uuids]).await
        })
        .await?;
    let found: HashMap<TxId, IntentRecord> =
        rows.iter().map(|row| intent_record(row).map(|tx| (tx.id, tx))).collect::<Result<_, _>>()?;
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

pub(crate) async fn find_request(
    store: &PgStore,
    submitter: &SubmitterId,
    request: &RequestId,
) -> Result<Option<TxId>, StoreError> {
    let row = store
        .with_session("looking up a request", async |session| {
            session.client().query_opt(FIND_REQUEST, &[&submitter.as_str(), &request.as_str()]).await
        })
        .await?;
    Ok(row.map(|row| TxId::from_uuid(row.get(0))))
}

pub(crate) async fn used_for(store: &PgStore, lane: &SubmitterId, nonce: Nonce) -> Result<Option<TxId>, StoreError> {
    let row = store
        .with_session("looking up a used reservation", async |session| {
            session.client().query_opt(RESERVATION_USER, &[&lane.as_str(), &signed(nonce.get())]).await
        })
        .await?;
    Ok(row.map(|row| TxId::from_uuid(row.get(0))))
}

pub(crate) async fn list(store: &PgStore, filter: &TxFilter) -> Result<Vec<IntentRecord>, StoreError> {
    // The statement has only the conditions of the filter, so that the planner sees which index fits.
    let lane = filter.submitter.as_ref().map(SubmitterId::as_str);
    let state = filter.state.map(|state| state.as_str());
    let before = filter.before_seq.map(signed);
    let mut conditions = vec!["TRUE".to_owned()];
    let mut params: Vec<&(dyn ToSql + Sync)> = Vec::new();
    let mut add = |condition: &str, param| {
        params.push(param);
        conditions.push(format!("{condition} ${}", params.len()));
    };
    if let Some(lane) = &lane {
        add("submitter =", lane);
    }
    if let Some(state) = &state {
        add("state =", state);
    }
    if let Some(before) = &before {
        add("seq <", before);
    }
    let sql = format!(
        "SELECT {INTENT_COLUMNS} FROM managed_tx WHERE {} ORDER BY seq DESC LIMIT {}",
        conditions.join(" AND "),
        filter.limit
    );
    let rows = store.with_session("listing", async |session| session.client().query(&sql, &params).await).await?;
    rows.iter().map(|row| intent_record(row).map_err(StoreError::from)).collect()
}

pub(crate) async fn commands(store: &PgStore, ids: &[CommandId]) -> Result<Vec<Option<CommandStatus>>, StoreError> {
    let wanted: Vec<i64> = ids.iter().map(|id| signed(id.0)).collect();
    let rows = store
        .with_session("reading commands", async |session| {
            session.client().query("SELECT id, result, refused FROM lane_command WHERE id = ANY($1)", &[&wanted]).await
        })
        .await?;
    let found: HashMap<i64, CommandStatus> =
        rows.iter().map(|row| (row.get(0), command_status(row.get(1), row.get(2)))).collect();
    Ok(wanted.iter().map(|id| found.get(id).cloned()).collect())
}

pub(crate) async fn attempts(store: &PgStore, id: TxId) -> Result<Vec<Attempt>, StoreError> {
    let rows = store
        .with_session("reading attempts", async |session| {
            let statement = session.prepared(ATTEMPTS.as_str()).await?;
            session.client().query(&statement, &[&id.uuid()]).await
        })
        .await?;
    rows.iter().map(|row| attempt_with_history(row).map_err(StoreError::from)).collect()
}
