//! Reads of intents and queues.

use std::collections::HashSet;

use gapless_domain::{Attempt, Command, CommandId, CommandStatus, IntentRecord, Nonce, RequestId, SubmitterId, TxId};
use gapless_store::codec::{command_status, signed, submitter};
use gapless_store::{MAX_OPEN_COMMANDS, TxFilter};

use crate::error::Failure;
use crate::ledger::Reading;
use crate::retention;
use crate::rows::{self, TOLD_ATTEMPT_COLUMNS, TX_COLUMNS};

/// Those who are passed over are not read further than their id.
pub(crate) fn peek_queues(
    reading: &Reading<'_>,
    lanes: &[(SubmitterId, u32)],
    without: &HashSet<TxId>,
) -> Result<Vec<Vec<IntentRecord>>, Failure> {
    let sql = queue();
    let peek = |(lane, limit): &(SubmitterId, u32)| {
        let mut statement = reading.sql.prepare_cached(&sql)?;
        let mut found = statement.query([lane.as_str()])?;
        let mut queue = Vec::new();
        while queue.len() < *limit as usize
            && let Some(row) = found.next()?
        {
            if without.is_empty() || !without.contains(&rows::id(row)?) {
                queue.push(rows::managed_tx_of(row, lane.clone())?);
            }
        }
        Ok(queue)
    };
    lanes.iter().map(peek).collect()
}

/// The index is named: by itself the planner takes that of all rows of a lane, and passes over those that are under way or have ended.
fn queue() -> String {
    format!(
        "SELECT {TX_COLUMNS} FROM managed_tx INDEXED BY managed_tx_queue
         WHERE submitter = ?1 AND state = 'QUEUED' ORDER BY seq"
    )
}

/// A statement for each lane: there is no way to a server that several would have to go.
pub(crate) fn open_commands(reading: &Reading<'_>, lanes: &[SubmitterId]) -> Result<Vec<Vec<Command>>, Failure> {
    let open = |lane: &SubmitterId| {
        let statement = reading.sql.prepare_cached(
            "SELECT id, submitter, body, issued_by, issued_at FROM lane_command INDEXED BY lane_command_open
             WHERE submitter = ?1 AND done_at IS NULL ORDER BY id LIMIT ?2",
        )?;
        rows::all(statement, (lane.as_str(), MAX_OPEN_COMMANDS), rows::command)
    };
    lanes.iter().map(open).collect()
}

/// Jumps from lane to lane through the indexes of open work (a loose index scan), so that the sweep costs as much as there
/// are lanes with work, however long their queues are.
pub(crate) fn lanes_with_work(
    reading: &Reading<'_>,
    after: Option<&SubmitterId>,
    limit: u32,
) -> Result<Vec<SubmitterId>, Failure> {
    let statement = reading.sql.prepare_cached(LANES_WITH_WORK)?;
    let params =
        (after.map_or("", SubmitterId::as_str), reading.now.as_micros(), reading.farthest_end().as_micros(), limit);
    rows::all(statement, params, |row| Ok(submitter(&rows::text(row, 0)?)?))
}

