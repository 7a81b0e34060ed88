//! The head of each chain.

use gapless_domain::{ChainId, Head};
use gapless_store::{AuditRow, HeadVerdict, StoreError, merge_heads};
use gapless_store_sql::{HeadRow, head_from_row, head_to_row};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use crate::audit;
use crate::error::unavailable;
use crate::rows::get;
use crate::session::{Session, within};
use crate::store::PgStore;

/// The first head of a chain has no row to lock. This lock orders the nodes that write it at the same time.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";

const READ_LOCKED: &str = "
    SELECT number, hash, parent_hash, final_number, final_hash, tail_first, tail, genesis
    FROM chain_head WHERE chain = $1 FOR NO KEY UPDATE";

const READ: &str = "
    SELECT number, hash, parent_hash, final_number, final_hash, tail_first, tail, genesis
    FROM chain_head WHERE chain = $1";

const WRITE: &str = "
    INSERT INTO chain_head (chain, number, hash, parent_hash, final_number, final_hash, tail_first, tail, genesis)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT (chain) DO UPDATE SET number = excluded.number, hash = excluded.hash,
        parent_hash = excluded.parent_hash, final_number = excluded.final_number, final_hash = excluded.final_hash,
        tail_first = excluded.tail_first, tail = excluded.tail, genesis = excluded.genesis,
        updated_at = clock_timestamp()";

/// Saves in two flights, like a commit: read under the lock, then write and COMMIT.
pub(crate) async fn save(store: &PgStore, chain: &ChainId, head: &Head) -> Result<HeadVerdict, StoreError> {
    within(store.options.call_timeout, "saving a head", async {
        let session = store.pool.get().await?;
        let row = read_locked(&session, chain).await.map_err(unavailable)?;
        let kept = row.as_ref().map(parse).transpose()?;
        let (verdict, write) = merge_heads(kept.as_ref(), head);
        write_and_commit(&session, chain, write.as_ref()).await.map_err(unavailable)?;
        session.put_back();
        Ok(verdict)
    })
    .await
}

pub(crate) async fn load(store: &PgStore, chain: &ChainId) -> Result<Option<Head>, StoreError> {
    let row = store
        .with_session("reading a head", async |session| {
            let statement = session.prepared(READ).await?;
            session.client().query_opt(&statement, &[&chain.as_str()]).await
        })
        .await?;
    row.as_ref().map(parse).transpose()
}

/// The lock of the row makes this wait for a node that is saving the head.
pub(crate) async fn forget(store: &PgStore, chain: &ChainId, audited: &AuditRow) -> Result<(), StoreError> {
    let forget = format!("WITH gone AS (DELETE FROM chain_head WHERE chain = $5) {}", audit::WRITE);
    store
        .with_session("forgetting a head", async |session| {
            audit::write(session.client(), &forget, audited, &[&chain.as_str()]).await
        })
        .await
}

/// All statements leave before the first is answered. The read is a statement of its own after the lock, so that it
/// sees the write of the node that held the lock before.
async fn read_locked(session: &Session, chain: &ChainId) -> Result<Option<Row>, Error> {
    let (lock, read) = (session.prepared(LOCK).await?, session.prepared(READ_LOCKED).await?);
    let client = session.client();
    let params: &[&(dyn ToSql + Sync)] = &[&chain.as_str()];
    let (begun, locked, row) = tokio::join!(
        biased;
        client.batch_execute("BEGIN"),
        client.query(&lock, params),
        client.query_opt(&read, params)
    );
    begun?;
    locked?;
    row
}

async fn write_and_commit(session: &Session, chain: &ChainId, head: Option<&Head>) -> Result<(), Error> {
    let client = session.client();
    let Some(row) = head.map(head_to_row) else { return client.batch_execute("COMMIT").await };
    let statement = session.prepared(WRITE).await?;
    let HeadRow { number, hash, parent_hash, final_number, final_hash, tail_first, tail, genesis } = &row;
    let params: &[&(dyn ToSql + Sync)] =
        &[&chain.as_str(), number, hash, parent_hash, final_number, final_hash, tail_first, tail, genesis];
    let (written, committed) = tokio::join!(biased; client.execute(&statement, params), client.batch_execute("COMMIT"));
    // COMMIT answers "ok" also when it rolled back.
    written?;
    committed
}

fn parse(row: &Row) -> Result<Head, StoreError> {
    let row = HeadRow {
        number: get(row, "number")?,
        hash: get(row, "hash")?,
        parent_hash: get(row, "parent_hash")?,
        final_number: get(row, "final_number")?,
        final_hash: get(row, "final_hash")?,
        tail_first: get(row, "tail_first")?,
        tail: get(row, "tail")?,
        genesis: get(row, "genesis")?,
    };
    Ok(head_from_row(&row)?)
}
