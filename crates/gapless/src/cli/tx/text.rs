//! Text output of a transaction.

use gapless_wire::{CallPayload, ConfirmationNoticeView, ReceiptStatus, ReceiptView, TxEventName, TxEventView, TxView};

use crate::cli::attempts::{attempt_rows, words};
use crate::cli::table::columns;

/// The state of a transaction in one line.
pub(super) fn state_line(view: &TxView) -> String {
    let mut text = view.state.to_string();
    if let Some(sub_state) = view.sub_state {
        text.push_str(&format!(" {sub_state}"));
    }
    if let Some(confirmations) = view.confirmations {
        let blocks = if confirmations == 1 { "confirmation" } else { "confirmations" };
        text.push_str(&format!(" ({confirmations} {blocks})"));
    }
    // The reason of a final transaction says already that it was reverted.
    let reverted = view.receipt.as_ref().is_some_and(|receipt| receipt.status == ReceiptStatus::Reverted);
    if reverted && view.reason.is_none() {
        text.push_str(", reverted");
    }
    if let Some(reason) = &view.reason {
        text.push_str(&format!(": {}", reason.code));
        if let Some(detail) = &reason.text {
            text.push_str(&format!(" ({detail})"));
        }
    }
    text
}

/// A line for each event of the view; the last line also has the current state.
pub(super) fn event_lines(view: &TxView) -> String {
    let mut lines = Vec::new();
    let mut last = format!("{}  {}", view.updated_at, state_line(view));
    for event in view.events.iter().flatten() {
        if event.seq == view.version {
            last = format!("{}  {}: {}{}", event.at, event.event, state_line(view), confirmations_text(event));
        } else {
            lines.push(format!("{}  {}: {}{}", event.at, event.event, event_state(event), confirmations_text(event)));
        }
    }
    lines.push(last);
    lines.join("\n")
}

/// The full text of a transaction: its facts, then a table of its attempts.
pub(super) fn full_text(view: &TxView) -> String {
    let mut rows = vec![
        row("transaction", &view.tx_id),
        row("submitter", &view.submitter),
        row("request id", &view.request_id),
        row("state", &state_line(view)),
    ];
    rows.extend(view.nonce.map(|nonce| row("nonce", &nonce.to_string())));
    rows.extend(view.hash.as_deref().map(|hash| row("hash", hash)));
    if let Some(receipt) = &view.receipt {
        rows.push(row("block", &format!("{} {}", receipt.block_number, receipt.block_hash)));
        rows.extend(view.confirmations.map(|count| row("confirmations", &count.to_string())));
        rows.push(row("gas used", &format!("{} at {} wei", receipt.gas_used, receipt.effective_gas_price)));
        rows.push(row("paid", &paid(receipt)));
        rows.push(row("mined attempt", receipt.attempt_kind.as_str()));
        if let Some(revert) = &receipt.revert {
            let data = if revert.data == "0x" { "without a reason" } else { &revert.data };
            rows.push(row("reverted", revert.reason.as_deref().unwrap_or(data)));
        }
    }
    rows.extend(view.payload.iter().flat_map(|payload| payload_rows(payload, "")));
    rows.extend(view.replacement.iter().flat_map(|payload| payload_rows(payload, "new ")));
    let mined = view.receipt.as_ref().and_then(|receipt| receipt.mined_payload.as_ref());
    rows.extend(mined.into_iter().flat_map(|payload| payload_rows(payload, "mined ")));
    rows.extend(view.tries.map(|tries| row("tries", &tries.to_string())));
    rows.extend(view.signal.map(|signal| row("pools show", &words(signal.as_str()))));
    rows.extend(view.valid_until.as_deref().map(|until| row("valid until", until)));
    rows.extend(view.metadata.as_ref().map(|metadata| row("metadata", metadata.get())));
    rows.push(row("created", &view.created_at));
    rows.push(row("changed", &view.updated_at));
    rows.extend(view.events.iter().flatten().map(|event| row("event", &one_event(event))));
    let blocks = view.confirmation_list.iter().flatten();
    rows.extend(blocks.map(|block| row("confirmed by", &format!("{} {}", block.block_number, block.block_hash))));
    let attempts = match view.attempts.as_deref() {
        None | Some([]) => String::new(),
        Some(attempts) => format!("\n{}", columns(&attempt_rows(attempts))),
    };
    format!("{}{attempts}", columns(&rows))
}

