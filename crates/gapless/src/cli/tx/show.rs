//! A transaction for people.

use gapless_wire::{AttemptView, TxEventView, TxView};

use crate::cli::table::columns;

/// One line: where it stands.
pub(super) fn state(view: &TxView) -> String {
    let mut text = view.state.to_string();
    if let Some(sub_state) = view.sub_state {
        text.push_str(&format!(" {sub_state}"));
    }
    if let Some(confirmations) = view.confirmations {
        let blocks = if confirmations == 1 { "confirmation" } else { "confirmations" };
        text.push_str(&format!(" ({confirmations} {blocks})"));
    }
    if let Some(reason) = &view.reason {
        text.push_str(&format!(": {}", reason.code));
        if let Some(detail) = &reason.text {
            text.push_str(&format!(" ({detail})"));
        }
    }
    text
}

/// A line with its time, for those who read along.
pub(super) fn line(view: &TxView) -> String {
    format!("{}  {}", view.updated_at, state(view))
}

/// Everything that there is to know.
pub(super) fn whole(view: &TxView) -> String {
    let mut rows = vec![
        row("transaction", &view.tx_id),
        row("submitter", &view.submitter),
        row("request id", &view.request_id),
        row("state", &state(view)),
    ];
    rows.extend(view.nonce.map(|nonce| row("nonce", &nonce.to_string())));
    rows.extend(view.hash.as_deref().map(|hash| row("hash", hash)));
    if let Some(receipt) = &view.receipt {
        rows.push(row("block", &format!("{} {}", receipt.block_number, receipt.block_hash)));
        rows.push(row("gas used", &format!("{} at {} wei", receipt.gas_used, receipt.effective_gas_price)));
        if let Some(revert) = &receipt.revert {
            rows.push(row("reverted", revert.reason.as_deref().unwrap_or(&revert.data)));
        }
    }
    if let Some(payload) = &view.payload {
        rows.push(row("to", payload.to.as_deref().unwrap_or("(creates a contract)")));
        rows.extend(payload.value.as_deref().map(|value| row("value", &format!("{value} wei"))));
        rows.extend(payload.data.as_deref().filter(|data| *data != "0x").map(|data| row("data", data)));
    }
    rows.extend(view.valid_until.as_deref().map(|until| row("valid until", until)));
    rows.extend(view.metadata.as_ref().map(|metadata| row("metadata", metadata.get())));
    rows.push(row("created", &view.created_at));
    rows.push(row("changed", &view.updated_at));
    rows.extend(view.attempts.iter().flatten().map(|attempt| row("attempt", &one_attempt(attempt))));
    rows.extend(view.events.iter().flatten().map(|event| row("event", &one_event(event))));
    columns(&rows)
}

fn one_attempt(attempt: &AttemptView) -> String {
    let outcome = attempt.last_outcome.as_ref().map_or("not answered", |outcome| outcome.code.as_str());
    format!("{} {} {}, sent {} times, {outcome}", attempt.nonce, attempt.kind, attempt.hash, attempt.sends)
}

fn one_event(event: &TxEventView) -> String {
    let sub_state = event.sub_state.map(|sub_state| format!(" {sub_state}")).unwrap_or_default();
    format!("{} {} {}: {}{sub_state}", event.at, event.seq, event.event, event.state)
}

fn row(name: &str, value: &str) -> [String; 2] {
    [name.to_owned(), value.to_owned()]
}
