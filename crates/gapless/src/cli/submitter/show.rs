//! A submitter for people who were woken at night: what is wrong and what to do about it first, then everything else.

use gapless_domain::ProtectCode;
use gapless_wire::{
    AttemptView, ChainView, LowestUnminedView, NoncesView, ProtectView, SlotKindName, SlotView, SubmitterView,
};

use crate::cli::attempts::{price, words};
use crate::cli::table::{columns, span};

/// One line: how its lane stands.
pub(super) fn state(view: &SubmitterView) -> String {
    let paused = if view.paused { ", paused" } else { "" };
    let protect = view.protect.as_ref().map_or(String::new(), |protect| {
        format!(": {} ({})", protect.code, protect.detail.as_ref().unwrap_or(&protect.message))
    });
    format!("{}{paused}{protect}", view.state)
}

/// Everything that there is to know. `name` is what the operator called it.
pub(super) fn whole(view: &SubmitterView, chain: Option<&ChainView>, name: &str) -> String {
    let mut rows = vec![row("submitter", view.submitter.clone())];
    rows.extend(view.alias.clone().map(|alias| row("alias", alias)));
    rows.push(row("state", state(view)));
    if let Some(protect) = &view.protect {
        rows.extend(protect.detail.is_some().then(|| row("meaning", protect.message.clone())));
        rows.extend(next_steps(protect, &view.chain, name).into_iter().map(|step| row("what to do", step)));
    }
    rows.extend(view.paused.then(|| row("what to do", format!("gapless submitter resume {name}"))));
    rows.extend(view.lowest_unmined.as_ref().map(|lowest| row("lowest unmined", lowest_unmined(lowest))));
    rows.extend((view.awaiting_funds == Some(true)).then(|| row("FUNDS", "it waits for funds".to_owned())));
    rows.extend(view.low_balance.then(|| row("BALANCE", "below what the config asks for".to_owned())));
    rows.extend(view.balance.clone().map(|balance| row("balance", format!("{balance} wei"))));
    rows.extend(view.window.as_ref().map(|window| {
        let max = window.max.map_or("unknown".to_owned(), |max| max.to_string());
        let delegated = if window.delegated == Some(true) { ", delegated code" } else { "" };
        row("window", format!("{} of {max} in flight{delegated}", window.in_flight))
    }));
    let oldest = view.oldest_queued_at.as_ref().map(|at| format!(", the oldest since {at}")).unwrap_or_default();
    rows.push(row("queued", format!("{}{oldest}", view.queued)));
    rows.push(row("open", view.open.to_string()));
    rows.extend(view.chain_trouble.clone().map(|code| row("CHAIN TROUBLE", code)));
    let age = view.chain_head_age_ms.map(|age| format!(", {} ago", span(age))).unwrap_or_default();
    rows.extend(view.chain_head.map(|head| row("chain head", format!("{head}{age}"))));
    rows.extend(chain.into_iter().flat_map(endpoints));
    if let Some(nonces) = &view.nonces {
        rows.extend(nonces.next.map(|next| row("next nonce", next.to_string())));
        rows.push(row("chain counts", counts(nonces)));
    }
    if let Some(lease) = &view.lease {
        let held = format!("{} (token {}) until {}", lease.owner, lease.fencing_token, lease.expires_at);
        rows.push(row("lease", held));
    }
    let bound = match view.slots.as_deref() {
        None | Some([]) => String::new(),
        Some(slots) => format!("\n{}", columns(&slot_rows(slots))),
    };
    format!("{}{bound}", columns(&rows))
}

fn row(name: &str, value: String) -> [String; 2] {
    [name.to_owned(), value]
}

/// The way out of PROTECT.
fn next_steps(protect: &ProtectView, chain: &str, name: &str) -> Vec<String> {
    let look = format!("gapless submitter resync {name} --dry-run");
    let resync = "the same without --dry-run, if that is right".to_owned();
    let unprotect = format!("gapless submitter unprotect {name}");
    match ProtectCode::parse(&protect.code) {
        Some(ProtectCode::ReservationRequest | ProtectCode::ForeignTransaction) => {
            vec!["stop whoever else uses the key".to_owned(), look, resync]
        }
        Some(ProtectCode::PendingAhead) => {
            vec!["find whoever else uses the key, and wait until their transactions are final".to_owned(), look, resync]
        }
        Some(ProtectCode::HistoryWithoutStart) => vec![look, resync],
        Some(ProtectCode::StoreRegressed) => {
            let last = "after the last submitter: gapless store declare-reconciled --reason TEXT".to_owned();
            vec![look, resync, last]
        }
        Some(ProtectCode::MissingSlot) => {
            vec![
                "wait until the account's count has come to the next nonce, or restore the database".to_owned(),
                unprotect,
            ]
        }
        Some(ProtectCode::CannotFill) => {
            vec!["see the last outcome of the lowest slot below; when nodes take it:".to_owned(), unprotect]
        }
        Some(ProtectCode::ChainRegressed | ProtectCode::DeepReorg | ProtectCode::OtherChain) => vec![
            format!("gapless chain show {chain}: is an endpoint of another chain, or behind?"),
            format!("gapless chain accept {chain} --reason TEXT, if the chain is right and what was kept is not"),
            look,
            resync,
        ],
        // A newer server.
        None => vec![look],
    }
}

