//! `gapless submitter show`: shows one submitter. Problems and the next steps come first, then everything else.

use clap::Args;
use gapless_domain::ProtectCode;
use gapless_wire::{
    AttemptView, ChainView, LowestUnminedView, NoncesView, ProtectView, SlotKindName, SlotView, SubmitterExpand,
    SubmitterView,
};

use super::NameArgs;
use crate::cli::attempts::{price, words};
use crate::cli::table::{columns, span};
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ShowSubmitterArgs {
    #[command(flatten)]
    of: NameArgs,
    /// Start of the page of bound nonces: the nonce that the page before printed
    #[arg(long, value_name = "NONCE")]
    from_slot: Option<u64>,
}

impl ShowSubmitterArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let client = self.of.server.client()?;
        let expand = [SubmitterExpand::Lease, SubmitterExpand::Nonces, SubmitterExpand::Slots];
        let view = client.submitter_from(&self.of.name, &expand, self.from_slot).await?;
        // The endpoints are an extra: without them the command still succeeds.
        let chain = client.chain(&view.chain).await.ok();
        output.result(&view, full_text(&view, chain.as_ref(), &self.of.name))?;
        if let Some(nonce) = view.next_slot {
            output.note(format_args!("more nonces: --from-slot {nonce}"));
        }
        Ok(Exit::Success)
    }
}

/// The state of the lane in one line.
pub(super) fn state_line(view: &SubmitterView) -> String {
    let paused = if view.paused { ", paused" } else { "" };
    let protect = view.protect.as_ref().map_or(String::new(), |protect| {
        format!(": {} ({})", protect.code, protect.detail.as_ref().unwrap_or(&protect.message))
    });
    format!("{}{paused}{protect}", view.state)
}

