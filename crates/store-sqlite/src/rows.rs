//! Rows of SQLite as domain values.

use gapless_domain::{
    Attempt, AttemptKind, B256, Bytes, Command, CommandId, Cursor, Event, EventBody, EventKind, EventPosition, Intent,
    IntentRecord, LaneEventKind, LaneState, LockOwner, MempoolSignal, Metadata, NodeText, ProtectCode, Protection,
    RequestId, Reservation, ReservationStatus, SendOutcome, Slot, SlotKind, Speed, SubmitterId, Timestamp, TxId,
};
use gapless_store::codec::{
    RowError, above, command_from_json, fees_from_json, nonce, notice_from_json, payload_from_json, sends_from_json,
    state_from_row, submitter, tries, unsigned, word,
};
use rusqlite::types::FromSql;
use rusqlite::{CachedStatement, Params, Row};

use crate::error::Failure;

pub(crate) const TX_COLUMNS: &str = "tx_id, seq, submitter, request_id, payload, speed, valid_until, metadata, state, \
     nonce, detail, version, created_at, updated_at, replacement";

/// The columns of an attempt without the history of its sends, which no lane needs.
pub(crate) const ATTEMPT_COLUMNS: &str =
    "nonce, ordinal, kind, hash, raw, fees, created_at, sends, last_sent_at, last_outcome, last_text";

pub(crate) const TOLD_ATTEMPT_COLUMNS: &str =
    "nonce, ordinal, kind, hash, raw, fees, created_at, sends, last_sent_at, last_outcome, last_text, history";

pub(crate) const EVENT_COLUMNS: &str =
    "commit_no, idx, submitter, tx_id, seq, kind, state, nonce, detail, text, at, notice";

pub(crate) const CURSOR_COLUMNS: &str = "next_nonce, chain_nonce, final_nonce, open_nonce, state, protect_code, \
     protect_detail, paused, version, event_seq, low_balance";

pub(crate) const SLOT_COLUMNS: &str =
    "nonce, kind, tx_id, bound_at, next_resubmit_at, above_block, above_hash, evidence, tries, signal";

pub(crate) const RESERVATION_COLUMNS: &str = "nonce, status, tx_id, lock_owner, locked_until";

/// Every row of an answer, through one of the readers below.
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

/// The first of [`TX_COLUMNS`].
pub(crate) fn id(row: &Row<'_>) -> Result<TxId, Failure> {
    Ok(tx_id(&text(row, 0)?)?)
}

/// Reads [`TX_COLUMNS`].
pub(crate) fn managed_tx(row: &Row<'_>) -> Result<IntentRecord, Failure> {
    managed_tx_of(row, submitter(&text(row, 2)?)?)
}

/// Reads [`TX_COLUMNS`] of a known submitter. The rows share its id, and the address is not parsed for each row.
pub(crate) fn managed_tx_of(row: &Row<'_>, submitter: SubmitterId) -> Result<IntentRecord, Failure> {
    let intent = Intent::restore(
        submitter,
        RequestId::restore(&text(row, 3)?),
        payload_from_json(&text(row, 4)?)?,
        word("speed", &text(row, 5)?, Speed::parse)?,
        row.get::<_, Option<i64>>(6)?.map(Timestamp::from_micros),
        row.get::<_, Option<String>>(7)?.map(Metadata::restore),
    );
    Ok(IntentRecord {
        id: id(row)?,
        seq: unsigned("seq", row.get(1)?)?,
        intent,
        replacement: row.get::<_, Option<String>>(14)?.as_deref().map(payload_from_json).transpose()?,
        state: state_from_row(&text(row, 8)?, row.get(9)?, &text(row, 10)?)?,
        version: row.get(11)?,
        created_at: time(row, 12)?,
        updated_at: time(row, 13)?,
    })
}

/// Reads [`ATTEMPT_COLUMNS`].
pub(crate) fn attempt(row: &Row<'_>) -> Result<Attempt, Failure> {
    let outcome: Option<String> = row.get(9)?;
    let said: Option<String> = row.get(10)?;
    let last_outcome = match (outcome, said) {
        (Some(outcome), said) => {
            Some((word("outcome", &outcome, SendOutcome::parse)?, NodeText::new(&said.unwrap_or_default())))
        }
        (None, _) => None,
    };
    Ok(Attempt {
        nonce: nonce(row.get(0)?)?,
        ordinal: row.get(1)?,
        kind: word("attempt kind", &text(row, 2)?, AttemptKind::parse)?,
        hash: hash(row, 3)?,
        raw: Bytes::from(row.get::<_, Vec<u8>>(4)?),
        fees: fees_from_json(&text(row, 5)?)?,
        created_at: time(row, 6)?,
        sends: row.get(7)?,
        last_sent_at: row.get::<_, Option<i64>>(8)?.map(Timestamp::from_micros),
        last_outcome,
        history: Vec::new(),
    })
}

/// Reads [`TOLD_ATTEMPT_COLUMNS`].
pub(crate) fn told_attempt(row: &Row<'_>) -> Result<Attempt, Failure> {
    Ok(Attempt { history: sends_from_json(&text(row, 11)?)?, ..attempt(row)? })
}