fn lowest_unmined(lowest: &LowestUnminedView) -> String {
    let what = match (&lowest.tx_id, lowest.state) {
        (Some(id), Some(state)) => {
            let sub_state = lowest.sub_state.map(|sub_state| format!(" {sub_state}")).unwrap_or_default();
            format!("{id} {state}{sub_state}")
        }
        _ => format!("a {}", lowest.kind),
    };
    let nonce = lowest.nonce.map(|nonce| format!("nonce {nonce}, ")).unwrap_or_default();
    let outcome = lowest.last_outcome.as_deref().unwrap_or("no answer yet");
    let text = lowest.last_outcome_text.as_deref().filter(|text| !text.is_empty());
    let text = text.map(|text| format!(" ({text})")).unwrap_or_default();
    format!(
        "{nonce}for {}: {what}; {} signed, sent {} times, {outcome}{text}",
        span(lowest.since_ms),
        lowest.attempts,
        lowest.sends
    )
}

/// Those that are not good, and how many are.
fn endpoints(chain: &ChainView) -> Vec<[String; 2]> {
    let good = chain.endpoints.iter().filter(|endpoint| endpoint.healthy).count();
    let mut rows = vec![row("endpoints", format!("{good} of {} good", chain.endpoints.len()))];
    rows.extend(chain.endpoints.iter().filter(|endpoint| !endpoint.healthy).map(|endpoint| {
        let trouble = endpoint.trouble.as_ref().map(|trouble| format!(": {trouble}")).unwrap_or_default();
        row("ENDPOINT", format!("{} {}{trouble}", endpoint.name, endpoint.standing))
    }));
    rows
}

/// What the chain counts, each by itself.
fn counts(nonces: &NoncesView) -> String {
    let count = |count: Option<u64>| count.map_or("unknown".to_owned(), |count| count.to_string());
    format!(
        "latest {}, preconfirmed {}, final {}",
        count(nonces.latest),
        count(nonces.preconfirmed),
        count(nonces.settled)
    )
}

/// A line for each bound nonce, and one for each of its attempts.
fn slot_rows(slots: &[SlotView]) -> Vec<[String; 5]> {
    let heading = ["nonce", "kind", "state", "since", "what"];
    let mut rows = vec![heading.map(str::to_owned)];
    for slot in slots {
        rows.push(slot_row(slot));
        rows.extend(slot.attempts.iter().map(attempt_row));
    }
    rows
}

fn slot_row(slot: &SlotView) -> [String; 5] {
    let state = match (slot.state, slot.sub_state) {
        (Some(state), Some(sub_state)) => format!("{state} {sub_state}"),
        (Some(state), None) => state.to_string(),
        (None, _) => "-".to_owned(),
    };
    let lent = slot.reservation.as_ref().map(|reservation| {
        let until = reservation.locked_until.as_ref().map(|until| format!(" until {until}")).unwrap_or_default();
        format!("{}{until}", reservation.status)
    });
    let whose = match slot.kind {
        SlotKindName::Foreign => slot.evidence.clone(),
        _ => slot.tx_id.clone(),
    };
    let tries = (slot.tries > 0).then(|| format!("tries {}", slot.tries));
    let signal = slot.signal.map(|signal| format!("pools show {}", words(signal.as_str())));
    let what: Vec<String> = whose.into_iter().chain(lent).chain(tries).chain(signal).collect();
    [slot.nonce.to_string(), slot.kind.to_string(), state, slot.bound_at.clone(), what.join(", ")]
}

