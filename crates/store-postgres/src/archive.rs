//! Retention: ended intents move to the archive in batches. Slots and request keys stay for ever.

use std::time::Duration;

use gapless_store::StoreError;

use crate::rows::micros;
use crate::store::PgStore;

/// One statement moves one batch, oldest first. Locked rows are left for the next batch. Only the oldest intents are
/// considered: consumers acknowledge events in order, so a consumer that is behind the oldest is behind the others too.
const MOVE: &str = "
    WITH oldest AS (
        SELECT tx_id FROM managed_tx
        WHERE ended_at <= clock_timestamp() - $1::bigint * interval '1 microsecond'
        ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ), old AS (
        SELECT tx_id FROM oldest o
        WHERE NOT EXISTS (
            SELECT FROM tx_event e, event_consumer c WHERE e.tx_id = o.tx_id AND (e.xid, e.id) > (c.xid, c.id))
    ), txs AS (
        DELETE FROM managed_tx t USING old WHERE t.tx_id = old.tx_id RETURNING t.*
    ), attempts AS (
        DELETE FROM tx_attempt a USING old WHERE a.tx_id = old.tx_id RETURNING a.*
    ), events AS (
        DELETE FROM tx_event e USING old WHERE e.tx_id = old.tx_id RETURNING e.*
    ), keys AS (
        UPDATE request_key k SET end_state = txs.state FROM txs
        WHERE (k.submitter, k.request_id) = (txs.submitter, txs.request_id)
    ), kept_attempts AS (
        INSERT INTO archived_attempt SELECT * FROM attempts
    ), kept_events AS (
        INSERT INTO archived_event SELECT * FROM events
    ), kept AS (
        INSERT INTO archived_tx SELECT clock_timestamp(), txs.* FROM txs RETURNING 1
    )
    SELECT count(*) FROM kept";

pub(crate) async fn archive(store: &PgStore, age: Duration, limit: u32) -> Result<u32, StoreError> {
    let moved: i64 = store
        .with_session("moving ended intents out", async |session| {
            let statement = session.prepared(MOVE).await?;
            let row = session.client().query_one(&statement, &[&micros(age), &i64::from(limit)]).await?;
            Ok(row.get(0))
        })
        .await?;
    Ok(u32::try_from(moved).unwrap_or(u32::MAX))
}
