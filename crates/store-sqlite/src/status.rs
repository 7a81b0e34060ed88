//! The status of lanes, for people.

use gapless_domain::{OwnerId, SubmitterId};
use gapless_store::{Census, LaneStatus};

use crate::error::Failure;
use crate::lease;
use crate::ledger::Reading;
use crate::rows::{self, CURSOR_COLUMNS};

pub(crate) fn lane_status(reading: &Reading<'_>, lanes: &[SubmitterId]) -> Result<Vec<Option<LaneStatus>>, Failure> {
    lanes.iter().map(|lane| status(reading, lane)).collect()
}

/// A process that has not renewed for longer than a lease lasts, by any clock, has no lanes any more.
pub(crate) fn census(reading: &Reading<'_>, owner: &OwnerId) -> Result<Census, Failure> {
    let oldest = reading.now.saturating_sub(reading.terms.duration).saturating_sub(reading.terms.clock_skew);
    let others: u32 = reading
        .sql
        .prepare_cached("SELECT count(*) FROM node WHERE owner_node <> ?1 AND seen_at > ?2")?
        .query_one((owner.as_str(), oldest.as_micros()), |row| row.get(0))?;
    let lanes = reading
        .sql
        .prepare_cached("SELECT count(*) FROM submitter_lease WHERE expires_at > ?1 AND expires_at <= ?2")?
        .query_one((reading.now.as_micros(), reading.farthest_end().as_micros()), |row| row.get(0))?;
    Ok(Census { nodes: others.saturating_add(1), lanes })
}

/// Counting stops at a limit, in the index, so that a long queue costs no more than a short one.
const QUEUED: &str = "
    SELECT count(*) FROM (SELECT 1 FROM managed_tx INDEXED BY managed_tx_queue
                          WHERE submitter = ?1 AND state = 'QUEUED' LIMIT ?2)";

const OPEN: &str = "
    SELECT count(*) FROM (SELECT 1 FROM managed_tx INDEXED BY managed_tx_bound
                          WHERE submitter = ?1 AND state IN ('ALLOCATED', 'TRACKING', 'STUCK') LIMIT ?2)";

fn status(reading: &Reading<'_>, lane: &SubmitterId) -> Result<Option<LaneStatus>, Failure> {
    let sql = reading.sql;
    let known = sql.prepare_cached("SELECT alias FROM submitter WHERE submitter = ?1")?;
    let Some(alias) = rows::first(known, [lane.as_str()], rows::value::<Option<String>>)? else { return Ok(None) };
    let cursor = sql
        .prepare_cached(&format!("SELECT {CURSOR_COLUMNS}, epoch FROM submitter_nonce_cursor WHERE submitter = ?1"))?;
    let cursor = rows::first(cursor, [lane.as_str()], |row| Ok((rows::cursor(row)?, row.get::<_, i64>(11)?)))?;
    let (cursor, seen) = cursor.unzip();
    let count = |counting: &str| -> Result<u32, Failure> {
        let mut statement = sql.prepare_cached(counting)?;
        Ok(statement.query_one((lane.as_str(), LaneStatus::MAX_COUNTED), |row| row.get(0))?)
    };
    let oldest = sql.prepare_cached(
        "SELECT created_at FROM managed_tx INDEXED BY managed_tx_queue
         WHERE submitter = ?1 AND state = 'QUEUED' ORDER BY seq LIMIT 1",
    )?;
    Ok(Some(LaneStatus {
        alias,
        cursor,
        lease: lease::status(reading, lane)?,
        queued: count(QUEUED)?,
        open: count(OPEN)?,
        oldest_queued_at: rows::first(oldest, [lane.as_str()], |row| Ok(rows::time(row, 0)?))?,
        regressed: reading.is_regressed(lane.as_str(), seen)?,
        now: reading.now,
    }))
}
