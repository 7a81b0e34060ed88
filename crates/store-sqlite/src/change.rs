//! One state change of an intent, with its event. A state changes in no other way.

use gapless_domain::{Change, ConfirmationNotice, EventKind, SubmitterId};
use gapless_store_sql::{StateRow, notice_to_json, payload_to_json, state_to_row};

use crate::error::Failure;
use crate::ledger::Writing;

/// Writes a change to a row that has the change's first version. The lane's owner writes its token; a cancellation in
/// the queue has none, and leaves the token as it is.
pub(crate) fn write_change(
    writing: &Writing<'_>,
    lane: &SubmitterId,
    change: &Change,
    token: Option<i64>,
) -> Result<(), Failure> {
    let (id, row) = (change.tx_id().to_string(), state_to_row(change.to()));
    writing
        .sql
        .prepare_cached(
            "UPDATE managed_tx SET state = ?2, sub_state = ?3, nonce = ?4, detail = ?5, version = ?6, updated_at = ?7,
                 fencing_token = coalesce(?8, fencing_token), replacement = coalesce(?9, replacement)
             WHERE tx_id = ?1",
        )?
        .execute((
            &id,
            row.state.as_str(),
            row.sub_state.map(|name| name.as_str()),
            row.nonce,
            &row.detail,
            change.to_version(),
            writing.now.as_micros(),
            token,
            change.replacement().map(payload_to_json),
        ))?;
    record_event(writing, lane.as_str(), &id, change.to_version(), change.event(), &row, change.notice())
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
