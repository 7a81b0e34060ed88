//! Retention: an intent that ended long ago becomes one document, and later that document shrinks. Other old rows are
//! deleted.
//!
//! The document holds the columns of the rows under their names, blobs as hex, so the readers of live rows read it too.
//! Slots and request keys stay: a nonce is bound for ever, and a request id is answered for ever. The attempts of a
//! nonce that is still open stay in their table as well, because the lane loads them from there.

use std::time::Duration;

use gapless_domain::{Attempt, Event, IntentRecord, OwnerId, Timestamp, TxId};
use gapless_store::RetentionKind;

use crate::error::Failure;
use crate::ledger::{Reading, Writing};
use crate::rows;

pub(crate) fn claim(writing: &Writing<'_>, owner: &OwnerId) -> Result<Option<Timestamp>, Failure> {
    let claimed = writing
        .sql
        .prepare_cached(
            "INSERT INTO retention_claim (one, owner_node, locked_until) VALUES (1, ?1, ?2)
             ON CONFLICT (one) DO UPDATE SET owner_node = excluded.owner_node, locked_until = excluded.locked_until
             WHERE owner_node = excluded.owner_node OR locked_until <= ?3 OR locked_until > ?4",
        )?
        .execute((
            owner.as_str(),
            writing.lease_end().as_micros(),
            writing.now.as_micros(),
            writing.farthest_end().as_micros(),
        ))?;
    Ok((claimed == 1).then_some(writing.now))
}