/// The rows of a payload. `name` is the prefix of each row's name.
fn payload_rows(payload: &CallPayload, name: &str) -> Vec<[String; 2]> {
    let mut rows = vec![row(&format!("{name}to"), payload.to.as_deref().unwrap_or("(creates a contract)"))];
    rows.extend(payload.value.as_deref().map(|value| row(&format!("{name}value"), &format!("{value} wei"))));
    rows.extend(payload.data.as_deref().filter(|data| *data != "0x").map(|data| row(&format!("{name}data"), data)));
    rows
}

fn paid(receipt: &ReceiptView) -> String {
    let bumps = match receipt.bumps {
        None | Some(0) => String::new(),
        Some(1) => ", after 1 bump".to_owned(),
        Some(bumps) => format!(", after {bumps} bumps"),
    };
    let bump_cost = receipt.bump_cost.as_deref().filter(|cost| *cost != "0");
    let bump_cost = bump_cost.map(|cost| format!(", {cost} wei of it because of bumps")).unwrap_or_default();
    format!("{} wei{bumps}{bump_cost}", receipt.fee_paid)
}

fn one_event(event: &TxEventView) -> String {
    format!("{} {} {}: {}{}", event.at, event.seq, event.event, event_state(event), confirmations_text(event))
}

fn event_state(event: &TxEventView) -> String {
    let sub_state = event.sub_state.map(|sub_state| format!(" {sub_state}")).unwrap_or_default();
    format!("{}{sub_state}", event.state)
}

/// The confirming blocks that an event adds, and whether they are of a new fork.
fn confirmations_text(event: &TxEventView) -> String {
    let Some(ConfirmationNoticeView { new_fork, blocks }) = &event.confirmations else { return String::new() };
    let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return String::new() };
    // The first block of a transaction begins a new list, but it replaces no other fork.
    let fork = if *new_fork && event.event != TxEventName::MINE { "new fork, " } else { "" };
    match first.block_number == last.block_number {
        true => format!(", {fork}block {} {}", last.block_number, last.block_hash),
        false => format!(", {fork}blocks {} to {} {}", first.block_number, last.block_number, last.block_hash),
    }
}

