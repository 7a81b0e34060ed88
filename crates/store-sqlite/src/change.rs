//! One state change of an intent, with its event: the only way in which a state changes.

use gapless_domain::{Change, ConfirmationNotice, EventKind, SubmitterId};
use gapless_store_sql::{StateRow, notice_to_json, payload_to_json, state_to_row};

use crate::error::Failure;
use crate::ledger::Writing;

/// Writes the change if the row still is what it was made from, and (for a lane's owner) was not written by a later one.
/// False if it is not.
pub(crate) fn write_change(
    writing: &Writing<'_>,
    lane: &SubmitterId,
    change: &Change,
    token: Option<i64>,
) -> Result<bool, Failure> {
    let (id, row) = (change.tx_id().to_string(), state_to_row(change.to()));
    let changed = writing
        .sql
        .prepare_cached(
            "UPDATE managed_tx SET state = ?4, sub_state = ?5, nonce = ?6, detail = ?7, version = ?8, updated_at = ?9,
                 fencing_token = coalesce(?10, fencing_token), replacement = coalesce(?11, replacement)
             WHERE tx_id = ?1 AND submitter = ?2 AND version = ?3 AND fencing_token <= coalesce(?10, fencing_token)",
        )?
        .execute((
            &id,
            lane.as_str(),
            change.from_version(),
            row.state.as_str(),
            row.sub_state.map(|name| name.as_str()),
            row.nonce,
            &row.detail,
            change.to_version(),
            writing.now.as_micros(),
            token,
            change.replacement().map(payload_to_json),
        ))?;
    if changed == 0 {
        return Ok(false);
    }
    record_event(writing, lane.as_str(), &id, change.to_version(), change.event(), &row, change.notice())?;
    Ok(true)
}

pub(crate) fn record_event(
    writing: &Writing<'_>,
    lane: &str,
    id: &str,
    seq: u32,
    kind: EventKind,
    state: &StateRow,
    notice: Option<&ConfirmationNotice>,
) -> Result<(), Failure> {
    writing
        .sql
        .prepare_cached(
            "INSERT INTO tx_event (commit_no, idx, submitter, tx_id, seq, kind, state, sub_state, nonce, detail, at,
                 notice)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute((
            writing.commit_no(),
            writing.next_event_index(),
            lane,
            id,
            seq,
            kind.as_str(),
            state.state.as_str(),
            state.sub_state.map(|name| name.as_str()),
            state.nonce,
            &state.detail,
            writing.now.as_micros(),
            notice.map(notice_to_json),
        ))?;
    Ok(())
}
