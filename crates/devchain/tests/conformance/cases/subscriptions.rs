//! Subscriptions over WebSocket.

use alloy_consensus::TxEip1559;
use alloy_primitives::{Bytes, TxKind, U256};
use serde_json::json;

use crate::case::Case;
use crate::case_env::{CaseEnv, accepted, show};
use crate::contracts::LOGGER;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("newHeads", new_heads, "hash, parent and number same"),
        Case::new(
            "newHeads over HTTP",
            |env| accepted(&env.call("eth_subscribe", json!(["newHeads"]))),
            "-32601: notifications not supported",
        )
        .anvil("-32601: Method not found")
        .hardhat("accepted"),
        Case::new("logs are told", logs, "from the contract, data 0xbeef"),
        Case::new("newPendingTransactions", pending, "same hash"),
        Case::new("subscription that is ended", ended, "true, then -32000: subscription not found")
            .anvil("true, then false")
            .hardhat("true, then false"),
        Case::new("subscription that nobody knows", unknown, "-32601: no \"newMoons\" subscription in eth namespace")
            .anvil("-32602: data did not match any variant of untagged enum EthRpcCall")
            .hardhat("-32602: Invalid subscription type"),
        Case::new("calls over WebSocket", |env| show(&env.socket().call("eth_chainId", json!([]))), "0x7a69"),
    ]
}

fn new_heads(env: &CaseEnv<'_>) -> String {
    let mut socket = env.socket();
    let id = socket.call("eth_subscribe", json!(["newHeads"])).unwrap();
    env.mine();
    let head = socket.next(&id);
    let block = env.ok("eth_getBlockByNumber", json!(["latest", false]));
    let same = ["hash", "parentHash", "number"].into_iter().all(|field| head[field] == block[field]);
    if same { "hash, parent and number same".to_owned() } else { head.to_string() }
}

fn logs(env: &CaseEnv<'_>) -> String {
    let contract = env.contract(&LOGGER);
    let mut socket = env.socket();
    let id = socket.call("eth_subscribe", json!(["logs", { "address": contract }])).unwrap();
    env.sent(&env.signed(TxEip1559 {
        to: TxKind::Call(contract),
        value: U256::ZERO,
        gas_limit: 100_000,
        input: Bytes::from_static(&[0xbe, 0xef]),
        ..env.payment(1)
    }));
    env.mine();
    let log = socket.next(&id);
    let from = if log["address"].as_str().unwrap().eq_ignore_ascii_case(&contract.to_string()) {
        "the contract"
    } else {
        "another"
    };
    format!("from {from}, data {}", log["data"].as_str().unwrap())
}

fn pending(env: &CaseEnv<'_>) -> String {
    let mut socket = env.socket();
    let id = socket.call("eth_subscribe", json!(["newPendingTransactions"])).unwrap();
    let hash = env.sent(&env.signed(env.payment(0)));
    if socket.next(&id) == json!(hash) { "same hash".to_owned() } else { "another hash".to_owned() }
}

fn ended(env: &CaseEnv<'_>) -> String {
    let mut socket = env.socket();
    let id = socket.call("eth_subscribe", json!(["newHeads"])).unwrap();
    let first = show(&socket.call("eth_unsubscribe", json!([id])));
    format!("{first}, then {}", show(&socket.call("eth_unsubscribe", json!([id]))))
}

fn unknown(env: &CaseEnv<'_>) -> String {
    show(&env.socket().call("eth_subscribe", json!(["newMoons"])))
}
