//! The status of lanes for people: one statement for all lanes of the question, and no lock.

use std::collections::HashMap;
use std::time::SystemTime;

use gapless_domain::{OwnerId, SubmitterId};
use gapless_store::{Census, LaneStatus, LeaseStatus, RowError, StoreError};
use gapless_store_sql::token;
use tokio_postgres::Row;

use crate::rows::{cursor, get, micros, timestamp};
use crate::store::PgStore;

/// $2 is where counting stops, $3 the longest time that a valid lease can still last.
///
/// Queued intents are counted from the front of the queue by its index. Intents that hold a nonce are counted from the
/// open slots, as a lane is loaded: no index finds them without reading a long queue too.
const STATUS: &str = "
    WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now)
    SELECT w.place, s.alias, m.now, coalesce(c.epoch, s.epoch) < (SELECT max(epoch) FROM store_epoch) AS regressed,
           c.next_nonce, c.chain_nonce, c.final_nonce, c.open_nonce, c.state, c.protect_code,
           c.protect_detail, c.paused, c.low_balance, c.version, c.event_seq,
           l.owner_node, l.fencing_token AS token, nullif(l.expires_at, '-infinity') AS expires_at,
           l.expires_at > m.now AND l.expires_at <= m.now + $3::bigint * interval '1 microsecond' AS valid,
           queued.count AS queued, open.count AS open,
           (SELECT q.created_at FROM managed_tx q
            WHERE q.submitter = s.submitter AND q.nonce IS NULL AND q.ended_at IS NULL AND q.state = 'QUEUED'
            ORDER BY q.seq LIMIT 1) AS oldest_queued_at
    FROM unnest($1::text[]) WITH ORDINALITY AS w (submitter, place)
    CROSS JOIN moment m
    JOIN submitter s ON s.submitter = w.submitter
    LEFT JOIN submitter_nonce_cursor c ON c.submitter = s.submitter
    LEFT JOIN submitter_lease l ON l.submitter = s.submitter
    CROSS JOIN LATERAL (
        SELECT count(*) FROM (
            SELECT FROM managed_tx q
            WHERE q.submitter = s.submitter AND q.nonce IS NULL AND q.ended_at IS NULL AND q.state = 'QUEUED'
            ORDER BY q.seq LIMIT $2
        ) AS front) AS queued
    CROSS JOIN LATERAL (
        SELECT count(*) FROM (
            SELECT FROM (
                SELECT o.submitter, o.nonce, o.tx_id FROM slot o
                WHERE o.submitter = c.submitter AND o.nonce >= c.open_nonce ORDER BY o.nonce OFFSET 0
            ) AS o
            LEFT JOIN submitter_nonce_allocation r ON (r.submitter, r.nonce) = (o.submitter, o.nonce)
            JOIN managed_tx t ON t.tx_id = coalesce(o.tx_id, r.tx_id) AND t.nonce = o.nonce
            WHERE t.ended_at IS NULL LIMIT $2
        ) AS bound) AS open";

/// $2 is the longest time that a valid lease can still last. A process that has not renewed for longer, by any clock,
/// has no lanes any more. Both tables are read whole: they have a row for each process that ever started, and for each
/// lane.
const CENSUS: &str = "
    SELECT (SELECT count(*) FROM node
            WHERE owner_node <> $1
              AND seen_at > clock_timestamp() - $2::bigint * interval '1 microsecond') + 1 AS nodes,
           (SELECT count(*) FROM submitter_lease
            WHERE expires_at > clock_timestamp()
              AND expires_at <= clock_timestamp() + $2::bigint * interval '1 microsecond') AS lanes";

pub(crate) async fn census(store: &PgStore) -> Result<Census, StoreError> {
    let horizon = micros(store.options.lease.duration + store.options.lease.clock_skew);
    let row = store
        .with_session("counting nodes and leases", async |session| {
            let statement = session.prepared(CENSUS).await?;
            session.client().query_one(&statement, &[&store.owner.as_str(), &horizon]).await
        })
        .await?;
    Ok(Census { nodes: count(get(&row, "nodes")?)?, lanes: count(get(&row, "lanes")?)? })
}

pub(crate) async fn lane_status(store: &PgStore, lanes: &[SubmitterId]) -> Result<Vec<Option<LaneStatus>>, StoreError> {
    let ids: Vec<&str> = lanes.iter().map(SubmitterId::as_str).collect();
    let horizon = micros(store.options.lease.duration + store.options.lease.clock_skew);
    let rows = store
        .with_session("reading the status of lanes", async |session| {
            let statement = session.prepared(STATUS).await?;
            session.client().query(&statement, &[&ids, &i64::from(LaneStatus::MAX_COUNTED), &horizon]).await
        })
        .await?;
    let mut found: HashMap<i64, LaneStatus> = HashMap::new();
    for row in &rows {
        found.insert(get(row, "place")?, status(row)?);
    }
    Ok((1..).take(lanes.len()).map(|place| found.remove(&place)).collect())
}

fn status(row: &Row) -> Result<LaneStatus, StoreError> {
    let has_cursor = get::<Option<i64>>(row, "version")?.is_some();
    Ok(LaneStatus {
        alias: get(row, "alias")?,
        cursor: if has_cursor { Some(cursor(row)?) } else { None },
        lease: lease(row)?,
        queued: count(get(row, "queued")?)?,
        open: count(get(row, "open")?)?,
        oldest_queued_at: get::<Option<SystemTime>>(row, "oldest_queued_at")?.map(timestamp),
        regressed: get(row, "regressed")?,
        now: timestamp(get(row, "now")?),
    })
}

fn lease(row: &Row) -> Result<Option<LeaseStatus>, RowError> {
    let Some(owner) = get::<Option<&str>>(row, "owner_node")? else { return Ok(None) };
    let expires_at: Option<SystemTime> = get(row, "expires_at")?;
    Ok(Some(LeaseStatus {
        owner: OwnerId::restore(owner),
        token: token(get(row, "token")?)?,
        expires_at: expires_at.map_or(LeaseStatus::RELEASED, timestamp),
        valid: get(row, "valid")?,
    }))
}

fn count(value: i64) -> Result<u32, RowError> {
    u32::try_from(value).map_err(|error| RowError::new("count", error))
}