fn row(name: &str, value: &str) -> [String; 2] {
    [name.to_owned(), value.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_wire::RevertView;
    use serde_json::json;

    fn view(version: u32, reason: serde_json::Value) -> TxView {
        let block =
            |number: u64| json!({"blockNumber": number, "blockHash": format!("0x{number}"), "parentHash": "0x"});
        let event = |seq: u32, name: &str, notice: serde_json::Value| {
            json!({"seq": seq, "event": name, "state": "TRACKING", "subState": "MINED", "at": format!("00:0{seq}"),
                "confirmations": notice})
        };
        let attempts = json!([
            {"nonce": 7, "ordinal": 0, "kind": "original", "hash": "0xaa", "fees": {"gasPrice": "5"},
                "createdAt": "00:01", "sends": 1,
                "lastSentAt": "00:02", "lastOutcome": {"code": "nonce_too_high", "text": "too high"}},
            {"nonce": 7, "ordinal": 1, "kind": "bump", "hash": "0xbb",
                "fees": {"maxFeePerGas": "20", "maxPriorityFeePerGas": "2"}, "maxCost": "420000", "createdAt": "00:03",
                "sends": 2, "lastSentAt": "00:04",
                "history": [{"at": "00:04", "outcome": "accepted", "text": "0xbb", "heard": [
                    {"endpoint": "a:8545", "outcome": "accepted"},
                    {"endpoint": "b:8545", "outcome": "replacement_underpriced", "text": "underpriced"}]}]},
            {"nonce": 7, "ordinal": 2, "kind": "cancel", "hash": "0xff", "fees": {"gasPrice": "30"},
                "createdAt": "00:05", "sends": 0},
        ]);
        let tx = json!({
            "txId": "id", "submitter": "eip155:1:0x1", "requestId": "r", "state": "TRACKING", "subState": "MINED",
            "version": version, "speed": "standard", "createdAt": "00:00", "updatedAt": "00:09", "confirmations": 3,
            "reason": reason,
            "receipt": {"blockNumber": 7, "blockHash": "0x7", "status": "reverted", "gasUsed": 1,
                "effectiveGasPrice": "2", "feePaid": "2", "attemptKind": "bump", "bumps": 2, "bumpCost": "1",
                "minedPayload": {"to": "0xee", "value": "9"}, "revert": {"reason": "too poor", "data": "0x08"}},
            "events": [
                event(3, "mine", json!({"newFork": true, "blocks": [block(7)]})),
                event(4, "confirm", json!({"newFork": false, "blocks": [block(8), block(9)]})),
                event(5, "confirm", json!({"newFork": true, "blocks": [block(7), block(8)]})),
            ],
            "confirmationList": [block(7), block(8)],
            "payload": {"to": "0xcc", "value": "8"}, "replacement": {"to": "0xdd", "value": "9", "data": "0x01"},
            "tries": 3, "signal": "likely_dropped",
            "attempts": attempts,
        });
        serde_json::from_value(tx).unwrap()
    }

    #[test]
    fn event_lines_end_with_the_current_state() {
        let expected = "\
00:03  mine: TRACKING MINED, block 7 0x7
00:04  confirm: TRACKING MINED, blocks 8 to 9 0x9
00:05  confirm: TRACKING MINED (3 confirmations), reverted, new fork, blocks 7 to 8 0x8";
        assert_eq!(event_lines(&view(5, json!(null))), expected);
        let without = TxView { events: None, ..view(5, json!({"code": "reverted", "text": "too poor"})) };
        assert_eq!(event_lines(&without), "00:09  TRACKING MINED (3 confirmations): reverted (too poor)");
        // The server sends only the first events, so the last line takes the state from the view.
        let last_line = "\n00:09  TRACKING MINED (3 confirmations), reverted";
        assert!(event_lines(&view(2000, json!(null))).ends_with(last_line));
    }

    #[test]
    fn attempts_are_listed_with_sends_and_answers() {
        let text = full_text(&view(5, json!(null)));
        let (facts, attempts) = text.split_once("\n\n").unwrap();
        let expected = "\
original    0xaa    5 wei/gas                                  nonce 7, signed 00:01, sent once
  sent      00:02   nonce too high                             too high
bump        0xbb    20/2 wei/gas, at most 420000 wei in total  nonce 7, signed 00:03, sent 2 times, the last 1 shown
  sent      00:04   accepted
    answer  a:8545  accepted
    answer  b:8545  replacement underpriced                    underpriced
cancel      0xff    30 wei/gas                                 nonce 7, signed 00:05, never sent
";
        assert_eq!(attempts, expected);
        for line in [
            "to             0xcc",
            "new to         0xdd",
            "new data       0x01",
            "mined value    9 wei",
            "paid           2 wei, after 2 bumps, 1 wei of it because of bumps",
            "mined attempt  bump",
            "tries          3",
            "pools show     likely dropped",
        ] {
            assert!(facts.contains(line), "{line}: {facts}");
        }
    }

    #[test]
    fn revert_reason_and_confirming_blocks_are_shown() {
        let text = full_text(&view(5, json!(null)));
        for line in ["confirmations  3", "reverted       too poor", "confirmed by   8 0x8"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let mut silent = view(5, json!(null));
        silent.receipt.iter_mut().for_each(|receipt| {
            receipt.revert = Some(RevertView { reason: None, data: "0x".to_owned() });
        });
        assert!(full_text(&silent).contains("reverted       without a reason"));
    }
}
