//! Calls and estimates.

use alloy_primitives::{Address, Bytes, U256, hex};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_env::{BALANCE, CaseEnv, show, without_head};
use crate::contracts::{LOGGER, LOOPER, REVERTER, revert_reason};
use crate::node::CallFailure;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("call that returns", returns, "0x1234"),
        Case::new("call of an account without code", no_code, "0x"),
        Case::new(
            "call that reverts with a reason",
            |env| reverts(env, "eth_call", revert_reason("no luck")),
            "3: execution reverted: no luck; data same",
        )
        .hardhat(
            "-32603: Error: VM Exception while processing transaction: reverted with reason string 'no luck'; data \
             {\"data\":\"DATA\",\"message\":\"Error: VM Exception while processing transaction: \
             reverted with reason string 'no luck'\"}",
        ),
        Case::new(
            "call that reverts with data that is no reason",
            |env| reverts(env, "eth_call", Bytes::from_static(&[0x12, 0x34, 0x56, 0x78])),
            "3: execution reverted; data same",
        )
        .anvil("3: execution reverted: 4Vx; data same")
        .hardhat(
            "-32603: Error: VM Exception while processing transaction: reverted with an unrecognized custom error \
             (return data: 0x12345678); data {\"data\":\"DATA\",\"message\":\"Error: VM Exception \
             while processing transaction: reverted with an unrecognized custom error (return data: \
             DATA)\"}",
        ),
        Case::new(
            "call that reverts with nothing",
            |env| reverts(env, "eth_call", Bytes::new()),
            "3: execution reverted; data same",
        )
        .hardhat(
            "-32603: Error: Transaction reverted without a reason string; data \
             {\"data\":\"DATA\",\"message\":\"Error: Transaction reverted without a reason string\"}",
        ),
        Case::new("call that runs out of gas", out_of_gas, "-32000: out of gas")
            .anvil("-32603: EVM error OutOfGas")
            .hardhat("-32000: Transaction ran out of gas"),
        Case::new("call at an earlier block", earlier, "0x01 by number, 0x01 by hash, 0x now"),
        Case::new("call at a block that is not there yet", future, "-32000: header not found")
            .anvil("-32602: BlockOutOfRangeError: block height is HEAD but requested was 16777215")
            .hardhat("-32000: Received invalid block tag 16777215. Latest block number is HEAD"),
        Case::new("estimate of a transfer", estimate, "0x5208").hardhat("0x5209"),
        Case::new("estimate of a contract", contract_estimate, "enough and no more"),
        Case::new(
            "estimate of what reverts with a reason",
            |env| reverts(env, "eth_estimateGas", revert_reason("no luck")),
            "3: execution reverted: no luck; data same",
        )
        .hardhat(
            "-32603: Error: VM Exception while processing transaction: reverted with reason string 'no luck'; data \
             {\"data\":\"DATA\",\"message\":\"Error: VM Exception while processing transaction: \
             reverted with reason string 'no luck'\"}",
        ),
        Case::new(
            "estimate of more value than there is",
            |env| no_funds(env, json!({})),
            "-32000: failed with 30000000 gas: insufficient funds for gas * price + value: address ACCOUNT have \
             100000000000000000000 want 100000000000000000001",
        )
        .anvil("0x5208")
        .hardhat("0x5209"),
        Case::new(
            "estimate of more value than there is, with a price",
            |env| no_funds(env, json!({ "gasPrice": "0x77359400" })),
            "-32000: insufficient funds for transfer",
        )
        .anvil("0x5208")
        .hardhat("0x5209"),
    ]
}

fn call(env: &CaseEnv<'_>, method: &str, to: Address, data: &Bytes) -> Result<Value, CallFailure> {
    env.call(method, json!([{ "from": env.account.address, "to": to, "input": data }, "latest"]))
}

fn returns(env: &CaseEnv<'_>) -> String {
    let contract = env.contract(&LOGGER);
    show(&call(env, "eth_call", contract, &Bytes::from_static(&[0x12, 0x34])))
}

fn no_code(env: &CaseEnv<'_>) -> String {
    show(&call(env, "eth_call", env.poor.address, &Bytes::from_static(&[0x12, 0x34])))
}

fn reverts(env: &CaseEnv<'_>, method: &str, with: Bytes) -> String {
    let contract = env.contract(&REVERTER);
    match call(env, method, contract, &with) {
        Ok(value) => show(&Ok(value)),
        Err(error) => {
            let data = match &error.data {
                Some(Value::String(data)) if *data == with.to_string() => "same".to_owned(),
                Some(data) => data.to_string().replace(&with.to_string(), "DATA"),
                None => "none".to_owned(),
            };
            format!("{}; data {data}", show(&Err(error)))
        }
    }
}

fn out_of_gas(env: &CaseEnv<'_>) -> String {
    let contract = env.contract(&LOOPER);
    env.show("eth_call", json!([{ "to": contract, "gas": "0x186a0" }, "latest"]))
}

/// A call at an earlier block. The contract answers 1, and its code is removed later.
fn earlier(env: &CaseEnv<'_>) -> String {
    let contract = env.contract(&hex!("60015f5360015ff3"));
    let block = env.ok("eth_getBlockByNumber", json!(["latest", false]));
    env.mine();
    env.ok("hardhat_setCode", json!([contract, "0x"]));
    env.mine();
    let at = |id: Value| env.show("eth_call", json!([{ "to": contract }, id]));
    let (number, hash) = (at(block["number"].clone()), at(json!({ "blockHash": block["hash"] })));
    format!("{number} by number, {hash} by hash, {} now", at(json!("latest")))
}

fn future(env: &CaseEnv<'_>) -> String {
    let shown = env.show("eth_call", json!([{ "to": env.poor.address }, "0xffffff"]));
    without_head(&shown, env.head())
}

fn estimate(env: &CaseEnv<'_>) -> String {
    env.show("eth_estimateGas", json!([{ "from": env.account.address, "to": env.poor.address, "value": "0x1" }]))
}

/// The estimate must suffice and be close to the gas used. It may differ between nodes.
fn contract_estimate(env: &CaseEnv<'_>) -> String {
    let contract = env.contract(&LOGGER);
    let estimate = crate::case_env::number(&call(env, "eth_estimateGas", contract, &Bytes::from_static(&[1])).unwrap());
    let hash = env.sent(&env.signed(alloy_consensus::TxEip1559 {
        to: contract.into(),
        value: U256::ZERO,
        gas_limit: estimate,
        input: Bytes::from_static(&[1]),
        ..env.payment(1)
    }));
    env.mine();
    let receipt = env.receipt(hash);
    let used = crate::case_env::number(&receipt["gasUsed"]);
    let close = estimate <= used + used / 10;
    if receipt["status"] == "0x1" && close { "enough and no more".to_owned() } else { format!("{estimate}: {receipt}") }
}

fn no_funds(env: &CaseEnv<'_>, mut request: Value) -> String {
    let account = env.account.address;
    request["from"] = json!(account);
    request["to"] = json!(env.poor.address);
    request["value"] = json!(U256::from(BALANCE) + U256::ONE);
    let shown = env.show("eth_estimateGas", json!([request]));
    shown.replace(&account.to_string(), "ACCOUNT").replace(&account.to_string().to_lowercase(), "ACCOUNT")
}
