//! Rows of PostgreSQL as domain values.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gapless_domain::{
    Attempt, B256, Command, Cursor, IntentRecord, Reservation, Slot, SlotKind, SubmitterId, Timestamp, TxId,
};
use gapless_store::RowError;
use gapless_store_sql::{
    AttemptRow, CommandRow, CursorRow, IntentRow, ReservationRow, SlotRow, slot_kind_columns, submitter,
};
use tokio_postgres::Row;
use uuid::Uuid;

pub(crate) const SLOT_COLUMNS: &str = SlotRow::COLUMNS;

/// The columns that [`intent_record`] reads, in `managed_tx` and in its archive.
pub(crate) const INTENT_COLUMNS: &str = "tx_id, seq, submitter, request_id, payload::text AS payload, speed, \
     valid_until, metadata::text AS metadata, state, nonce, detail::text AS detail, version, created_at, updated_at, \
     replacement::text AS replacement";

/// The columns that [`attempt`] reads. A lane is loaded with them: without the history of sends, which only people
/// read.
pub(crate) const ATTEMPT_COLUMNS: &str = "submitter, nonce, ordinal, kind, hash, raw, fees::text AS fees, created_at, \
     sends, last_sent_at, last_outcome, last_text";

/// The columns that [`attempt_with_history`] reads.
pub(crate) const ATTEMPT_WITH_HISTORY_COLUMNS: &str = "submitter, nonce, ordinal, kind, hash, raw, fees::text AS fees, \
     created_at, sends, last_sent_at, last_outcome, last_text, history::text AS history";

pub(crate) fn intent_record(row: &Row) -> Result<IntentRecord, RowError> {
    intent_record_of(row, submitter(get(row, "submitter")?)?)
}

/// An intent record of a known submitter: the address is not parsed for each of many rows.
pub(crate) fn intent_record_of(row: &Row, submitter: SubmitterId) -> Result<IntentRecord, RowError> {
    let columns = IntentRow {
        tx_id: TxId::from_uuid(get(row, "tx_id")?),
        seq: get(row, "seq")?,
        request_id: get(row, "request_id")?,
        payload: get(row, "payload")?,
        speed: get(row, "speed")?,
        valid_until: optional_time(row, "valid_until")?,
        metadata: get(row, "metadata")?,
        state: get(row, "state")?,
        nonce: get(row, "nonce")?,
        detail: get(row, "detail")?,
        version: i64::from(get::<i32>(row, "version")?),
        created_at: time(row, "created_at")?,
        updated_at: time(row, "updated_at")?,
        replacement: get(row, "replacement")?,
    };
    columns.into_record(submitter)
}

pub(crate) fn attempt(row: &Row) -> Result<Attempt, RowError> {
    Attempt::try_from(attempt_columns(row, None)?)
}

pub(crate) fn attempt_with_history(row: &Row) -> Result<Attempt, RowError> {
    Attempt::try_from(attempt_columns(row, Some(get(row, "history")?))?)
}

fn attempt_columns<'a>(row: &'a Row, history: Option<&'a str>) -> Result<AttemptRow<'a>, RowError> {
    Ok(AttemptRow {
        nonce: get(row, "nonce")?,
        ordinal: i64::from(get::<i16>(row, "ordinal")?),
        kind: get(row, "kind")?,
        hash: hash(get(row, "hash")?)?,
        raw: get(row, "raw")?,
        fees: get(row, "fees")?,
        created_at: time(row, "created_at")?,
        sends: i64::from(get::<i32>(row, "sends")?),
        last_sent_at: optional_time(row, "last_sent_at")?,
        last_outcome: get(row, "last_outcome")?,
        last_text: get(row, "last_text")?,
        history,
    })
}