pub(crate) fn apply(
    writing: &Writing<'_>,
    owner: &OwnerId,
    kind: RetentionKind,
    age: Duration,
    limit: u32,
) -> Result<u32, Failure> {
    let before = writing.now.saturating_sub(age);
    let count = match kind {
        RetentionKind::Intents => move_intents(writing, before, limit)?,
        RetentionKind::Events => strip(writing, DUE_EVENTS, STRIP_EVENTS, before, limit)?,
        RetentionKind::Attempts => strip(writing, DUE_ATTEMPTS, STRIP_ATTEMPTS, before, limit)?,
        RetentionKind::LaneEvents => {
            let count = delete(writing, DELETE_LANE_EVENTS, before, limit)?;
            warn_of_future_event(writing)?;
            count
        }
        RetentionKind::Commands => delete(writing, DELETE_COMMANDS, before, limit)?,
        RetentionKind::Audit => delete(writing, DELETE_AUDITS, before, limit)?,
        RetentionKind::Nodes => delete_nodes(writing, owner, before, limit)?,
    };
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

fn move_intents(writing: &Writing<'_>, before: Timestamp, limit: u32) -> Result<usize, Failure> {
    let due = writing.sql.prepare_cached(DUE)?;
    let due = rows::all(due, (before.as_micros(), limit), rows::value::<String>)?;
    for id in &due {
        move_out(writing, id)?;
    }
    Ok(due.len())
}

/// Takes one part out of the documents of the oldest intents that still have it.
fn strip(writing: &Writing<'_>, due: &str, strip: &str, before: Timestamp, limit: u32) -> Result<usize, Failure> {
    let due = rows::all(writing.sql.prepare_cached(due)?, (before.as_micros(), limit), rows::value::<String>)?;
    for id in &due {
        writing.sql.prepare_cached(strip)?.execute([id])?;
        if strip == STRIP_ATTEMPTS {
            writing.sql.prepare_cached("DELETE FROM tx_attempt WHERE tx_id = ?1")?.execute([id])?;
        }
    }
    Ok(due.len())
}

fn delete(writing: &Writing<'_>, sql: &str, before: Timestamp, limit: u32) -> Result<usize, Failure> {
    Ok(writing.sql.prepare_cached(sql)?.execute((before.as_micros(), limit))?)
}

/// The oldest lane event stops the deletion of all lane events behind it until it is due.
fn warn_of_future_event(writing: &Writing<'_>) -> Result<(), Failure> {
    let oldest = writing.sql.prepare_cached(OLDEST_LANE_EVENT)?;
    let oldest = rows::all(oldest, [], rows::value::<i64>)?;
    if let Some(at) = oldest.first().map(|at| Timestamp::from_micros(*at)).filter(|at| *at > writing.now) {
        tracing::warn!(?at, "lane events are not deleted: the oldest one is from the future, the clock went back");
    }
    Ok(())
}

/// A process may hold a lease for the duration of a lease plus the clock skew after its last sign of life. Its row is
/// deleted when the process gave no sign of life for that time after the row was marked.
fn delete_nodes(writing: &Writing<'_>, owner: &OwnerId, before: Timestamp, limit: u32) -> Result<usize, Failure> {
    let dead_since = writing.now.saturating_sub(writing.terms.duration).saturating_sub(writing.terms.clock_skew);
    let stale = writing.sql.prepare_cached(STALE_NODES)?;
    let params = (before.min(dead_since).as_micros(), limit, owner.as_str(), writing.now.as_micros());
    let stale = rows::all(stale, params, rows::value::<String>)?;
    let mut count = 0;
    for owner in &stale {
        count += writing
            .sql
            .prepare_cached(
                "DELETE FROM node WHERE owner_node = ?1 AND dead_seen_at = seen_at AND dead_marked_at < ?2",
            )?
            .execute((owner, dead_since.as_micros()))?;
        writing
            .sql
            .prepare_cached(
                "UPDATE node SET dead_seen_at = seen_at, dead_marked_at = ?2
                 WHERE owner_node = ?1 AND dead_seen_at IS NOT seen_at",
            )?
            .execute((owner, writing.now.as_micros()))?;
    }
    Ok(count)
}

pub(crate) fn get(reading: &Reading<'_>, id: TxId) -> Result<Option<IntentRecord>, Failure> {
    let statement = reading.sql.prepare_cached(
        "SELECT tx_id, doc ->> '$.tx.seq', submitter, request_id, doc ->> '$.tx.payload', doc ->> '$.tx.speed',
             doc ->> '$.tx.valid_until', doc ->> '$.tx.metadata', doc ->> '$.tx.state', doc ->> '$.tx.nonce',
             doc ->> '$.tx.detail', doc ->> '$.tx.version', doc ->> '$.tx.created_at', doc ->> '$.tx.updated_at',
             doc ->> '$.tx.replacement'
         FROM archived_tx WHERE tx_id = ?1",
    )?;
    rows::first(statement, [id.to_string()], rows::intent_record)
}

/// Documents of older releases have no history of sends.
pub(crate) fn attempts(reading: &Reading<'_>, id: TxId) -> Result<Vec<Attempt>, Failure> {
    let statement = reading.sql.prepare_cached(
        "SELECT a.value ->> 'nonce', a.value ->> 'ordinal', a.value ->> 'kind', unhex(a.value ->> 'hash'),
             unhex(a.value ->> 'raw'), a.value ->> 'fees', a.value ->> 'created_at', a.value ->> 'sends',
             a.value ->> 'last_sent_at', a.value ->> 'last_outcome', a.value ->> 'last_text',
             coalesce(a.value ->> 'history', '[]')
         FROM archived_tx, json_each(doc, '$.attempts') AS a WHERE tx_id = ?1 ORDER BY 1, 2",
    )?;
    rows::all(statement, [id.to_string()], rows::attempt_with_history)
}

/// The first documents have no positions of their events, which are read as 0, and no notices.
pub(crate) fn events_of(reading: &Reading<'_>, id: TxId, limit: u32) -> Result<Vec<Event>, Failure> {
    let statement = reading.sql.prepare_cached(
        "SELECT coalesce(e.value ->> 'commit_no', 0), coalesce(e.value ->> 'idx', 0), submitter, tx_id,
             e.value ->> 'seq', e.value ->> 'kind', e.value ->> 'state', e.value ->> 'nonce',
             e.value ->> 'detail', NULL, e.value ->> 'at', e.value ->> 'notice'
         FROM archived_tx, json_each(doc, '$.events') AS e WHERE tx_id = ?1 ORDER BY 5 LIMIT ?2",
    )?;
    rows::all(statement, (id.to_string(), limit), rows::event)
}

/// The intents to move out, oldest first. An intent stays while a consumer has not acknowledged its newest event.
const DUE: &str = "
    SELECT tx.tx_id FROM managed_tx AS tx INDEXED BY managed_tx_ended
    WHERE tx.state IN ('CONFIRMED', 'FAILED_FINAL', 'CANCELED') AND tx.updated_at < ?1
        AND NOT EXISTS (
            SELECT 1 FROM tx_event AS event, event_consumer AS consumer
            WHERE event.tx_id = tx.tx_id AND event.seq = tx.version
                AND (event.commit_no, event.idx) > (consumer.commit_no, consumer.idx))
    ORDER BY tx.updated_at, tx.tx_id LIMIT ?2";

const DUE_EVENTS: &str = "
    SELECT tx_id FROM archived_tx INDEXED BY archived_tx_events
    WHERE has_events = 1 AND ended_at < ?1 ORDER BY ended_at LIMIT ?2";

const STRIP_EVENTS: &str = "
    UPDATE archived_tx SET doc = json_set(doc, '$.events', json('[]')), has_events = 0 WHERE tx_id = ?1";

/// An intent waits while the lane still loads one of its attempts.
const DUE_ATTEMPTS: &str = "
    SELECT tx_id FROM archived_tx AS tx INDEXED BY archived_tx_attempts
    WHERE has_attempts = 1 AND ended_at < ?1
        AND NOT EXISTS (
            SELECT 1 FROM tx_attempt AS attempt JOIN submitter_nonce_cursor AS c ON c.submitter = attempt.submitter
            WHERE attempt.tx_id = tx.tx_id AND attempt.nonce >= c.open_nonce)
    ORDER BY ended_at LIMIT ?2";

const STRIP_ATTEMPTS: &str = "
    UPDATE archived_tx SET doc = json_set(doc, '$.attempts', json('[]')), has_attempts = 0 WHERE tx_id = ?1";

/// Events are deleted in the order of their positions, up to the first event that is not due: after a jump of the clock
/// a later event can have an earlier time, and a consumer must never see a gap between two events.
const DELETE_LANE_EVENTS: &str = "
    DELETE FROM tx_event WHERE tx_id IS NULL AND (commit_no, idx) IN (
        SELECT commit_no, idx FROM (
            SELECT commit_no, idx, min(
                at < ?1 AND NOT EXISTS (
                    SELECT 1 FROM event_consumer AS c WHERE (oldest.commit_no, oldest.idx) > (c.commit_no, c.idx))
            ) OVER (ORDER BY commit_no, idx) AS is_due
            FROM (
                SELECT commit_no, idx, at FROM tx_event INDEXED BY tx_event_of_lanes
                WHERE tx_id IS NULL ORDER BY commit_no, idx LIMIT ?2) AS oldest)
        WHERE is_due)";

const OLDEST_LANE_EVENT: &str = "
    SELECT at FROM tx_event INDEXED BY tx_event_of_lanes WHERE tx_id IS NULL ORDER BY commit_no, idx LIMIT 1";

const DELETE_COMMANDS: &str = "
    DELETE FROM lane_command WHERE id IN (
        SELECT id FROM lane_command INDEXED BY lane_command_done
        WHERE done_at IS NOT NULL AND done_at < ?1 ORDER BY done_at, id LIMIT ?2)";

/// Only the first rows are read: ids and times grow together, so if the oldest entry is too young, so are the others.
const DELETE_AUDITS: &str = "
    DELETE FROM audit_log WHERE id IN (
        SELECT id FROM (SELECT id, at FROM audit_log ORDER BY id LIMIT ?2) WHERE at < ?1)";

const STALE_NODES: &str = "
    SELECT owner_node FROM node AS n
    WHERE seen_at < ?1 AND owner_node <> ?3
        AND NOT EXISTS (SELECT 1 FROM submitter_lease AS l WHERE l.owner_node = n.owner_node AND l.expires_at > ?4)
    ORDER BY seen_at LIMIT ?2";

/// SQLite takes JSON that comes from a subquery or a sorter for plain text. Hence `json`, and no ORDER BY in the
/// aggregates.
const DOCUMENT: &str = "
    INSERT INTO archived_tx (tx_id, submitter, request_id, archived_at, ended_at, has_attempts, doc)
    SELECT tx.tx_id, tx.submitter, tx.request_id, ?2, tx.updated_at,
        EXISTS (SELECT 1 FROM tx_attempt WHERE tx_id = ?1), json_object(
        'tx', json_object('seq', tx.seq, 'payload', tx.payload, 'speed', tx.speed, 'valid_until', tx.valid_until,
            'metadata', tx.metadata, 'state', tx.state, 'nonce', tx.nonce, 'detail', tx.detail, 'version', tx.version,
            'created_at', tx.created_at, 'updated_at', tx.updated_at, 'replacement', tx.replacement),
        'attempts', json((SELECT json_group_array(json_object('nonce', nonce, 'ordinal', ordinal, 'kind', kind,
                'hash', hex(hash), 'raw', hex(raw), 'fees', fees, 'created_at', created_at, 'sends', sends,
                'last_sent_at', last_sent_at, 'last_outcome', last_outcome, 'last_text', last_text,
                'history', history))
            FROM (SELECT * FROM tx_attempt AS attempt WHERE tx_id = ?1 AND nonce < (
                    SELECT open_nonce FROM submitter_nonce_cursor AS c WHERE c.submitter = attempt.submitter)
                ORDER BY nonce, ordinal))),
        'events', json((SELECT json_group_array(json_object('commit_no', commit_no, 'idx', idx,
                'seq', seq, 'kind', kind, 'state', state, 'sub_state', sub_state, 'nonce', nonce, 'detail', detail,
                'at', at, 'notice', notice))
            FROM (SELECT * FROM tx_event WHERE tx_id = ?1 ORDER BY seq))))
    FROM managed_tx AS tx WHERE tx.tx_id = ?1";

fn move_out(writing: &Writing<'_>, id: &str) -> Result<(), Failure> {
    let sql = writing.sql;
    sql.prepare_cached(DOCUMENT)?.execute((id, writing.now.as_micros()))?;
    sql.prepare_cached(
        "UPDATE request_key SET end_state = (SELECT state FROM managed_tx WHERE tx_id = ?1) WHERE tx_id = ?1",
    )?
    .execute([id])?;
    sql.prepare_cached("DELETE FROM tx_event WHERE tx_id = ?1")?.execute([id])?;
    sql.prepare_cached(
        "DELETE FROM tx_attempt WHERE tx_id = ?1 AND nonce < (
             SELECT open_nonce FROM submitter_nonce_cursor AS c WHERE c.submitter = tx_attempt.submitter)",
    )?
    .execute([id])?;
    sql.prepare_cached("DELETE FROM managed_tx WHERE tx_id = ?1")?.execute([id])?;
    Ok(())
}
