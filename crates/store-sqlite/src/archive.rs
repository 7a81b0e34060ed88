//! Retention: an intent that ended long ago becomes one document, and its rows are deleted.
//!
//! The document holds the columns of the rows under their names, blobs as hex, so the readers of live rows read it too.
//! Slots and request keys stay: a nonce is bound for ever, and a request id is answered for ever.

use std::time::Duration;

use gapless_domain::{Attempt, Event, IntentRecord, TxId};

use crate::error::Failure;
use crate::ledger::{Reading, Writing};
use crate::rows;

pub(crate) fn archive(writing: &Writing<'_>, age: Duration, limit: u32) -> Result<u32, Failure> {
    let before = writing.now.saturating_sub(age).as_micros();
    let due = writing.sql.prepare_cached(DUE)?;
    let due = rows::all(due, (before, limit), rows::value::<String>)?;
    for id in &due {
        move_out(writing, id)?;
    }
    Ok(u32::try_from(due.len()).unwrap_or(limit))
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

/// SQLite takes JSON that comes from a subquery or a sorter for plain text. Hence `json`, and no ORDER BY in the
/// aggregates.
const DOCUMENT: &str = "
    INSERT INTO archived_tx (tx_id, submitter, request_id, archived_at, doc)
    SELECT tx.tx_id, tx.submitter, tx.request_id, ?2, json_object(
        'tx', json_object('seq', tx.seq, 'payload', tx.payload, 'speed', tx.speed, 'valid_until', tx.valid_until,
            'metadata', tx.metadata, 'state', tx.state, 'nonce', tx.nonce, 'detail', tx.detail, 'version', tx.version,
            'created_at', tx.created_at, 'updated_at', tx.updated_at, 'replacement', tx.replacement),
        'attempts', json((SELECT json_group_array(json_object('nonce', nonce, 'ordinal', ordinal, 'kind', kind,
                'hash', hex(hash), 'raw', hex(raw), 'fees', fees, 'created_at', created_at, 'sends', sends,
                'last_sent_at', last_sent_at, 'last_outcome', last_outcome, 'last_text', last_text,
                'history', history))
            FROM (SELECT * FROM tx_attempt WHERE tx_id = ?1 ORDER BY nonce, ordinal))),
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
    sql.prepare_cached("DELETE FROM tx_attempt WHERE tx_id = ?1")?.execute([id])?;
    sql.prepare_cached("DELETE FROM managed_tx WHERE tx_id = ?1")?.execute([id])?;
    Ok(())
}