pub(crate) fn cursor(row: &Row) -> Result<Cursor, RowError> {
    Cursor::try_from(CursorRow {
        next_nonce: get(row, "next_nonce")?,
        chain_nonce: get(row, "chain_nonce")?,
        final_nonce: get(row, "final_nonce")?,
        open_nonce: get(row, "open_nonce")?,
        state: get(row, "state")?,
        protect_code: get(row, "protect_code")?,
        protect_detail: get(row, "protect_detail")?,
        paused: get(row, "paused")?,
        version: get(row, "version")?,
        event_seq: get(row, "event_seq")?,
        low_balance: get(row, "low_balance")?,
    })
}

/// Reads [`SLOT_COLUMNS`].
pub(crate) fn slot(row: &Row) -> Result<Slot, RowError> {
    Slot::try_from(SlotRow {
        nonce: get(row, "nonce")?,
        kind: get(row, "kind")?,
        tx_id: optional_id(row, "tx_id")?,
        bound_at: time(row, "bound_at")?,
        next_resubmit_at: optional_time(row, "next_resubmit_at")?,
        above_block: get(row, "above_block")?,
        above_hash: get::<Option<&[u8]>>(row, "above_hash")?.map(hash).transpose()?,
        evidence: get(row, "evidence")?,
        tries: i64::from(get::<i32>(row, "tries")?),
        signal: get(row, "signal")?,
    })
}

pub(crate) fn slot_kind(kind: &SlotKind) -> (&'static str, Option<Uuid>) {
    let (word, tx_id) = slot_kind_columns(*kind);
    (word, tx_id.map(|id| id.uuid()))
}

/// Reads [`ReservationRow::COLUMNS`].
pub(crate) fn reservation(row: &Row) -> Result<Reservation, RowError> {
    Reservation::try_from(ReservationRow {
        nonce: get(row, "nonce")?,
        status: get(row, "status")?,
        tx_id: optional_id(row, "tx_id")?,
        lock_owner: get(row, "lock_owner")?,
        locked_until: optional_time(row, "locked_until")?,
    })
}

pub(crate) fn command(row: &Row) -> Result<Command, RowError> {
    Command::try_from(CommandRow {
        id: get(row, "id")?,
        submitter: get(row, "submitter")?,
        body: get(row, "body")?,
        issued_by: get(row, "issued_by")?,
        issued_at: time(row, "issued_at")?,
    })
}

pub(crate) fn optional_id(row: &Row, column: &'static str) -> Result<Option<TxId>, RowError> {
    Ok(get::<Option<Uuid>>(row, column)?.map(TxId::from_uuid))
}

pub(crate) fn time(row: &Row, column: &'static str) -> Result<Timestamp, RowError> {
    get(row, column).map(timestamp)
}

pub(crate) fn optional_time(row: &Row, column: &'static str) -> Result<Option<Timestamp>, RowError> {
    Ok(get::<Option<SystemTime>>(row, column)?.map(timestamp))
}

pub(crate) fn hash(bytes: &[u8]) -> Result<B256, RowError> {
    B256::try_from(bytes).map_err(|error| RowError::new("hash", error))
}

pub(crate) fn version(value: i32) -> Result<u32, RowError> {
    u32::try_from(value).map_err(|error| RowError::new("version", error))
}

pub(crate) fn ordinal(value: i16) -> Result<u16, RowError> {
    u16::try_from(value).map_err(|error| RowError::new("ordinal", error))
}

/// The value of a column. A row that lacks the column, or holds another type, is an error and not a panic.
pub(crate) fn get<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    column: &'static str,
) -> Result<T, RowError> {
    row.try_get(column).map_err(|error| RowError::new(column, error))
}

pub(crate) fn timestamp(time: SystemTime) -> Timestamp {
    let micros = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
    };
    Timestamp::from_micros(micros)
}

pub(crate) fn system_time(timestamp: Timestamp) -> SystemTime {
    let span = Duration::from_micros(timestamp.as_micros().unsigned_abs());
    let time = if timestamp.as_micros() < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
    time.unwrap_or(UNIX_EPOCH)
}

/// A span as whole microseconds. Statements take intervals like this: `$1::bigint * interval '1 microsecond'`.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
