//! Rows of PostgreSQL as domain values.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gapless_domain::{
    Attempt, AttemptKind, B256, Bytes, Command, CommandId, Cursor, Intent, IntentRecord, LaneState, LockOwner,
    MempoolSignal, Metadata, NodeText, ProtectCode, Protection, RequestId, Reservation, ReservationStatus, SendOutcome,
    Slot, SlotKind, Speed, SubmitterId, Timestamp, TxId,
};
use gapless_store::codec::{
    RowError, above, command_from_json, fees_from_json, nonce, payload_from_json, sends_from_json, state_from_row,
    submitter, tries, unsigned, word,
};
use tokio_postgres::Row;
use uuid::Uuid;

/// The columns that [`managed_tx`] reads, for `SELECT … FROM managed_tx` and its archive alike.
pub(crate) const TX_COLUMNS: &str = "tx_id, seq, submitter, request_id, payload::text AS payload, speed, valid_until, \
     metadata::text AS metadata, state, nonce, detail::text AS detail, version, created_at, updated_at, \
     replacement::text AS replacement";

/// As a lane is loaded: without the history of its sends, which only people read.
pub(crate) const ATTEMPT_COLUMNS: &str = "submitter, nonce, ordinal, kind, hash, raw, fees::text AS fees, created_at, sends, \
     last_sent_at, last_outcome, last_text";

pub(crate) const TOLD_ATTEMPT_COLUMNS: &str = "submitter, nonce, ordinal, kind, hash, raw, fees::text AS fees, created_at, sends, \
     last_sent_at, last_outcome, last_text, history::text AS history";

pub(crate) const SLOT_COLUMNS: &str =
    "submitter, nonce, kind, tx_id, bound_at, next_resubmit_at, above_block, above_hash, evidence, tries, signal";

pub(crate) fn managed_tx(row: &Row) -> Result<IntentRecord, RowError> {
    managed_tx_of(row, submitter(get(row, "submitter")?)?)
}

/// The same where it is known whose it is: an address is not checked for each of many rows, and they share it.
pub(crate) fn managed_tx_of(row: &Row, submitter: SubmitterId) -> Result<IntentRecord, RowError> {
    let metadata: Option<String> = get(row, "metadata")?;
    let valid_until: Option<SystemTime> = get(row, "valid_until")?;
    let intent = Intent::restore(
        submitter,
        RequestId::restore(get(row, "request_id")?),
        payload_from_json(get(row, "payload")?)?,
        word("speed", get(row, "speed")?, Speed::parse)?,
        valid_until.map(timestamp),
        metadata.map(Metadata::restore),
    );
    Ok(IntentRecord {
        id: TxId::from_uuid(get(row, "tx_id")?),
        seq: unsigned("seq", get(row, "seq")?)?,
        intent,
        replacement: get::<Option<&str>>(row, "replacement")?.map(payload_from_json).transpose()?,
        state: state_from_row(get(row, "state")?, get(row, "nonce")?, get(row, "detail")?)?,
        version: version(get(row, "version")?)?,
        created_at: timestamp(get(row, "created_at")?),
        updated_at: timestamp(get(row, "updated_at")?),
    })
}

pub(crate) fn attempt(row: &Row) -> Result<Attempt, RowError> {
    let outcome: Option<&str> = get(row, "last_outcome")?;
    let text: Option<&str> = get(row, "last_text")?;
    let last_outcome = match outcome {
        None => None,
        Some(outcome) => Some((word("outcome", outcome, SendOutcome::parse)?, NodeText::new(text.unwrap_or_default()))),
    };
    let raw: &[u8] = get(row, "raw")?;
    Ok(Attempt {
        nonce: nonce(get(row, "nonce")?)?,
        ordinal: ordinal(get(row, "ordinal")?)?,
        kind: word("attempt kind", get(row, "kind")?, AttemptKind::parse)?,
        hash: hash(get(row, "hash")?)?,
        raw: Bytes::copy_from_slice(raw),
        fees: fees_from_json(get(row, "fees")?)?,
        created_at: timestamp(get(row, "created_at")?),
        sends: version(get(row, "sends")?)?,
        last_sent_at: get::<Option<SystemTime>>(row, "last_sent_at")?.map(timestamp),
        last_outcome,
        history: Vec::new(),
    })
}

/// Reads [`TOLD_ATTEMPT_COLUMNS`].
pub(crate) fn told_attempt(row: &Row) -> Result<Attempt, RowError> {
    Ok(Attempt { history: sends_from_json(get(row, "history")?)?, ..attempt(row)? })
}

