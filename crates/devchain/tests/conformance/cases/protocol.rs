//! JSON-RPC itself: invalid calls, unknown methods, invalid arguments.

use alloy_primitives::Address;
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_env::{CaseEnv, show};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("chain id", |env| env.show("eth_chainId", json!([])), "0x7a69"),
        Case::new("network id", |env| env.show("net_version", json!([])), "31337"),
        Case::new("not syncing", |env| env.show("eth_syncing", json!([])), "false"),
        Case::new("client version begins with", client_name, "Geth").anvil("anvil").hardhat("HardhatNetwork"),
        Case::new(
            "unknown method",
            |env| env.show("eth_doesNotExist", json!([])),
            "-32601: the method eth_doesNotExist does not exist/is not available",
        )
        .anvil("-32601: Method not found")
        .hardhat("-32004: Method eth_doesNotExist is not supported"),
        Case::new("text that is no JSON", |env| posted(env, "{"), "null -32700: parse error")
            .anvil("null -32600: Invalid request")
            .hardhat("null -32700: Parse error"),
        Case::new(
            "call without a method",
            |env| posted(env, r#"{"jsonrpc":"2.0","id":5}"#),
            "5 -32600: invalid request",
        )
        .anvil("5 -32600: Invalid request")
        .hardhat("null -32600: Invalid request"),
        Case::new("empty batch", |env| posted(env, "[]"), "null -32600: empty batch")
            .anvil("null -32600: Invalid request")
            .hardhat("[]"),
        Case::new("batch of a good and a bad call", batch, "7 0x7a69; 8 error -32601")
            .hardhat("7 0x7a69; 8 error -32004"),
        Case::new("batch of notifications only", notifications, "nothing").hardhat(
            "[{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"Invalid \
             request\",\"data\":{\"message\":\"Invalid request\"}}}]",
        ),
        Case::new(
            "missing argument",
            |env| env.show("eth_getTransactionByHash", json!([])),
            "-32602: missing value for required argument 0",
        )
        .anvil("-32602: expected params sequence with length 1 but got 0")
        .hardhat("-32602: expected params sequence with length 1 but got 0"),
        Case::new(
            "missing block of a count",
            |env| env.show("eth_getTransactionCount", json!([Address::ZERO])),
            "-32602: missing value for required argument 1",
        )
        .anvil("-32602: invalid length 1, expected tuple variant EthRequest::EthGetTransactionCount with 2 elements")
        .hardhat("0x0"),
        Case::new(
            "too many arguments",
            |env| env.show("eth_chainId", json!([1])),
            "-32602: too many arguments, want at most 0",
        )
        .anvil("-32602: invalid type: number, expected unit")
        .hardhat("-32602: invalid type: integer `1`, expected unit"),
        Case::new("address that is too short", short_address, "-32602: invalid argument 0")
            .anvil("-32602: invalid string length")
            .hardhat("-32602: invalid value \"0x12\" supplied to "),
        Case::new("block that is no block", bad_block, "-32602: invalid argument 1")
            .anvil("-32602: hex string without 0x prefix")
            .hardhat("-32004: Method eth_getBalance is not supported"),
    ]
}

fn client_name(env: &CaseEnv<'_>) -> String {
    show(&env.call("web3_clientVersion", json!([]))).split('/').next().unwrap().to_owned()
}

/// The id and the outcome of one answer.
fn posted(env: &CaseEnv<'_>, text: &str) -> String {
    let answer = env.post(text);
    let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("no JSON: {answer}"));
    let error = &answer["error"];
    if error.is_null() {
        return answer.to_string();
    }
    beginning(&format!("{} {}: {}", answer["id"], error["code"], error["message"].as_str().unwrap_or_default()))
}

fn batch(env: &CaseEnv<'_>) -> String {
    let calls = json!([
        { "jsonrpc": "2.0", "id": 7, "method": "eth_chainId", "params": [] },
        { "jsonrpc": "2.0", "id": 8, "method": "eth_doesNotExist", "params": [] },
    ]);
    let answers: Value = serde_json::from_str(&env.post(&calls.to_string())).unwrap();
    let shown = answers.as_array().unwrap().iter().map(|answer| match answer.get("error") {
        None => format!("{} {}", answer["id"], answer["result"].as_str().unwrap_or_default()),
        Some(error) => format!("{} error {}", answer["id"], error["code"]),
    });
    shown.collect::<Vec<_>>().join("; ")
}

fn notifications(env: &CaseEnv<'_>) -> String {
    let answer = env.post(r#"[{"jsonrpc":"2.0","method":"eth_chainId","params":[]}]"#);
    if answer.is_empty() { "nothing".to_owned() } else { answer }
}

fn short_address(env: &CaseEnv<'_>) -> String {
    beginning(&env.show("eth_getBalance", json!(["0x12", "latest"])))
}

fn bad_block(env: &CaseEnv<'_>) -> String {
    beginning(&env.show("eth_getBalance", json!([Address::ZERO, "sometime"])))
}

/// The code and the first words. The rest depends on the node's JSON library.
fn beginning(text: &str) -> String {
    text.splitn(3, ": ").take(2).collect::<Vec<_>>().join(": ")
}
