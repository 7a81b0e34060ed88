//! Rows of SQLite as domain values.

use gapless_domain::{
    Attempt, B256, Command, Cursor, Event, EventPosition, IntentRecord, Reservation, Slot, SlotKind, SubmitterId,
    Timestamp, TxId,
};
use gapless_store::RowError;
use gapless_store_sql::{
    AttemptRow, CommandRow, CursorRow, EventRow, IntentRow, ReservationRow, SlotRow, slot_kind_columns, submitter,
    unsigned,
};
use rusqlite::types::FromSql;
use rusqlite::{CachedStatement, Params, Row};

use crate::error::Failure;

pub(crate) const SLOT_COLUMNS: &str = SlotRow::COLUMNS;

pub(crate) const CURSOR_COLUMNS: &str = CursorRow::COLUMNS;

pub(crate) const RESERVATION_COLUMNS: &str = ReservationRow::COLUMNS;

pub(crate) const INTENT_COLUMNS: &str = "tx_id, seq, submitter, request_id, payload, speed, valid_until, metadata, \
     state, nonce, detail, version, created_at, updated_at, replacement";

/// A lane is loaded with these columns: without the history of sends, which only people read.
pub(crate) const ATTEMPT_COLUMNS: &str =
    "nonce, ordinal, kind, hash, raw, fees, created_at, sends, last_sent_at, last_outcome, last_text";

pub(crate) const ATTEMPT_WITH_HISTORY_COLUMNS: &str =
    "nonce, ordinal, kind, hash, raw, fees, created_at, sends, last_sent_at, last_outcome, last_text, history";

pub(crate) const EVENT_COLUMNS: &str =
    "commit_no, idx, submitter, tx_id, seq, kind, state, nonce, detail, text, at, notice";

/// All rows of an answer, each through one of the readers below.
pub(crate) fn all<T>(
    mut statement: CachedStatement<'_>,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// The first row of an answer, if there is one.
pub(crate) fn first<T>(
    mut statement: CachedStatement<'_>,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let mut rows = statement.query(params)?;
    match rows.next()? {
        Some(row) => read(row).map(Some),
        None => Ok(None),
    }
}

/// Reads the first of [`INTENT_COLUMNS`].
pub(crate) fn id(row: &Row<'_>) -> Result<TxId, Failure> {
    Ok(tx_id(text(row, 0)?)?)
}

/// Reads [`INTENT_COLUMNS`].
pub(crate) fn intent_record(row: &Row<'_>) -> Result<IntentRecord, Failure> {
    intent_record_of(row, submitter(text(row, 2)?)?)
}

/// An intent record of a known submitter: the address is not parsed for each of many rows.
pub(crate) fn intent_record_of(row: &Row<'_>, submitter: SubmitterId) -> Result<IntentRecord, Failure> {
    let columns = IntentRow {
        tx_id: id(row)?,
        seq: row.get(1)?,
        request_id: text(row, 3)?,
        payload: text(row, 4)?,
        speed: text(row, 5)?,
        valid_until: optional_time(row, 6)?,
        metadata: row.get(7)?,
        state: text(row, 8)?,
        nonce: row.get(9)?,
        detail: text(row, 10)?,
        version: row.get(11)?,
        created_at: time(row, 12)?,
        updated_at: time(row, 13)?,
        replacement: optional_text(row, 14)?,
    };
    Ok(columns.into_record(submitter)?)
}

/// Reads [`ATTEMPT_COLUMNS`].
pub(crate) fn attempt(row: &Row<'_>) -> Result<Attempt, Failure> {
    Ok(Attempt::try_from(attempt_columns(row, None)?)?)
}

/// Reads [`ATTEMPT_WITH_HISTORY_COLUMNS`].
pub(crate) fn attempt_with_history(row: &Row<'_>) -> Result<Attempt, Failure> {
    Ok(Attempt::try_from(attempt_columns(row, Some(text(row, 11)?))?)?)
}

fn attempt_columns<'a>(row: &'a Row<'_>, history: Option<&'a str>) -> Result<AttemptRow<'a>, rusqlite::Error> {
    Ok(AttemptRow {
        nonce: row.get(0)?,
        ordinal: row.get(1)?,
        kind: text(row, 2)?,
        hash: hash(row, 3)?,
        raw: row.get_ref(4)?.as_blob()?,
        fees: text(row, 5)?,
        created_at: time(row, 6)?,
        sends: row.get(7)?,
        last_sent_at: optional_time(row, 8)?,
        last_outcome: optional_text(row, 9)?,
        last_text: optional_text(row, 10)?,
        history,
    })
}

