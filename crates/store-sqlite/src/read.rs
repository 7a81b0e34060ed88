//! Reads of intents, queues and commands.

use std::collections::HashSet;

use gapless_domain::{Attempt, Command, CommandId, CommandStatus, IntentRecord, Nonce, RequestId, SubmitterId, TxId};
use gapless_store::{MAX_OPEN_COMMANDS, TxFilter};
use gapless_store_sql::{FIND_REQUEST, RESERVATION_USER, command_status, signed, submitter};
use rusqlite::ToSql;

use crate::error::Failure;
use crate::ledger::Reading;
use crate::retention;
use crate::rows::{self, ATTEMPT_WITH_HISTORY_COLUMNS, INTENT_COLUMNS};
use crate::statement::statement;

/// Of an intent in `without` only the id is read.
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
                queue.push(rows::intent_record_of(row, lane.clone())?);
            }
        }
        Ok(queue)
    };
    lanes.iter().map(peek).collect()
}

/// The statement names its index. Without the name the planner takes the index of all rows of a lane, and reads over
/// intents that are bound or have ended.
fn queue() -> String {
    format!(
        "SELECT {INTENT_COLUMNS} FROM managed_tx INDEXED BY managed_tx_queue
         WHERE submitter = ?1 AND state = 'QUEUED' ORDER BY seq"
    )
}

/// A statement for each lane: there is no round trip to a server that one statement would save.
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

/// Jumps from lane to lane in the indexes of open work (a loose index scan). So the cost of a sweep grows with the
/// lanes that have work, and not with the length of their queues.
pub(crate) fn lanes_with_work(
    reading: &Reading<'_>,
    after: Option<&SubmitterId>,
    limit: u32,
) -> Result<Vec<SubmitterId>, Failure> {
    let sweep = LanesWithWork {
        after: after.map_or("", SubmitterId::as_str),
        now: reading.now.as_micros(),
        farthest_end: reading.farthest_end().as_micros(),
        limit,
    };
    rows::all(LanesWithWork::prepare(reading.sql)?, sweep.params(), |row| Ok(submitter(rows::text(row, 0)?)?))
}

statement! {
    struct LanesWithWork<'a> { after: &'a str, now: i64, farthest_end: i64, limit: u32 } = LANES_WITH_WORK;
}

/// `min` of several values is NULL in SQLite when one of them is NULL, hence the aggregate over four rows.
const LANES_WITH_WORK: &str = "
    WITH RECURSIVE lane (submitter) AS (
        SELECT {after}
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
    WHERE submitter IS NOT NULL AND submitter > {after} AND NOT EXISTS (
        SELECT 1 FROM submitter_lease AS lease
        WHERE lease.submitter = lane.submitter AND lease.expires_at > {now} AND lease.expires_at <= {farthest_end})
    LIMIT {limit}";

/// True if the lane has work, also while it has an owner.
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
    let sql = format!("SELECT {INTENT_COLUMNS} FROM managed_tx WHERE tx_id = ?1");
    match rows::first(reading.sql.prepare_cached(&sql)?, [id.to_string()], rows::intent_record)? {
        Some(tx) => Ok(Some(tx)),
        None => retention::get(reading, id),
    }
}

pub(crate) fn find_request(
    reading: &Reading<'_>,
    lane: &SubmitterId,
    request: &RequestId,
) -> Result<Option<TxId>, Failure> {
    let statement = reading.sql.prepare_cached(FIND_REQUEST)?;
    rows::first(statement, (lane.as_str(), request.as_str()), |row| Ok(rows::tx_id(rows::text(row, 0)?)?))
}

pub(crate) fn used_for(reading: &Reading<'_>, lane: &SubmitterId, nonce: Nonce) -> Result<Option<TxId>, Failure> {
    let statement = reading.sql.prepare_cached(RESERVATION_USER)?;
    rows::first(statement, (lane.as_str(), signed(nonce.get())), |row| Ok(rows::tx_id(rows::text(row, 0)?)?))
}

pub(crate) fn list(reading: &Reading<'_>, filter: &TxFilter) -> Result<Vec<IntentRecord>, Failure> {
    // The statement has only the conditions of the filter, so that the index that fits is chosen.
    let (before, lane) =
        (filter.before_seq.map_or(i64::MAX, signed), filter.submitter.as_ref().map(SubmitterId::as_str));
    let state = filter.state.map(|state| state.as_str());
    let mut sql = format!("SELECT {INTENT_COLUMNS} FROM managed_tx WHERE seq < :before");
    let mut params: Vec<(&str, &dyn ToSql)> = vec![(":before", &before), (":limit", &filter.limit)];
    if let Some(lane) = &lane {
        sql.push_str(" AND submitter = :lane");
        params.push((":lane", lane));
    }
    if let Some(state) = &state {
        sql.push_str(" AND state = :state");
        params.push((":state", state));
    }
    sql.push_str(" ORDER BY seq DESC LIMIT :limit");
    rows::all(reading.sql.prepare_cached(&sql)?, params.as_slice(), rows::intent_record)
}

/// The attempts of all slots that the intent ever had, oldest first. An intent that lost a nonce gets a higher one
/// next. The document of a moved-out intent holds its attempts; attempts of a nonce that was open at that time are
/// still in their table.
pub(crate) fn attempts(reading: &Reading<'_>, id: TxId) -> Result<Vec<Attempt>, Failure> {
    let sql = format!("SELECT {ATTEMPT_WITH_HISTORY_COLUMNS} FROM tx_attempt WHERE tx_id = ?1 ORDER BY nonce, ordinal");
    let mut found = rows::all(reading.sql.prepare_cached(&sql)?, [id.to_string()], rows::attempt_with_history)?;
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

    #[test]
    fn peek_reads_no_intent_that_is_bound_or_ended() {
        let plan = plan(&queue(), ["s"]);
        assert_eq!(plan, ["SEARCH managed_tx USING INDEX managed_tx_queue (submitter=?)"]);
    }

    /// Every step of the plan is a search in an index, except the walk over the lanes that were found.
    #[test]
    fn sweep_scans_no_table() {
        let sql = LANES_WITH_WORK.replace("{after}", "?1").replace("{now}", "?2").replace("{farthest_end}", "?3");
        let plan = plan(&sql.replace("{limit}", "?4"), ("", 0, 0, 10));
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
