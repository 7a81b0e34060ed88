//! The reasons of reverted transactions. Nodes offer several ways, and many offer none. They are tried from the
//! cheapest and surest on: the receipt (Besu stores the reason there), a trace, and a replay of the call on top of the
//! block before. A replay is a guess, because the transactions before it in its own block are missing. It counts only
//! if it reverts.
//!
//! A transaction without an explanation does not affect the others.

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use gapless_chain::{Classified, Reason, Revert, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::revert_reason::{OUT_OF_GAS, decode_revert, halted_revert};
use super::{is_missing, is_not_found, receipts};
use crate::endpoint::{CallResult, Endpoint, now};
use crate::rpc::RpcCall;
use crate::transaction::quantity;

/// Traces and replays are expensive for a node, so a batch has few of them.
const HEAVY_BATCH: usize = 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RevertReceiptRow {
    transaction_hash: B256,
    block_number: U64,
    #[serde(default)]
    status: Option<U64>,
    gas_used: U64,
    /// The return value in hex. Some nodes put a text here.
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
struct RevertTransactionRow {
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

/// A failed transaction without a reason yet.
struct Unexplained {
    index: usize,
    receipt: RevertReceiptRow,
}

/// The source of a revert reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RevertSource {
    /// The receipt, or a trace of the transaction.
    Recorded,
    /// A replay of the call, which is a guess.
    Replayed,
}

/// The revert reasons that this endpoint can provide. Fails only if the receipts cannot be read.
pub(crate) async fn reverts(
    endpoint: &Endpoint,
    hashes: &[B256],
    source: RevertSource,
) -> Result<Vec<Option<Revert>>, Classified> {
    let until = now() + endpoint.timeout();
    let mut found: Vec<Option<Revert>> = vec![None; hashes.len()];
    let mut open = Vec::new();
    let mut failure = None;
    let calls: Vec<RpcCall> = hashes.iter().map(receipts::by_hash).collect();
    for (index, (hash, answer)) in hashes.iter().zip(endpoint.ask(&calls).await).enumerate() {
        let row = match answer {
            Ok(raw) => endpoint.read::<Option<RevertReceiptRow>>(&raw),
            Err(classified) if is_not_found(&classified) => Ok(None),
            Err(classified) => Err(classified),
        };
        match row {
            Ok(Some(row)) if row.transaction_hash == *hash && row.status.is_some_and(|status| status.is_zero()) => {
                open.push(Unexplained { index, receipt: row });
            }
            Ok(_) => {}
            Err(classified) => failure = Some(classified),
        }
    }
    if let Some(failure) = failure.filter(|_| open.is_empty()) {
        return Err(failure);
    }
    open.retain(|open| store(&mut found, open, open.receipt.revert_reason.as_deref().and_then(from_receipt)));
    match source {
        RevertSource::Recorded => trace(endpoint, &mut open, &mut found, until).await,
        RevertSource::Replayed => replay(endpoint, &mut open, &mut found, until).await,
    }
    Ok(found)
}

/// Stores a reason. Returns true if there is none.
fn store(found: &mut [Option<Revert>], open: &Unexplained, revert: Option<Revert>) -> bool {
    let is_open = revert.is_none();
    if let Some(slot) = found.get_mut(open.index) {
        *slot = revert;
    }
    is_open
}

fn from_receipt(reason: &str) -> Option<Revert> {
    match reason.parse::<Bytes>() {
        Ok(data) if data.is_empty() => None,
        Ok(data) => Some(decode_revert(data)),
        Err(_) => Some(halted_revert(reason)).filter(|revert| revert.reason.is_some()),
    }
}

async fn trace(endpoint: &Endpoint, open: &mut Vec<Unexplained>, found: &mut [Option<Revert>], until: Instant) {
    if open.is_empty() || !endpoint.capabilities().trace {
        return;
    }
    let tracer = json!({ "tracer": "callTracer", "tracerConfig": { "onlyTopCall": true } });
    let call = |open: &Unexplained| {
        RpcCall::optional("debug_traceTransaction", json!([open.receipt.transaction_hash, tracer]))
    };
    let answers = endpoint.ask_limited(&open.iter().map(call).collect::<Vec<_>>(), HEAVY_BATCH, Some(until)).await;
    if answers.iter().any(|answer| answer.as_ref().is_err_and(is_unsupported)) {
        tracing::info!(
            endpoint = endpoint.name(),
            "endpoint has no debug_traceTransaction: reverted calls are replayed"
        );
        endpoint.remove_capability(|capabilities| capabilities.trace = false);
    } else if answers.iter().any(|answer| answer.as_ref().is_err_and(is_too_expensive)) {
        tracing::info!(endpoint = endpoint.name(), "traces paused: time-out or rate limit");
        endpoint.pause_traces();
    }
    let mut answers = answers.into_iter();
    open.retain(|open| {
        let row = answers.next().and_then(Result::ok).and_then(|raw| endpoint.read::<TraceRow>(&raw).ok());
        store(found, open, row.and_then(from_trace))
    });
}

/// The method is missing or restricted.
fn is_unsupported(classified: &Classified) -> bool {
    is_missing(classified) || classified.reason == Reason::Unauthorized
}

/// The trace timed out or met a rate limit.
fn is_too_expensive(classified: &Classified) -> bool {
    classified.reason == Reason::TimedOut || classified.verdict == Verdict::RateLimited
}

fn from_trace(row: TraceRow) -> Option<Revert> {
    match (row.output.filter(|output| !output.is_empty()), row.error) {
        // A trace without an error belongs to another transaction or another fork.
        (_, None) => None,
        (Some(output), Some(_)) => Some(decode_revert(output)),
        (None, Some(error)) => Some(halted_revert(&error)),
    }
}

async fn replay(endpoint: &Endpoint, open: &mut Vec<Unexplained>, found: &mut [Option<Revert>], until: Instant) {
    let call =
        |open: &Unexplained| RpcCall::optional("eth_getTransactionByHash", json!([open.receipt.transaction_hash]));
    let mut answers = endpoint.ask(&open.iter().map(call).collect::<Vec<_>>()).await.into_iter();
    let mut rows = Vec::new();
    open.retain(|open| {
        let raw = answers.next().and_then(Result::ok);
        let row = raw.and_then(|raw| endpoint.read::<Option<RevertTransactionRow>>(&raw).ok().flatten());
        let row = row.filter(|row| row.hash == open.receipt.transaction_hash);
        let is_known = row.is_some();
        rows.extend(row);
        is_known
    });
    let calls: Vec<RpcCall> = open.iter().zip(&rows).map(|(open, row)| replay_call(open, row)).collect();
    let answers = endpoint.ask_limited(&calls, HEAVY_BATCH, Some(until)).await;
    for ((open, row), answer) in open.iter().zip(&rows).zip(answers) {
        store(found, open, from_replay(&open.receipt, row, answer));
    }
}

/// The replay of a call. It has no prices, because the balance at that time does not matter.
fn replay_call(open: &Unexplained, row: &RevertTransactionRow) -> RpcCall {
    let mut call = json!({
        "from": row.from, "to": row.to, "gas": quantity(U256::from(row.gas)), "value": quantity(row.value),
        "input": row.input,
    });
    for (key, list) in [("accessList", &row.access_list), ("authorizationList", &row.authorization_list)] {
        if let Some(list) = list {
            call[key] = list.clone();
        }
    }
    let parent = open.receipt.block_number.to::<u64>().saturating_sub(1);
    RpcCall::optional("eth_call", json!([call, quantity(U256::from(parent))]))
}

fn from_replay(receipt: &RevertReceiptRow, row: &RevertTransactionRow, answer: CallResult) -> Option<Revert> {
    let used_all_gas = receipt.gas_used == row.gas;
    match answer {
        // The replay was not executed.
        Err(classified) if classified.verdict != Verdict::Reverted => None,
        Err(classified) if classified.reason == Reason::ExecutionFailed => {
            Some(halted_revert(classified.text.as_str()))
        }
        // A transaction that used all of its gas did not end by a REVERT.
        Ok(_) | Err(_) if used_all_gas => Some(halted_revert(OUT_OF_GAS)),
        Ok(_) => None,
        Err(classified) => match classified.revert_data {
            Some(data) if !data.is_empty() => Some(decode_revert(data)),
            _ => Some(halted_revert(classified.text.as_str())),
        },
    }
}
