//! Traces of transactions: the top call, which is all that the dev chain supports.

use alloy_consensus::TxEip1559;
use alloy_primitives::{B256, Bytes, TxKind, U256};
use serde_json::{Value, json};

use crate::case::Case;
use crate::contracts::{LOGGER, LOOPER, REVERTER, deploy, revert_reason};
use crate::node::Failure;
use crate::stage::{Stage, number, show};

const GAS: u64 = 100_000;
const NO_TRACER: &str =
    "-32602: Hardhat currently only supports the default tracer, so no tracer parameter should be passed.";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "trace of a transfer",
            |stage| shown(stage, stage.payment(0)),
            "CALL, to there, gasUsed as in the receipt, value 0x1, no error",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a call that returns",
            |stage| of_contract(stage, &LOGGER, Bytes::from_static(&[0xbe, 0xef])),
            "CALL, to there, gasUsed as in the receipt, value 0x0, no error, output 0xbeef",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a call that reverts with a reason",
            |stage| of_contract(stage, &REVERTER, revert_reason("no luck")),
            "CALL, to there, gasUsed as in the receipt, value 0x0, execution reverted, reason no luck, output there",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a call that reverts with data that is no reason",
            |stage| of_contract(stage, &REVERTER, Bytes::from_static(&[0x12, 0x34, 0x56, 0x78])),
            "CALL, to there, gasUsed as in the receipt, value 0x0, execution reverted, output 0x12345678",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a call that reverts with nothing",
            |stage| of_contract(stage, &REVERTER, Bytes::new()),
            "CALL, to there, gasUsed as in the receipt, value 0x0, execution reverted",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a call that runs out of gas",
            |stage| of_contract(stage, &LOOPER, Bytes::new()),
            "CALL, to there, gasUsed as in the receipt, value 0x0, out of gas",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a contract that is made",
            |stage| shown(stage, creation(stage, deploy(&LOOPER))),
            "CREATE, to there, gasUsed as in the receipt, value 0x0, no error, output 0x5b5f56",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a contract that is not made",
            |stage| shown(stage, creation(stage, Bytes::from_static(&[0x5f, 0x5f, 0xfd]))),
            "CREATE, no to, gasUsed as in the receipt, value 0x0, execution reverted",
        )
        .hardhat(NO_TRACER),
        Case::new(
            "trace of a transaction that nobody sent",
            |stage| show(&stage.call("debug_traceTransaction", json!([B256::repeat_byte(7), top_call()]))),
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

fn creation(stage: &Stage<'_>, init: Bytes) -> TxEip1559 {
    TxEip1559 { to: TxKind::Create, value: U256::ZERO, gas_limit: GAS, input: init, ..stage.payment(0) }
}

fn of_contract(stage: &Stage<'_>, code: &[u8], input: Bytes) -> String {
    let contract = stage.contract(code);
    let call = TxEip1559 { to: TxKind::Call(contract), value: U256::ZERO, gas_limit: GAS, input, ..stage.payment(1) };
    shown(stage, call)
}

/// Mines a transaction and traces it.
fn traced(stage: &Stage<'_>, tx: TxEip1559) -> (B256, Result<Value, Failure>) {
    let hash = stage.sent(&stage.signed(tx));
    stage.mine();
    (hash, stage.call("debug_traceTransaction", json!([hash, top_call()])))
}

fn gas(stage: &Stage<'_>) -> String {
    match traced(stage, TxEip1559 { gas_limit: GAS, ..stage.payment(0) }).1 {
        Ok(traced) if number(&traced["gas"]) == GAS => "the transaction's limit".to_owned(),
        Ok(traced) if number(&traced["gas"]) < GAS => "less".to_owned(),
        other => show(&other),
    }
}

/// A summary of the trace of a transaction.
fn shown(stage: &Stage<'_>, tx: TxEip1559) -> String {
    let (hash, traced) = traced(stage, tx);
    let Ok(traced) = traced else { return show(&traced) };
    let receipt = stage.receipt(hash);
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
