//! Contracts: creation, failures, logs and storage.

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_env::{CaseEnv, number};
use crate::contracts::{LOGGER, LOOPER, REVERTER, deploy};

const GAS: u64 = 100_000;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("contract is made", made, "status 0x1, address as computed, to null, code there"),
        Case::new(
            "transaction that reverts",
            |env| failed(env, &REVERTER),
            "status 0x0, logs 0, all gas used false, count 0x2",
        ),
        Case::new(
            "transaction that runs out of gas",
            |env| failed(env, &LOOPER),
            "status 0x0, logs 0, all gas used true, count 0x2",
        ),
        Case::new("storage", storage, "0x0000000000000000000000000000000000000000000000000000000000000007"),
        Case::new("logs in the receipt", receipt_logs, "1 log, topic 0x2a, data 0xbeef, removed false"),
        Case::new(
            "logs by address",
            |env| logs(env, |at, contract| json!({ "fromBlock": at, "toBlock": at, "address": contract })),
            "1",
        ),
        Case::new(
            "logs by address and topic",
            |env| {
                logs(env, |at, contract| {
                    let topics = json!([[topic()]]);
                    json!({ "fromBlock": at, "toBlock": at, "address": [contract], "topics": topics })
                })
            },
            "1",
        ),
        Case::new(
            "logs by another topic",
            |env| {
                logs(env, |at, contract| {
                    let topics = json!([B256::ZERO]);
                    json!({ "fromBlock": at, "toBlock": at, "address": contract, "topics": topics })
                })
            },
            "0",
        ),
        Case::new(
            "logs by a topic at a place that they do not have",
            |env| {
                logs(env, |at, contract| {
                    let topics = json!([null, null]);
                    json!({ "fromBlock": at, "toBlock": at, "address": contract, "topics": topics })
                })
            },
            "0",
        )
        .anvil("1"),
        Case::new("logs of a block by its hash", logs_by_hash, "1"),
        Case::new(
            "logs of a range that runs backwards",
            |env| logs(env, |_, _| json!({ "fromBlock": "0x2", "toBlock": "0x1" })),
            "-32602: invalid block range params",
        )
        .anvil("0")
        .hardhat("0"),
        Case::new(
            "logs by hash and range",
            hash_and_range,
            "-32602: invalid argument 0: cannot specify both BlockHash and FromBlock/ToBlock, choose one or the \
             other",
        )
        .anvil("-32602: cannot specify both blockHash and fromBlock/toBlock, choose one or the other")
        .hardhat("-32602: blockHash is mutually exclusive with fromBlock/toBlock"),
    ]
}

fn topic() -> B256 {
    B256::with_last_byte(0x2a)
}

fn send_to(env: &CaseEnv<'_>, contract: Address) -> Value {
    let hash = env.sent(&env.signed(TxEip1559 {
        to: TxKind::Call(contract),
        value: U256::ZERO,
        gas_limit: GAS,
        input: Bytes::from_static(&hex!("beef")),
        ..env.payment(1)
    }));
    env.mine();
    env.receipt(hash)
}

fn made(env: &CaseEnv<'_>) -> String {
    let tx =
        TxEip1559 { to: TxKind::Create, value: U256::ZERO, gas_limit: GAS, input: deploy(&LOGGER), ..env.payment(0) };
    let hash = env.sent(&env.signed(tx));
    env.mine();
    let receipt = env.receipt(hash);
    let made: Address = serde_json::from_value(receipt["contractAddress"].clone()).unwrap();
    let place = if made == env.account.address.create(0) { "as computed" } else { "another" };
    let code = env.show("eth_getCode", json!([made, "latest"]));
    let code = if code == hex::encode_prefixed(LOGGER) { "there" } else { "another" };
    format!("status {}, address {place}, to {}, code {code}", receipt["status"].as_str().unwrap(), receipt["to"])
}

fn failed(env: &CaseEnv<'_>, code: &[u8]) -> String {
    let contract = env.contract(code);
    let receipt = send_to(env, contract);
    format!(
        "status {}, logs {}, all gas used {}, count {}",
        receipt["status"].as_str().unwrap(),
        receipt["logs"].as_array().unwrap().len(),
        number(&receipt["gasUsed"]) == GAS,
        env.count(env.account.address, "latest")
    )
}

fn storage(env: &CaseEnv<'_>) -> String {
    let contract = env.contract(&LOGGER);
    send_to(env, contract);
    env.show("eth_getStorageAt", json!([contract, "0x0", "latest"]))
}

fn receipt_logs(env: &CaseEnv<'_>) -> String {
    let contract = env.contract(&LOGGER);
    let receipt = send_to(env, contract);
    let logs = receipt["logs"].as_array().unwrap();
    let log = &logs[0];
    let name = if log["topics"] == json!([topic()]) { "0x2a" } else { "another" };
    format!("{} log, topic {name}, data {}, removed {}", logs.len(), log["data"].as_str().unwrap(), log["removed"])
}

/// The number of logs that a filter finds. The filter is made from the block and the contract of one log.
fn logs(env: &CaseEnv<'_>, filter: fn(&Value, Address) -> Value) -> String {
    let contract = env.contract(&LOGGER);
    let receipt = send_to(env, contract);
    found(env, filter(&receipt["blockNumber"], contract))
}

fn found(env: &CaseEnv<'_>, filter: Value) -> String {
    match env.call("eth_getLogs", json!([filter])) {
        Ok(logs) => logs.as_array().unwrap().len().to_string(),
        error => crate::case_env::show(&error),
    }
}

fn logs_by_hash(env: &CaseEnv<'_>) -> String {
    let contract = env.contract(&LOGGER);
    let receipt = send_to(env, contract);
    found(env, json!({ "blockHash": receipt["blockHash"], "address": contract }))
}

fn hash_and_range(env: &CaseEnv<'_>) -> String {
    found(env, json!({ "blockHash": B256::ZERO, "fromBlock": "0x1" }))
}