/// `min` of several values is NULL in SQLite when one of them is, hence the aggregate over four rows.
pub(crate) const LANES_WITH_WORK: &str = "
    WITH RECURSIVE lane (submitter) AS (
        SELECT ?1
        UNION ALL
        SELECT (SELECT min(next) FROM (
                SELECT (SELECT submitter FROM managed_tx INDEXED BY managed_tx_queue
                        WHERE state = 'QUEUED' AND submitter > lane.submitter ORDER BY submitter LIMIT 1) AS next
                UNION ALL
                SELECT (SELECT submitter FROM managed_tx INDEXED BY managed_tx_bound
                        WHERE state IN ('ALLOCATED', 'TRACKING', 'STUCK') AND submitter > lane.submitter
                        ORDER BY submitter LIMIT 1)
                UNION ALL
                SELECT (SELECT submitter FROM lane_command INDEXED BY lane_command_open
                        WHERE done_at IS NULL AND submitter > lane.submitter ORDER BY submitter LIMIT 1)
                UNION ALL
                SELECT (SELECT submitter FROM submitter_nonce_cursor INDEXED BY submitter_nonce_cursor_open
                        WHERE open_nonce < next_nonce AND submitter > lane.submitter ORDER BY submitter LIMIT 1)))
        FROM lane WHERE lane.submitter IS NOT NULL
    )
    SELECT submitter FROM lane
    WHERE submitter IS NOT NULL AND submitter > ?1 AND NOT EXISTS (
        SELECT 1 FROM submitter_lease AS lease
        WHERE lease.submitter = lane.submitter AND lease.expires_at > ?2 AND lease.expires_at <= ?3)
    LIMIT ?4";

/// The same of one lane, whoever holds it.
pub(crate) fn has_work(reading: &Reading<'_>, lane: &SubmitterId) -> Result<bool, Failure> {
    let mut statement = reading.sql.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM managed_tx INDEXED BY managed_tx_queue WHERE submitter = ?1 AND state = 'QUEUED')
             OR EXISTS (SELECT 1 FROM managed_tx INDEXED BY managed_tx_bound
                        WHERE submitter = ?1 AND state IN ('ALLOCATED', 'TRACKING', 'STUCK'))
             OR EXISTS (SELECT 1 FROM lane_command INDEXED BY lane_command_open
                        WHERE submitter = ?1 AND done_at IS NULL)
             OR EXISTS (SELECT 1 FROM submitter_nonce_cursor WHERE submitter = ?1 AND open_nonce < next_nonce)",
    )?;
    Ok(statement.query_one([lane.as_str()], |row| row.get(0))?)
}

pub(crate) fn commands(reading: &Reading<'_>, ids: &[CommandId]) -> Result<Vec<Option<CommandStatus>>, Failure> {
    let status = |id: &CommandId| {
        let statement = reading.sql.prepare_cached("SELECT result, refused FROM lane_command WHERE id = ?1")?;
        rows::first(statement, [signed(id.0)], |row| {
            let result: Option<String> = row.get(0)?;
            Ok(command_status(result.as_deref(), row.get(1)?))
        })
    };
    ids.iter().map(status).collect()
}

pub(crate) fn get(reading: &Reading<'_>, ids: &[TxId]) -> Result<Vec<Option<IntentRecord>>, Failure> {
    ids.iter().map(|id| get_one(reading, *id)).collect()
}

pub(crate) fn get_one(reading: &Reading<'_>, id: TxId) -> Result<Option<IntentRecord>, Failure> {
    let sql = format!("SELECT {TX_COLUMNS} FROM managed_tx WHERE tx_id = ?1");
    match rows::first(reading.sql.prepare_cached(&sql)?, [id.to_string()], rows::managed_tx)? {
        Some(tx) => Ok(Some(tx)),
        None => retention::get(reading, id),
    }
}

pub(crate) fn find_request(
    reading: &Reading<'_>,
    lane: &SubmitterId,
    request: &RequestId,
) -> Result<Option<TxId>, Failure> {
    let statement =
        reading.sql.prepare_cached("SELECT tx_id FROM request_key WHERE submitter = ?1 AND request_id = ?2")?;
    rows::first(statement, (lane.as_str(), request.as_str()), |row| Ok(rows::tx_id(&rows::text(row, 0)?)?))
}

pub(crate) fn used_for(reading: &Reading<'_>, lane: &SubmitterId, nonce: Nonce) -> Result<Option<TxId>, Failure> {
    let statement = reading.sql.prepare_cached(
        "SELECT tx_id FROM submitter_nonce_allocation
         WHERE submitter = ?1 AND nonce = ?2 AND status = 'USED' AND tx_id IS NOT NULL",
    )?;
    rows::first(statement, (lane.as_str(), signed(nonce.get())), |row| Ok(rows::tx_id(&rows::text(row, 0)?)?))
}