/// Reads [`EVENT_COLUMNS`].
pub(crate) fn event(row: &Row<'_>) -> Result<Event, Failure> {
    let kind = text(row, 5)?;
    let body = match row.get::<_, Option<String>>(3)? {
        Some(id) => EventBody::Tx {
            tx_id: tx_id(&id)?,
            seq: row.get(4)?,
            kind: word("event kind", &kind, EventKind::parse)?,
            state: state_from_row(&text(row, 6)?, row.get(7)?, &text(row, 8)?)?,
            notice: row.get::<_, Option<String>>(11)?.as_deref().map(notice_from_json).transpose()?,
        },
        None => EventBody::Lane {
            seq: unsigned("event seq", row.get(4)?)?,
            kind: word("event kind", &kind, LaneEventKind::parse)?,
            text: NodeText::new(&text(row, 9)?),
        },
    };
    Ok(Event {
        position: EventPosition { commit: unsigned("commit", row.get(0)?)?, index: unsigned("index", row.get(1)?)? },
        submitter: submitter(&text(row, 2)?)?,
        at: time(row, 10)?,
        body,
    })
}

/// Reads [`SLOT_COLUMNS`].
pub(crate) fn slot(row: &Row<'_>) -> Result<Slot, Failure> {
    let owner: Option<String> = row.get(2)?;
    // The table's CHECK allows "fill" too. No release ever wrote such a slot, so a row with it is damaged.
    let kind = match (text(row, 1)?.as_str(), owner) {
        ("intent", Some(id)) => SlotKind::Intent(tx_id(&id)?),
        ("reservation", None) => SlotKind::Reservation,
        ("foreign", None) => SlotKind::Foreign,
        (other, _) => return Err(RowError::new("slot kind", other).into()),
    };
    Ok(Slot {
        nonce: nonce(row.get(0)?)?,
        kind,
        above: above(row.get(5)?, row.get::<_, Option<[u8; 32]>>(6)?.map(B256::from))?,
        evidence: row.get::<_, Option<String>>(7)?.as_deref().map(NodeText::new),
        bound_at: time(row, 3)?,
        next_resubmit_at: row.get::<_, Option<i64>>(4)?.map(Timestamp::from_micros),
        tries: tries(row.get(8)?)?,
        signal: row
            .get::<_, Option<String>>(9)?
            .map(|signal| word("signal", &signal, MempoolSignal::parse))
            .transpose()?,
    })
}

/// A slot's kind and intent as columns.
pub(crate) fn slot_columns(kind: SlotKind) -> (&'static str, Option<String>) {
    match kind {
        SlotKind::Intent(id) => ("intent", Some(id.to_string())),
        SlotKind::Reservation => ("reservation", None),
        SlotKind::Foreign => ("foreign", None),
    }
}

/// Reads [`CURSOR_COLUMNS`].
pub(crate) fn cursor(row: &Row<'_>) -> Result<Cursor, Failure> {
    let state = match text(row, 4)?.as_str() {
        "IDLE" => LaneState::Idle,
        "IN_FLIGHT" => LaneState::InFlight,
        "PROTECT" => LaneState::Protect(protection(&text(row, 5)?, &text(row, 6)?)?),
        other => return Err(RowError::new("lane state", other).into()),
    };
    Ok(Cursor {
        next_nonce: nonce(row.get(0)?)?,
        chain_nonce: nonce(row.get(1)?)?,
        final_nonce: nonce(row.get(2)?)?,
        open_nonce: nonce(row.get(3)?)?,
        state,
        paused: row.get(7)?,
        low_balance: row.get(10)?,
        version: unsigned("cursor version", row.get(8)?)?,
        event_seq: unsigned("event_seq", row.get(9)?)?,
    })
}

/// Reads [`RESERVATION_COLUMNS`].
pub(crate) fn reservation(row: &Row<'_>) -> Result<Reservation, Failure> {
    let intent: Option<TxId> = row.get::<_, Option<String>>(2)?.as_deref().map(tx_id).transpose()?;
    let status = match (text(row, 1)?.as_str(), intent) {
        ("RESERVED", Some(tx_id)) => {
            let owner = text(row, 3)?;
            let lock_owner = LockOwner::new(&owner).ok_or_else(|| RowError::new("lock_owner", owner))?;
            ReservationStatus::Reserved { tx_id, lock_owner, locked_until: time(row, 4)? }
        }
        ("USED", tx_id) => ReservationStatus::Used { tx_id },
        ("RECYCLABLE", None) => ReservationStatus::Recyclable,
        (other, _) => return Err(RowError::new("reservation status", other).into()),
    };
    Ok(Reservation { nonce: nonce(row.get(0)?)?, status })
}

pub(crate) fn protection(code: &str, detail: &str) -> Result<Protection, RowError> {
    Ok(Protection { code: word("protect code", code, ProtectCode::parse)?, detail: NodeText::new(detail) })
}

/// Reads `id, submitter, body, issued_by, issued_at`.
pub(crate) fn command(row: &Row<'_>) -> Result<Command, Failure> {
    Ok(Command {
        id: CommandId(unsigned("command id", row.get(0)?)?),
        submitter: submitter(&text(row, 1)?)?,
        kind: command_from_json(&text(row, 2)?)?,
        issued_by: NodeText::new(&text(row, 3)?),
        issued_at: time(row, 4)?,
    })
}

pub(crate) fn tx_id(text: &str) -> Result<TxId, RowError> {
    text.parse().map_err(|error| RowError::new("tx_id", error))
}

pub(crate) fn hash(row: &Row<'_>, column: usize) -> Result<B256, rusqlite::Error> {
    row.get::<_, [u8; 32]>(column).map(B256::from)
}

pub(crate) fn text(row: &Row<'_>, column: usize) -> Result<String, rusqlite::Error> {
    row.get(column)
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> Result<Timestamp, rusqlite::Error> {
    row.get(column).map(Timestamp::from_micros)
}

/// The first column, as it is.
pub(crate) fn value<T: FromSql>(row: &Row<'_>) -> Result<T, Failure> {
    Ok(row.get(0)?)
}