pub(crate) fn cursor(row: &Row) -> Result<Cursor, RowError> {
    let code: Option<&str> = get(row, "protect_code")?;
    let detail: Option<&str> = get(row, "protect_detail")?;
    Ok(Cursor {
        next_nonce: nonce(get(row, "next_nonce")?)?,
        chain_nonce: nonce(get(row, "chain_nonce")?)?,
        final_nonce: nonce(get(row, "final_nonce")?)?,
        open_nonce: nonce(get(row, "open_nonce")?)?,
        state: lane_state(get(row, "state")?, code, detail)?,
        paused: get(row, "paused")?,
        low_balance: get(row, "low_balance")?,
        version: unsigned("version", get(row, "version")?)?,
        event_seq: unsigned("event_seq", get(row, "event_seq")?)?,
    })
}

pub(crate) fn lane_state(state: &str, code: Option<&str>, detail: Option<&str>) -> Result<LaneState, RowError> {
    match state {
        "IDLE" => Ok(LaneState::Idle),
        "IN_FLIGHT" => Ok(LaneState::InFlight),
        "PROTECT" => Ok(LaneState::Protect(protection(code, detail)?)),
        other => Err(RowError::new("lane state", other)),
    }
}

pub(crate) fn protection(code: Option<&str>, detail: Option<&str>) -> Result<Protection, RowError> {
    let code = word("protect code", code.unwrap_or_default(), ProtectCode::parse)?;
    Ok(Protection { code, detail: NodeText::new(detail.unwrap_or_default()) })
}

pub(crate) fn slot(row: &Row) -> Result<Slot, RowError> {
    let tx_id: Option<Uuid> = get(row, "tx_id")?;
    // The table's CHECK allows "fill" too. No release ever wrote such a slot, so a row with it is damaged.
    let kind = match (get(row, "kind")?, tx_id) {
        ("intent", Some(id)) => SlotKind::Intent(TxId::from_uuid(id)),
        ("reservation", None) => SlotKind::Reservation,
        ("foreign", None) => SlotKind::Foreign,
        (kind, _) => return Err(RowError::new("slot kind", kind)),
    };
    let signal: Option<&str> = get(row, "signal")?;
    Ok(Slot {
        nonce: nonce(get(row, "nonce")?)?,
        kind,
        above: above(get(row, "above_block")?, get::<Option<&[u8]>>(row, "above_hash")?.map(hash).transpose()?)?,
        evidence: get::<Option<&str>>(row, "evidence")?.map(NodeText::new),
        bound_at: timestamp(get(row, "bound_at")?),
        next_resubmit_at: get::<Option<SystemTime>>(row, "next_resubmit_at")?.map(timestamp),
        tries: tries(i64::from(get::<i32>(row, "tries")?))?,
        signal: signal.map(|signal| word("signal", signal, MempoolSignal::parse)).transpose()?,
    })
}

pub(crate) fn slot_kind(kind: &SlotKind) -> (&'static str, Option<Uuid>) {
    match kind {
        SlotKind::Intent(id) => ("intent", Some(id.uuid())),
        SlotKind::Reservation => ("reservation", None),
        SlotKind::Foreign => ("foreign", None),
    }
}

pub(crate) fn reservation(row: &Row) -> Result<Reservation, RowError> {
    let tx_id: Option<Uuid> = get(row, "tx_id")?;
    let owner: Option<&str> = get(row, "lock_owner")?;
    let until: Option<SystemTime> = get(row, "locked_until")?;
    let status = match (get::<&str>(row, "status")?, tx_id, owner.and_then(LockOwner::new), until) {
        ("RESERVED", Some(id), Some(lock_owner), Some(until)) => {
            ReservationStatus::Reserved { tx_id: TxId::from_uuid(id), lock_owner, locked_until: timestamp(until) }
        }
        ("USED", id, ..) => ReservationStatus::Used { tx_id: id.map(TxId::from_uuid) },
        ("RECYCLABLE", ..) => ReservationStatus::Recyclable,
        (status, ..) => return Err(RowError::new("reservation", status)),
    };
    Ok(Reservation { nonce: nonce(get(row, "nonce")?)?, status })
}

pub(crate) fn command(row: &Row) -> Result<Command, RowError> {
    Ok(Command {
        id: CommandId(unsigned("command id", get(row, "id")?)?),
        submitter: submitter(get(row, "submitter")?)?,
        kind: command_from_json(get(row, "body")?)?,
        issued_by: NodeText::new(get(row, "issued_by")?),
        issued_at: timestamp(get(row, "issued_at")?),
    })
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

/// A column that must be there; a row that lacks it, or holds another type, is damage and not a panic.
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

/// A span as whole microseconds, which is how intervals are passed: `$1::bigint * interval '1 microsecond'`.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
