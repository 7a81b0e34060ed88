//! Traces of transactions: the top call, which is all that the dev chain supports.

use alloy_consensus::TxEip1559;
use alloy_primitives::{B256, Bytes, TxKind, U256};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_env::{CaseEnv, number, show};
use crate::contracts::{LOGGER, LOOPER, REVERTER, deploy, revert_reason};
use crate::node::CallFailure;

const GAS: u64 = 100_000;
const NO_TRACER: &str =
    "-32602: Hardhat currently only supports the default tracer, so no tracer parameter should be passed.";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "trace of a transfer",
            |env| shown(env, env.payment(0)),
            "CALL, to there, gasUsed as in the receipt, value 0x1, no error",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a call that returns",
            |env| of_contract(env, &LOGGER, Bytes::from_static(&[0xbe, 0xef])),
            "CALL, to there, gasUsed as in the receipt, value 0x0, no error, output 0xbeef",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a call that reverts with a reason",
            |env| of_contract(env, &REVERTER, revert_reason("no luck")),
            "CALL, to there, gasUsed as in the receipt, value 0x0, execution reverted, reason no luck, output there",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a call that reverts with data that is no reason",
            |env| of_contract(env, &REVERTER, Bytes::from_static(&[0x12, 0x34, 0x56, 0x78])),
            "CALL, to there, gasUsed as in the receipt, value 0x0, execution reverted, output 0x12345678",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a call that reverts with nothing",
            |env| of_contract(env, &REVERTER, Bytes::new()),
            "CALL, to there, gasUsed as in the receipt, value 0x0, execution reverted",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a call that runs out of gas",
            |env| of_contract(env, &LOOPER, Bytes::new()),
            "CALL, to there, gasUsed as in the receipt, value 0x0, out of gas",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a contract that is made",
            |env| shown(env, creation(env, deploy(&LOOPER))),
            "CREATE, to there, gasUsed as in the receipt, value 0x0, no error, output 0x5b5f56",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a contract that is not made",
            |env| shown(env, creation(env, Bytes::from_static(&[0x5f, 0x5f, 0xfd]))),
            "CREATE, no to, gasUsed as in the receipt, value 0x0, execution reverted",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a transaction that nobody sent",
            |env| show(&env.call("debug_traceTransaction", json!([B256::repeat_byte(7), top_call()]))),
            "-32000: transaction not found",
        )
        .anvil("{\"failed\":false,\"gas\":0,\"returnValue\":\"0x\",\"structLogs\":[]}")
        .hardhat(NO_TRACER),
        Case::new("gas of a trace", gas, "the transaction's limit").anvil("less").hardhat(NO_TRACER),
    ]
}

fn top_call() -> Value {
    json!({ "tracer": "callTracer", "tracerConfig": { "onlyTopCall": true } })
}

fn creation(env: &CaseEnv<'_>, init: Bytes) -> TxEip1559 {
    TxEip1559 { to: TxKind::Create, value: U256::ZERO, gas_limit: GAS, input: init, ..env.payment(0) }
}

fn of_contract(env: &CaseEnv<'_>, code: &[u8], input: Bytes) -> String {
    let contract = env.contract(code);
    let call = TxEip1559 { to: TxKind::Call(contract), value: U256::ZERO, gas_limit: GAS, input, ..env.payment(1) };
    shown(env, call)
}

/// Mines a transaction and traces it.
fn traced(env: &CaseEnv<'_>, tx: TxEip1559) -> (B256, Result<Value, CallFailure>) {
    let hash = env.sent(&env.signed(tx));
    env.mine();
    (hash, env.call("debug_traceTransaction", json!([hash, top_call()])))
}

fn gas(env: &CaseEnv<'_>) -> String {
    match traced(env, TxEip1559 { gas_limit: GAS, ..env.payment(0) }).1 {
        Ok(traced) if number(&traced["gas"]) == GAS => "the transaction's limit".to_owned(),
        Ok(traced) if number(&traced["gas"]) < GAS => "less".to_owned(),
        other => show(&other),
    }
}

/// A summary of the trace of a transaction.
fn shown(env: &CaseEnv<'_>, tx: TxEip1559) -> String {
    let (hash, traced) = traced(env, tx);
    let Ok(traced) = traced else { return show(&traced) };
    let receipt = env.receipt(hash);
    let text = |field: &str| traced[field].as_str().map(str::to_owned);
    let to = if text("to").is_some() { "to there" } else { "no to" };
    let used = if number(&traced["gasUsed"]) == number(&receipt["gasUsed"]) { "as in the receipt" } else { "another" };
    let mut parts = vec![
        text("type").unwrap_or_default(),
        to.to_owned(),
        format!("gasUsed {used}"),
        format!("value {}", text("value").unwrap_or_else(|| "none".to_owned())),
        text("error").unwrap_or_else(|| "no error".to_owned()),
    ];
    parts.extend(text("revertReason").map(|reason| format!("reason {reason}")));
    parts.extend(text("output").map(|output| match output.len() {
        0..=10 => format!("output {output}"),
        _ => "output there".to_owned(),
    }));
    if traced.get("calls").is_some() {
        parts.push("calls".to_owned());
    }
    parts.join(", ")
}