/// The full text. `name` is the id or alias that the operator passed; the suggested commands repeat it.
fn full_text(view: &SubmitterView, chain: Option<&ChainView>, name: &str) -> String {
    let mut rows = vec![row("submitter", view.submitter.clone())];
    rows.extend(view.alias.clone().map(|alias| row("alias", alias)));
    rows.push(row("state", state_line(view)));
    if let Some(protect) = &view.protect {
        rows.extend(protect.detail.is_some().then(|| row("meaning", protect.message.clone())));
        rows.extend(next_steps(protect, &view.chain, name).into_iter().map(|step| row("next step", step)));
    }
    rows.extend(view.paused.then(|| row("next step", format!("gapless submitter resume {name}"))));
    rows.extend(view.lowest_unmined.as_ref().map(|lowest| row("lowest unmined", lowest_unmined(lowest))));
    let funds = "the lane waits for funds; top up the account";
    rows.extend((view.awaiting_funds == Some(true)).then(|| row("FUNDS", funds.to_owned())));
    rows.extend(view.low_balance.then(|| row("BALANCE", "below the threshold of the config".to_owned())));
    rows.extend(view.balance.clone().map(|balance| row("balance", format!("{balance} wei"))));
    rows.extend(view.window.as_ref().map(|window| {
        let max = window.max.map_or("unknown".to_owned(), |max| max.to_string());
        let delegated = if window.delegated == Some(true) { ", delegated code" } else { "" };
        row("window", format!("{} of {max} in flight{delegated}", window.in_flight))
    }));
    let oldest = view.oldest_queued_at.as_ref().map(|at| format!(", the oldest since {at}")).unwrap_or_default();
    rows.push(row("queued", format!("{}{oldest}", view.queued)));
    rows.push(row("open", view.open.to_string()));
    rows.extend(view.chain_trouble.clone().map(|code| row("CHAIN PROBLEM", code)));
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

/// The steps that lead out of PROTECT.
fn next_steps(protect: &ProtectView, chain: &str, name: &str) -> Vec<String> {
    let dry_run = format!("gapless submitter resync {name} --dry-run");
    let resync = "if the listed changes are right, the same command without --dry-run".to_owned();
    let unprotect = format!("gapless submitter unprotect {name}");
    match ProtectCode::parse(&protect.code) {
        Some(ProtectCode::ExternalNonce | ProtectCode::ForeignTransaction) => {
            vec!["stop the other program that uses the key".to_owned(), dry_run, resync]
        }
        Some(ProtectCode::PendingAhead) => {
            let wait = "stop the other program that uses the key, and wait until its transactions are final";
            vec![wait.to_owned(), dry_run, resync]
        }
        Some(ProtectCode::HistoryWithoutStart) => vec![dry_run, resync],
        Some(ProtectCode::StoreRegressed) => {
            let last = "after the last submitter: gapless store declare-reconciled --reason TEXT".to_owned();
            vec![dry_run, resync, last]
        }
        Some(ProtectCode::MissingSlot) => {
            vec![
                "wait until the account's nonce on the chain is the next nonce, or restore the database".to_owned(),
                unprotect,
            ]
        }
        Some(ProtectCode::CannotFill) => {
            vec!["see the last answer at the lowest slot below; when endpoints accept it:".to_owned(), unprotect]
        }
        Some(ProtectCode::ChainRegressed | ProtectCode::DeepReorg | ProtectCode::OtherChain) => vec![
            format!("gapless chain show {chain}, to find an endpoint of another chain or one that is behind"),
            format!(
                "gapless chain accept {chain} --reason TEXT, if the endpoints are right and the stored blocks are not"
            ),
            dry_run,
            resync,
        ],
        // The server is newer and has a code that this program does not know.
        None => vec![dry_run],
    }
}

fn lowest_unmined(lowest: &LowestUnminedView) -> String {
    let content = match (&lowest.tx_id, lowest.state) {
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
        "{nonce}for {}: {content}; {} attempts, sent {} times, {outcome}{text}",
        span(lowest.since_ms),
        lowest.attempts,
        lowest.sends
    )
}

/// The number of healthy endpoints, and a row for each other endpoint.
fn endpoints(chain: &ChainView) -> Vec<[String; 2]> {
    let healthy = chain.endpoints.iter().filter(|endpoint| endpoint.healthy).count();
    let mut rows = vec![row("endpoints", format!("{healthy} of {} healthy", chain.endpoints.len()))];
    rows.extend(chain.endpoints.iter().filter(|endpoint| !endpoint.healthy).map(|endpoint| {
        let problem = endpoint.trouble.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
        row("ENDPOINT", format!("{} {}{problem}", endpoint.name, endpoint.standing))
    }));
    rows
}

/// The account's nonces on the chain: latest, preconfirmed and final.
fn counts(nonces: &NoncesView) -> String {
    let count = |count: Option<u64>| count.map_or("unknown".to_owned(), |count| count.to_string());
    format!(
        "latest {}, preconfirmed {}, final {}",
        count(nonces.latest),
        count(nonces.preconfirmed),
        count(nonces.settled)
    )
}

/// A row for each bound nonce, and one for each of its attempts.
fn slot_rows(slots: &[SlotView]) -> Vec<[String; 5]> {
    let heading = ["nonce", "kind", "state", "since", "details"];
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
    let reserved = slot.reservation.as_ref().map(|reservation| {
        let until = reservation.locked_until.as_ref().map(|until| format!(" until {until}")).unwrap_or_default();
        format!("{}{until}", reservation.status)
    });
    let transaction = match slot.kind {
        SlotKindName::Foreign => slot.evidence.clone(),
        _ => slot.tx_id.clone(),
    };
    let tries = (slot.tries > 0).then(|| format!("tries {}", slot.tries));
    let signal = slot.signal.map(|signal| format!("pools show {}", words(signal.as_str())));
    let details: Vec<String> = transaction.into_iter().chain(reserved).chain(tries).chain(signal).collect();
    [slot.nonce.to_string(), slot.kind.to_string(), state, slot.bound_at.clone(), details.join(", ")]
}

fn attempt_row(attempt: &AttemptView) -> [String; 5] {
    let price = price(&attempt.fees);
    let outcome = attempt.last_outcome.as_ref().map_or("no answer".to_owned(), |outcome| {
        if outcome.text.is_empty() { outcome.code.clone() } else { format!("{} ({})", outcome.code, outcome.text) }
    });
    let sent = attempt.last_sent_at.clone().unwrap_or_else(|| "never sent".to_owned());
    let details = format!("{} {price}, sent {} times, {outcome}", attempt.hash, attempt.sends);
    [String::new(), format!("  {}", attempt.kind), String::new(), sent, details]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view() -> SubmitterView {
        let attempt = json!({
            "nonce": 7, "ordinal": 0, "kind": "original", "hash": "0xaa", "createdAt": "t1",
            "fees": {"maxFeePerGas": "20", "maxPriorityFeePerGas": "1"},
            "sends": 4, "lastSentAt": "t2", "lastOutcome": {"code": "underpriced", "text": "fee too low"},
        });
        let view = json!({
            "submitter": "eip155:1:0x1", "alias": "treasury", "chain": "eip155:1", "state": "PROTECT", "paused": true,
            "protect": {
                "code": "external_nonce", "message": "more than the ledger explains", "detail": "count 9, next 8",
            },
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
                {"nonce": 8, "kind": "reservation", "boundAt": "t1", "txId": "id2", "state": "ALLOCATED",
                    "subState": "PENDING", "reservation": {"status": "reserved", "lockedUntil": "t3"}, "attempts": []},
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
    fn text_of_protected_submitter_has_problems_steps_and_nonces() {
        let expected = "\
submitter       eip155:1:0x1
alias           treasury
state           PROTECT, paused: external_nonce (count 9, next 8)
meaning         more than the ledger explains
next step       stop the other program that uses the key
next step       gapless submitter resync treasury --dry-run
next step       if the listed changes are right, the same command without --dry-run
next step       gapless submitter resume treasury
lowest unmined  nonce 7, for 1 min: id TRACKING AWAITING_FUNDS; 1 attempts, sent 4 times, underpriced (fee too low)
FUNDS           the lane waits for funds; top up the account
BALANCE         below the threshold of the config
balance         5 wei
window          1 of 16 in flight, delegated code
queued          3, the oldest since t0
open            1
chain head      120, 5 ms ago
endpoints       1 of 2 healthy
ENDPOINT        b:1 down: refused
next nonce      8
chain counts    latest 9, preconfirmed 9, final unknown

nonce  kind         state                    since  details
6      foreign      -                        t1     0xbb in block 5
7      intent       TRACKING AWAITING_FUNDS  t1     id, tries 3, pools show in mempool
         original                            t2     0xaa 20/1 wei/gas, sent 4 times, underpriced (fee too low)
8      reservation  ALLOCATED PENDING        t1     id2, reserved until t3
";
        assert_eq!(full_text(&view(), Some(&chain()), "treasury"), expected);
    }

    #[test]
    fn next_steps_of_each_protect_code_lead_out_of_protect() {
        for code in ProtectCode::ALL {
            let steps = next_steps(&ProtectView::new(*code), "eip155:1", "me");
            let way_out = |step: &String| step.contains("resync me") || step.contains("unprotect me");
            assert!(steps.iter().any(way_out), "{code:?}: {steps:?}");
        }
    }
}