/// Reads [`EVENT_COLUMNS`].
pub(crate) fn event(row: &Row<'_>) -> Result<Event, Failure> {
    let columns = EventRow {
        position: position(row)?,
        submitter: text(row, 2)?,
        tx_id: optional_text(row, 3)?.map(tx_id).transpose()?,
        seq: row.get(4)?,
        kind: text(row, 5)?,
        state: optional_text(row, 6)?,
        nonce: row.get(7)?,
        detail: optional_text(row, 8)?,
        text: optional_text(row, 9)?,
        at: time(row, 10)?,
        notice: optional_text(row, 11)?,
    };
    Ok(Event::try_from(columns)?)
}

/// Reads `commit_no, idx`, which are the first columns.
pub(crate) fn position(row: &Row<'_>) -> Result<EventPosition, Failure> {
    Ok(EventPosition { commit: unsigned("commit", row.get(0)?)?, index: unsigned("index", row.get(1)?)? })
}

/// Reads [`SLOT_COLUMNS`].
pub(crate) fn slot(row: &Row<'_>) -> Result<Slot, Failure> {
    let columns = SlotRow {
        nonce: row.get(0)?,
        kind: text(row, 1)?,
        tx_id: optional_text(row, 2)?.map(tx_id).transpose()?,
        bound_at: time(row, 3)?,
        next_resubmit_at: optional_time(row, 4)?,
        above_block: row.get(5)?,
        above_hash: row.get::<_, Option<[u8; 32]>>(6)?.map(B256::from),
        evidence: optional_text(row, 7)?,
        tries: row.get(8)?,
        signal: optional_text(row, 9)?,
    };
    Ok(Slot::try_from(columns)?)
}

/// The columns `kind` and `tx_id` of a slot.
pub(crate) fn slot_columns(kind: SlotKind) -> (&'static str, Option<String>) {
    let (word, tx_id) = slot_kind_columns(kind);
    (word, tx_id.map(|id| id.to_string()))
}

/// Reads [`CURSOR_COLUMNS`].
pub(crate) fn cursor(row: &Row<'_>) -> Result<Cursor, Failure> {
    let columns = CursorRow {
        next_nonce: row.get(0)?,
        chain_nonce: row.get(1)?,
        final_nonce: row.get(2)?,
        open_nonce: row.get(3)?,
        state: text(row, 4)?,
        protect_code: optional_text(row, 5)?,
        protect_detail: optional_text(row, 6)?,
        paused: row.get(7)?,
        version: row.get(8)?,
        event_seq: row.get(9)?,
        low_balance: row.get(10)?,
    };
    Ok(Cursor::try_from(columns)?)
}

/// Reads [`RESERVATION_COLUMNS`].
pub(crate) fn reservation(row: &Row<'_>) -> Result<Reservation, Failure> {
    let columns = ReservationRow {
        nonce: row.get(0)?,
        status: text(row, 1)?,
        tx_id: optional_text(row, 2)?.map(tx_id).transpose()?,
        lock_owner: optional_text(row, 3)?,
        locked_until: optional_time(row, 4)?,
    };
    Ok(Reservation::try_from(columns)?)
}

/// Reads `id, submitter, body, issued_by, issued_at`.
pub(crate) fn command(row: &Row<'_>) -> Result<Command, Failure> {
    let columns = CommandRow {
        id: row.get(0)?,
        submitter: text(row, 1)?,
        body: text(row, 2)?,
        issued_by: text(row, 3)?,
        issued_at: time(row, 4)?,
    };
    Ok(Command::try_from(columns)?)
}

pub(crate) fn tx_id(text: &str) -> Result<TxId, RowError> {
    text.parse().map_err(|error| RowError::new("tx_id", error))
}

pub(crate) fn hash(row: &Row<'_>, column: usize) -> Result<B256, rusqlite::Error> {
    row.get::<_, [u8; 32]>(column).map(B256::from)
}

pub(crate) fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str, rusqlite::Error> {
    Ok(row.get_ref(column)?.as_str()?)
}

pub(crate) fn optional_text<'a>(row: &'a Row<'_>, column: usize) -> Result<Option<&'a str>, rusqlite::Error> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> Result<Timestamp, rusqlite::Error> {
    row.get(column).map(Timestamp::from_micros)
}

pub(crate) fn optional_time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>, rusqlite::Error> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

/// The value of the first column.
pub(crate) fn value<T: FromSql>(row: &Row<'_>) -> Result<T, Failure> {
    Ok(row.get(0)?)
}
