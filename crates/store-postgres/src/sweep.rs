//! Looking for work: the front of a queue, and lanes that nobody looks after. Neither costs more with a longer backlog.

use std::collections::HashMap;

use gapless_domain::{ManagedTx, SubmitterId};
use gapless_store::StoreError;
use gapless_store::codec::submitter;

use crate::rows::{TX_COLUMNS, get, managed_tx};
use crate::store::PgStore;

/// Walks the open index from one submitter to the next, not from one row to the next.
const LANES: &str = "
    WITH RECURSIVE working AS (
        (SELECT submitter FROM managed_tx WHERE ended_at IS NULL AND submitter > $1 ORDER BY submitter LIMIT 1)
        UNION ALL
        SELECT (SELECT t.submitter FROM managed_tx t
                WHERE t.ended_at IS NULL AND t.submitter > w.submitter ORDER BY t.submitter LIMIT 1)
        FROM working w WHERE w.submitter IS NOT NULL
    ), commanded AS (
        (SELECT submitter FROM lane_command WHERE done_at IS NULL AND submitter > $1 ORDER BY submitter LIMIT 1)
        UNION ALL
        SELECT (SELECT t.submitter FROM lane_command t
                WHERE t.done_at IS NULL AND t.submitter > w.submitter ORDER BY t.submitter LIMIT 1)
        FROM commanded w WHERE w.submitter IS NOT NULL
    )
    SELECT u.submitter FROM (SELECT submitter FROM working UNION SELECT submitter FROM commanded) AS u
    WHERE u.submitter IS NOT NULL
      AND NOT EXISTS (SELECT FROM submitter_lease l WHERE l.submitter = u.submitter AND l.expires_at > clock_timestamp())
    ORDER BY u.submitter LIMIT $2";

pub(crate) async fn lanes_with_work(
    store: &PgStore,
    after: Option<&SubmitterId>,
    limit: u32,
) -> Result<Vec<SubmitterId>, StoreError> {
    let after = after.map_or("", SubmitterId::as_str);
    let rows = store
        .with_session("looking for work", async |session| {
            let statement = session.prepared(LANES).await?;
            session.client().query(&statement, &[&after, &i64::from(limit)]).await
        })
        .await?;
    rows.iter().map(|row| Ok(submitter(get(row, "submitter")?)?)).collect()
}

pub(crate) async fn peek_queues(
    store: &PgStore,
    lanes: &[(SubmitterId, u32)],
) -> Result<Vec<Vec<ManagedTx>>, StoreError> {
    let sql = format!(
        "SELECT w.place, t.* FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS w (submitter, wanted, place)
         CROSS JOIN LATERAL (
             SELECT {TX_COLUMNS} FROM managed_tx q
             WHERE q.submitter = w.submitter AND q.ended_at IS NULL AND q.state = 'QUEUED'
             ORDER BY q.seq LIMIT w.wanted
         ) AS t ORDER BY w.place, t.seq"
    );
    let ids: Vec<&str> = lanes.iter().map(|(lane, _)| lane.as_str()).collect();
    let wanted: Vec<i64> = lanes.iter().map(|(_, wanted)| i64::from(*wanted)).collect();
    let rows =
        store.with_session("peeking", async |session| session.client().query(&sql, &[&ids, &wanted]).await).await?;
    let mut queues: HashMap<i64, Vec<ManagedTx>> = HashMap::new();
    for row in &rows {
        queues.entry(get(row, "place")?).or_default().push(managed_tx(row)?);
    }
    Ok((1..).take(lanes.len()).map(|place| queues.remove(&place).unwrap_or_default()).collect())
}
