//! Looking for work: the front of a queue, commands, and lanes that nobody looks after. None costs more with a longer backlog.

use std::collections::HashMap;

use gapless_domain::{Command, ManagedTx, SubmitterId};
use gapless_store::codec::submitter;
use gapless_store::{MAX_OPEN_COMMANDS, StoreError};
use tokio_postgres::Row;

use crate::rows::{TX_COLUMNS, command, get, managed_tx};
use crate::store::PgStore;

/// Walks the indexes of open things from one submitter to the next, not from one row to the next.
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
    ), unclosed AS (
        (SELECT submitter FROM submitter_nonce_cursor WHERE has_open AND submitter > $1 ORDER BY submitter LIMIT 1)
        UNION ALL
        SELECT (SELECT t.submitter FROM submitter_nonce_cursor t
                WHERE t.has_open AND t.submitter > w.submitter ORDER BY t.submitter LIMIT 1)
        FROM unclosed w WHERE w.submitter IS NOT NULL
    )
    SELECT u.submitter
    FROM (SELECT submitter FROM working UNION SELECT submitter FROM commanded UNION SELECT submitter FROM unclosed) AS u
    WHERE u.submitter IS NOT NULL
      AND NOT EXISTS (SELECT FROM submitter_lease l WHERE l.submitter = u.submitter AND l.expires_at > clock_timestamp())
    ORDER BY u.submitter LIMIT $2";

const COMMANDS: &str = "
    SELECT w.place, c.* FROM unnest($1::text[]) WITH ORDINALITY AS w (submitter, place)
    CROSS JOIN LATERAL (
        SELECT c.id, c.submitter, c.body::text AS body, c.issued_by, c.issued_at FROM lane_command c
        WHERE c.submitter = w.submitter AND c.done_at IS NULL ORDER BY c.id LIMIT $2
    ) AS c ORDER BY w.place, c.id";

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
    by_place(&rows, lanes.len(), |row| Ok(managed_tx(row)?))
}

pub(crate) async fn open_commands(store: &PgStore, lanes: &[SubmitterId]) -> Result<Vec<Vec<Command>>, StoreError> {
    let ids: Vec<&str> = lanes.iter().map(SubmitterId::as_str).collect();
    let rows = store
        .with_session("reading open commands", async |session| {
            let statement = session.prepared(COMMANDS).await?;
            session.client().query(&statement, &[&ids, &i64::from(MAX_OPEN_COMMANDS)]).await
        })
        .await?;
    by_place(&rows, lanes.len(), |row| Ok(command(row)?))
}

/// The rows of each place of the question, which counts from 1.
fn by_place<T>(
    rows: &[Row],
    places: usize,
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<Vec<Vec<T>>, StoreError> {
    let mut found: HashMap<i64, Vec<T>> = HashMap::new();
    for row in rows {
        found.entry(get(row, "place")?).or_default().push(read(row)?);
    }
    Ok((1..).take(places).map(|place| found.remove(&place).unwrap_or_default()).collect())
}