fn attempt_row(attempt: &AttemptView) -> [String; 5] {
    let price = price(&attempt.fees);
    let outcome = attempt.last_outcome.as_ref().map_or("not answered".to_owned(), |outcome| {
        if outcome.text.is_empty() { outcome.code.clone() } else { format!("{} ({})", outcome.code, outcome.text) }
    });
    let sent = attempt.last_sent_at.clone().unwrap_or_else(|| "never sent".to_owned());
    let what = format!("{} {price}, sent {} times, {outcome}", attempt.hash, attempt.sends);
    [String::new(), format!("  {}", attempt.kind), String::new(), sent, what]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view() -> SubmitterView {
        let attempt = json!({
            "nonce": 7, "ordinal": 0, "kind": "original", "hash": "0xaa", "fees": {"maxFeePerGas": "20", "maxPriorityFeePerGas": "1"},
            "createdAt": "t1", "sends": 4, "lastSentAt": "t2", "lastOutcome": {"code": "underpriced", "text": "fee too low"},
        });
        let view = json!({
            "submitter": "eip155:1:0x1", "alias": "treasury", "chain": "eip155:1", "state": "PROTECT", "paused": true,
            "protect": {"code": "external_nonce", "message": "more than the ledger explains", "detail": "count 9, next 8"},
            "queued": 3, "open": 1, "oldestQueuedAt": "t0", "balance": "5", "lowBalance": true,
            "window": {"max": 16, "inFlight": 1, "delegated": true}, "awaitingFunds": true,
            "lowestUnmined": {"kind": "intent", "boundAt": "t1", "sinceMs": 61000, "txId": "id", "state": "TRACKING",
                "subState": "AWAITING_FUNDS", "attempts": 1, "sends": 4, "lastOutcome": "underpriced",
                "lastOutcomeText": "fee too low", "nonce": 7},
            "chainHead": 120, "chainHeadAgeMs": 5, "nonces": {"next": 8, "latest": 9, "preconfirmed": 9},
            "slots": [
                {"nonce": 6, "kind": "foreign", "boundAt": "t1", "evidence": "0xbb in block 5", "attempts": []},
                {"nonce": 7, "kind": "intent", "boundAt": "t1", "txId": "id", "requestId": "r", "state": "TRACKING",
                    "subState": "AWAITING_FUNDS", "tries": 3, "signal": "in_mempool", "attempts": [attempt]},
                {"nonce": 8, "kind": "reservation", "boundAt": "t1", "txId": "id2", "state": "ALLOCATED", "subState": "PENDING",
                    "reservation": {"status": "reserved", "lockedUntil": "t3"}, "attempts": []},
            ],
        });
        serde_json::from_value(view).unwrap()
    }

    fn chain() -> ChainView {
        let endpoint = |name: &str, healthy: bool| {
            json!({"name": name, "weight": 1, "standing": if healthy { "good" } else { "down" }, "healthy": healthy,
                "inFlight": 0, "trouble": if healthy { None } else { Some("refused") }})
        };
        let chain = json!({"chain": "eip155:1", "finality": "depth", "requiredConfirmations": 3, "openTransactions": 0,
            "lanes": 1, "endpoints": [endpoint("a:1", true), endpoint("b:1", false)]});
        serde_json::from_value(chain).unwrap()
    }

    #[test]
    fn a_submitter_in_trouble_says_what_and_what_to_do_and_shows_its_nonces() {
        let expected = "\
submitter       eip155:1:0x1
alias           treasury
state           PROTECT, paused: external_nonce (count 9, next 8)
meaning         more than the ledger explains
what to do      stop whoever else uses the key
what to do      gapless submitter resync treasury --dry-run
what to do      the same without --dry-run, if that is right
what to do      gapless submitter resume treasury
lowest unmined  nonce 7, for 1 min: id TRACKING AWAITING_FUNDS; 1 signed, sent 4 times, underpriced (fee too low)
FUNDS           it waits for funds
BALANCE         below what the config asks for
balance         5 wei
window          1 of 16 in flight, delegated code
queued          3, the oldest since t0
open            1
chain head      120, 5 ms ago
endpoints       1 of 2 good
ENDPOINT        b:1 down: refused
next nonce      8
chain counts    latest 9, preconfirmed 9, final unknown

nonce  kind         state                    since  what
6      foreign      -                        t1     0xbb in block 5
7      intent       TRACKING AWAITING_FUNDS  t1     id, tries 3, pools show in mempool
         original                            t2     0xaa 20/1 wei/gas, sent 4 times, underpriced (fee too low)
8      reservation  ALLOCATED PENDING        t1     id2, reserved until t3
";
        assert_eq!(whole(&view(), Some(&chain()), "treasury"), expected);
    }

    #[test]
    fn every_reason_of_a_protect_has_a_way_out() {
        for code in ProtectCode::ALL {
            let steps = next_steps(&ProtectView::new(*code), "eip155:1", "me");
            let way_out = |step: &String| step.contains("resync me") || step.contains("unprotect me");
            assert!(steps.iter().any(way_out), "{code:?}: {steps:?}");
        }
    }
}
