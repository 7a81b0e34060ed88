//! One state change of an intent, with its event. A state changes in no other way.

use gapless_domain::{Change, ConfirmationNotice, EventKind, SubmitterId};
use gapless_store_sql::{StateRow, notice_to_json, payload_to_json, state_to_row};

use crate::commit_statements::{IntentEventInsert, IntentUpdate};
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
    let update = IntentUpdate {
        tx_id: &id,
        state: row.state.as_str(),
        sub_state: row.sub_state.map(|name| name.as_str()),
        nonce: row.nonce,
        detail: &row.detail,
        version: change.to_version(),
        updated_at: writing.now.as_micros(),
        fencing_token: token,
        replacement: change.replacement().map(payload_to_json),
    };
    update.execute(writing.sql)?;
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
    let insert = IntentEventInsert {
        commit_no: writing.commit_no(),
        idx: writing.next_event_index(),
        submitter: lane,
        tx_id: id,
        seq,
        kind: kind.as_str(),
        state: state.state.as_str(),
        sub_state: state.sub_state.map(|name| name.as_str()),
        nonce: state.nonce,
        detail: &state.detail,
        at: writing.now.as_micros(),
        notice: notice.map(notice_to_json),
    };
    insert.execute(writing.sql)?;
    Ok(())
}