pub(crate) fn list(reading: &Reading<'_>, filter: &TxFilter) -> Result<Vec<IntentRecord>, Failure> {
    // A condition that is not asked for is left out, so that the one index that fits can be chosen.
    let mut sql = format!("SELECT {TX_COLUMNS} FROM managed_tx WHERE seq < ?1");
    if filter.submitter.is_some() {
        sql.push_str(" AND submitter = ?2");
    }
    if filter.state.is_some() {
        sql.push_str(" AND state = ?3");
    }
    sql.push_str(" ORDER BY seq DESC LIMIT ?4");
    let mut statement = reading.sql.prepare_cached(&sql)?;
    statement.raw_bind_parameter(1, filter.before_seq.map_or(i64::MAX, signed))?;
    if let Some(lane) = &filter.submitter {
        statement.raw_bind_parameter(2, lane.as_str())?;
    }
    if let Some(state) = filter.state {
        statement.raw_bind_parameter(3, state.as_str())?;
    }
    statement.raw_bind_parameter(4, filter.limit)?;
    let mut found = Vec::new();
    let mut answer = statement.raw_query();
    while let Some(row) = answer.next()? {
        found.push(rows::managed_tx(row)?);
    }
    Ok(found)
}

/// The attempts of all slots that were ever the intent's, oldest first. Nonces only rise, also when an intent lost one.
/// Those of a moved-out intent are in its document, and those of a nonce that was open at that time still in their
/// table.
pub(crate) fn attempts(reading: &Reading<'_>, id: TxId) -> Result<Vec<Attempt>, Failure> {
    let sql = format!("SELECT {TOLD_ATTEMPT_COLUMNS} FROM tx_attempt WHERE tx_id = ?1 ORDER BY nonce, ordinal");
    let mut found = rows::all(reading.sql.prepare_cached(&sql)?, [id.to_string()], rows::told_attempt)?;
    found.extend(retention::attempts(reading, id)?);
    found.sort_by_key(|attempt| (attempt.nonce, attempt.ordinal));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::schema::MIGRATIONS;

    fn plan(question: &str, params: impl rusqlite::Params) -> Vec<String> {
        let sql = Connection::open_in_memory().unwrap();
        for step in MIGRATIONS {
            sql.execute_batch(step.sql).unwrap();
        }
        let mut statement = sql.prepare(&format!("EXPLAIN QUERY PLAN {question}")).unwrap();
        statement.query_map(params, |row| row.get(3)).unwrap().map(Result::unwrap).collect()
    }

    /// However many transactions of the lane are under way or have ended.
    #[test]
    fn a_look_at_a_queue_passes_over_nothing_else() {
        let plan = plan(&queue(), ["s"]);
        assert_eq!(plan, ["SEARCH managed_tx USING INDEX managed_tx_queue (submitter=?)"]);
    }

    /// The sweep jumps: every step of its plan is a search in an index, but for the walk over its own few rows.
    #[test]
    fn the_sweep_scans_no_table() {
        let plan = plan(LANES_WITH_WORK, ("", 0, 0, 10));
        for used in [
            "managed_tx_queue (submitter>?)",
            "managed_tx_bound (submitter>?)",
            "lane_command_open (submitter>?)",
            "submitter_nonce_cursor_open (submitter>?)",
        ] {
            assert!(plan.iter().any(|step| step.contains("SEARCH") && step.contains(used)), "{used}: {plan:#?}");
        }
        let scanned = |step: &&String| {
            step.starts_with("SCAN")
                && ["managed_tx", "lane_command", "cursor", "lease"].iter().any(|table| step.contains(table))
        };
        assert_eq!(plan.iter().find(scanned), None);
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:#?}");
    }
}
