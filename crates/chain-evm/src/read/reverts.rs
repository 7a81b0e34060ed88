//! Why transactions reverted. Nodes tell in several ways, and many in none of them, so they are tried from the cheapest and
//! surest on: the receipt itself (Besu keeps the reason there), a trace of the transaction, and the same call once more on top of
//! the block before. The last is a guess, since transactions before it in its own block are missing; it counts only if it reverts.
//!
//! One transaction that cannot be explained leaves the others alone.

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use gapless_chain::{Classified, Reason, Revert, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{is_missing, receipts, says_not_found};
use crate::endpoint::{Answer, Endpoint, now};
use crate::rpc::Call;
use crate::transaction::quantity;

/// These are work for a node: fewer of them go into one request.
const HEAVY_BATCH: usize = 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReceiptRow {
    transaction_hash: B256,
    block_number: U64,
    #[serde(default)]
    status: Option<U64>,
    gas_used: U64,
    /// What the call returned, in hex; with some, its text.
    #[serde(default)]
    revert_reason: Option<String>,
}

/// The outermost call of a trace.
#[derive(Deserialize)]
struct TraceRow {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    output: Option<Bytes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TransactionRow {
    hash: B256,
    from: Address,
    #[serde(default)]
    to: Option<Address>,
    #[serde(default)]
    input: Bytes,
    #[serde(default)]
    value: U256,
    gas: U64,
    #[serde(default)]
    access_list: Option<Value>,
    #[serde(default)]
    authorization_list: Option<Value>,
}

/// A transaction that failed and is not explained yet.
struct Open {
    place: usize,
    receipt: ReceiptRow,
}

/// Which way to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// What the chain itself has: the receipt, and a trace.
    Surely,
    /// The same call once more: for what nobody can tell surely.
    ByReplay,
}

/// As far as this endpoint can tell. It fails only if it cannot even tell of the receipts.
pub(crate) async fn reverts(endpoint: &Endpoint, hashes: &[B256], way: Way) -> Result<Vec<Option<Revert>>, Classified> {
    let until = now() + endpoint.timeout();
    let mut found: Vec<Option<Revert>> = vec![None; hashes.len()];
    let mut open = Vec::new();
    let mut failure = None;
    let calls: Vec<Call> = hashes.iter().map(receipts::by_hash).collect();
    for (place, (hash, answer)) in hashes.iter().zip(endpoint.ask(&calls).await).enumerate() {
        let row = match answer {
            Ok(raw) => endpoint.read::<Option<ReceiptRow>>(&raw),
            Err(classified) if says_not_found(&classified) => Ok(None),
            Err(classified) => Err(classified),
        };
        match row {
            Ok(Some(row)) if row.transaction_hash == *hash && row.status.is_some_and(|status| status.is_zero()) => {
                open.push(Open { place, receipt: row });
            }
            Ok(_) => {}
            Err(classified) => failure = Some(classified),
        }
    }
    if let Some(failure) = failure.filter(|_| open.is_empty()) {
        return Err(failure);
    }
    open.retain(|open| told(&mut found, open, open.receipt.revert_reason.as_deref().and_then(by_receipt)));
    match way {
        Way::Surely => trace(endpoint, &mut open, &mut found, until).await,
        Way::ByReplay => replay(endpoint, &mut open, &mut found, until).await,
    }
    Ok(found)
}

/// Notes an explanation; true if there is none yet.
fn told(found: &mut [Option<Revert>], open: &Open, revert: Option<Revert>) -> bool {
    let is_open = revert.is_none();
    if let Some(place) = found.get_mut(open.place) {
        *place = revert;
    }
    is_open
}

fn by_receipt(reason: &str) -> Option<Revert> {
    match reason.parse::<Bytes>() {
        Ok(data) if data.is_empty() => None,
        Ok(data) => Some(Revert::decode(data)),
        Err(_) => Some(Revert::halted(reason)).filter(|revert| revert.reason.is_some()),
    }
}

async fn trace(endpoint: &Endpoint, open: &mut Vec<Open>, found: &mut [Option<Revert>], until: Instant) {
    if open.is_empty() || !endpoint.skills().trace {
        return;
    }
    let tracer = json!({ "tracer": "callTracer", "tracerConfig": { "onlyTopCall": true } });
    let call = |open: &Open| Call::optional("debug_traceTransaction", json!([open.receipt.transaction_hash, tracer]));
    let answers = endpoint.ask_few(&open.iter().map(call).collect::<Vec<_>>(), HEAVY_BATCH, Some(until)).await;
    if answers.iter().any(|answer| answer.as_ref().is_err_and(is_not_for_us)) {
        tracing::info!(endpoint = endpoint.name(), "no debug_traceTransaction here: reverted calls are made once more");
        endpoint.unlearn(|skills| skills.trace = false);
    } else if answers.iter().any(|answer| answer.as_ref().is_err_and(is_too_much)) {
        tracing::info!(endpoint = endpoint.name(), "traces are too much here: none are asked for, for a while");
        endpoint.let_traces_rest();
    }
    let mut answers = answers.into_iter();
    open.retain(|open| {
        let row = answers.next().and_then(Result::ok).and_then(|raw| endpoint.read::<TraceRow>(&raw).ok());
        told(found, open, row.and_then(by_trace))
    });
}

/// The method is not there, or not for everybody.
fn is_not_for_us(classified: &Classified) -> bool {
    is_missing(classified) || classified.reason == Reason::Unauthorized
}

/// It did not come in its time, or no more of it may be asked.
fn is_too_much(classified: &Classified) -> bool {
    classified.reason == Reason::TimedOut || classified.verdict == Verdict::RateLimited
}

fn by_trace(row: TraceRow) -> Option<Revert> {
    match (row.output.filter(|output| !output.is_empty()), row.error) {
        // A trace of a call that went well is of another transaction, or of another chain.
        (_, None) => None,
        (Some(output), Some(_)) => Some(Revert::decode(output)),
        (None, Some(error)) => Some(Revert::halted(&error)),
    }
}

async fn replay(endpoint: &Endpoint, open: &mut Vec<Open>, found: &mut [Option<Revert>], until: Instant) {
    let call = |open: &Open| Call::optional("eth_getTransactionByHash", json!([open.receipt.transaction_hash]));
    let mut answers = endpoint.ask(&open.iter().map(call).collect::<Vec<_>>()).await.into_iter();
    let mut rows = Vec::new();
    open.retain(|open| {
        let raw = answers.next().and_then(Result::ok);
        let row = raw.and_then(|raw| endpoint.read::<Option<TransactionRow>>(&raw).ok().flatten());
        let row = row.filter(|row| row.hash == open.receipt.transaction_hash);
        let is_known = row.is_some();
        rows.extend(row);
        is_known
    });
    let calls: Vec<Call> = open.iter().zip(&rows).map(|(open, row)| once_more(open, row)).collect();
    let answers = endpoint.ask_few(&calls, HEAVY_BATCH, Some(until)).await;
    for ((open, row), answer) in open.iter().zip(&rows).zip(answers) {
        told(found, open, by_replay(&open.receipt, row, answer));
    }
}

/// Without prices: what the account could pay then is not the question.
fn once_more(open: &Open, row: &TransactionRow) -> Call {
    let mut call = json!({
        "from": row.from, "to": row.to, "gas": quantity(U256::from(row.gas)), "value": quantity(row.value), "input": row.input,
    });
    for (key, list) in [("accessList", &row.access_list), ("authorizationList", &row.authorization_list)] {
        if let Some(list) = list {
            call[key] = list.clone();
        }
    }
    let parent = open.receipt.block_number.to::<u64>().saturating_sub(1);
    Call::optional("eth_call", json!([call, quantity(U256::from(parent))]))
}

fn by_replay(receipt: &ReceiptRow, row: &TransactionRow, answer: Answer) -> Option<Revert> {
    let used_up = receipt.gas_used == row.gas;
    match answer {
        // It was not made once more at all.
        Err(classified) if classified.verdict != Verdict::Reverted => None,
        Err(classified) if classified.reason == Reason::ExecutionFailed => {
            Some(Revert::halted(classified.text.as_str()))
        }
        // What takes all of its gas did not end by a REVERT of its own.
        Ok(_) | Err(_) if used_up => Some(Revert::halted(Revert::OUT_OF_GAS)),
        Ok(_) => None,
        Err(classified) => match classified.revert_data {
            Some(data) if !data.is_empty() => Some(Revert::decode(data)),
            _ => Some(Revert::halted(classified.text.as_str())),
        },
    }
}
