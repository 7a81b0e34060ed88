//! Transactions of every type, from the pool to their receipts.

use alloy_consensus::{TxEip1559, TxEip2930, TxEip7702, TxLegacy};
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_eips::eip7702::Authorization;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use gapless_devchain::DEV_CHAIN_ID;
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_env::{BALANCE, CaseEnv, FEE_CAP, TIP, accepted, number, without_head};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("receipt of a legacy transfer", legacy, "type 0x0, status 0x1, gas 0x5208, contract null"),
        Case::new(
            "receipt of a transfer with an access list",
            access_list,
            "type 0x1, status 0x1, gas 0x6a40, contract null",
        ),
        Case::new("receipt of an EIP-1559 transfer", dynamic_fee, "type 0x2, status 0x1, gas 0x5208, contract null"),
        Case::new("price paid is base fee and tip", price, "true"),
        Case::new(
            "delegation (EIP-7702)",
            delegation,
            "type 0x4, status 0x1; code 0xef0100 and the delegate; authority's count 0x1",
        ),
        Case::new("authorization with a wrong nonce", bad_authorization, "status 0x1, code 0x, authority's count 0x0"),
        Case::new(
            "delegated account: a second one in flight",
            |env| from_delegated(env, &[1, 2]),
            "accepted; -32000: in-flight transaction limit reached for delegated accounts",
        )
        .anvil("accepted; accepted")
        .hardhat("accepted; accepted"),
        Case::new(
            "delegated account: a nonce gap",
            |env| from_delegated(env, &[2]),
            "-32000: gapped-nonce tx from delegated accounts",
        )
        .anvil("accepted")
        .hardhat("accepted"),
        Case::new("receipt of a pending transaction", pending_receipt, "null"),
        Case::new(
            "receipt of a transaction that nobody sent",
            |env| env.show("eth_getTransactionReceipt", json!([B256::repeat_byte(0xab)])),
            "null",
        ),
        Case::new(
            "transaction that nobody sent",
            |env| env.show("eth_getTransactionByHash", json!([B256::repeat_byte(0xab)])),
            "null",
        ),
        Case::new("pending transaction", pending_transaction, "block null, index null, gasPrice is the cap")
            .anvil("block null, index null, gasPrice is another"),
        Case::new("mined transaction", mined_transaction, "block same, index 0x0, gasPrice paid"),
        Case::new("counts with one pending", counts, "latest 0x0, pending 0x1"),
        Case::new("count at an earlier block", earlier_count, "0x1 by number, 0x1 by hash, 0x2 now"),
        Case::new("count at a block that is not there yet", future_count, "-32000: header not found")
            .anvil("-32602: BlockOutOfRangeError: block height is HEAD but requested was 16777215")
            .hardhat("-32000: Received invalid block tag 16777215. Latest block number is HEAD"),
        Case::new("count at a hash that nobody knows", unknown_hash_count, "-32000: header for hash not found")
            .anvil("-32001: Resource not found")
            .hardhat("-32000: Received invalid block tag HASH. Latest block number is HEAD"),
    ]
}

fn summary(receipt: &Value) -> String {
    let field = |name: &str| receipt[name].as_str().unwrap_or("null").to_owned();
    let [ty, status, gas, contract] = ["type", "status", "gasUsed", "contractAddress"].map(field);
    format!("type {ty}, status {status}, gas {gas}, contract {contract}")
}

fn legacy_tx(env: &CaseEnv<'_>) -> TxLegacy {
    TxLegacy {
        chain_id: Some(DEV_CHAIN_ID),
        nonce: 0,
        gas_price: FEE_CAP,
        gas_limit: 21_000,
        to: TxKind::Call(env.poor.address),
        value: U256::ONE,
        input: Bytes::new(),
    }
}

fn mined(env: &CaseEnv<'_>, raw: &Bytes) -> Value {
    let hash = env.sent(raw);
    env.mine();
    env.receipt(hash)
}

fn legacy(env: &CaseEnv<'_>) -> String {
    summary(&mined(env, &env.account.sign(legacy_tx(env)).unwrap()))
}

/// 21,000, 2,400 for the address and 1,900 for each of two keys.
fn access_list(env: &CaseEnv<'_>) -> String {
    let item =
        AccessListItem { address: Address::repeat_byte(1), storage_keys: vec![B256::ZERO, B256::repeat_byte(1)] };
    let tx = TxEip2930 {
        chain_id: DEV_CHAIN_ID,
        nonce: 0,
        gas_price: FEE_CAP,
        gas_limit: 40_000,
        to: TxKind::Call(env.poor.address),
        value: U256::ONE,
        access_list: AccessList(vec![item]),
        input: Bytes::new(),
    };
    summary(&mined(env, &env.account.sign(tx).unwrap()))
}

fn dynamic_fee(env: &CaseEnv<'_>) -> String {
    summary(&mined(env, &env.signed(env.payment(0))))
}

fn price(env: &CaseEnv<'_>) -> String {
    let receipt = mined(env, &env.signed(env.payment(0)));
    let block = env.ok("eth_getBlockByHash", json!([receipt["blockHash"], false]));
    let paid = u128::from(number(&receipt["effectiveGasPrice"]));
    (paid == u128::from(number(&block["baseFeePerGas"])) + TIP).to_string()
}

fn delegate_tx(env: &CaseEnv<'_>, authority_nonce: u64) -> Bytes {
    let delegate = Authorization {
        chain_id: U256::from(DEV_CHAIN_ID),
        address: Address::repeat_byte(0xde),
        nonce: authority_nonce,
    };
    let tx = TxEip7702 {
        chain_id: DEV_CHAIN_ID,
        nonce: 0,
        gas_limit: 100_000,
        max_fee_per_gas: FEE_CAP,
        max_priority_fee_per_gas: TIP,
        to: Address::repeat_byte(0xee),
        value: U256::ZERO,
        access_list: AccessList::default(),
        authorization_list: vec![env.poor.authorize(delegate).unwrap()],
        input: Bytes::new(),
    };
    env.account.sign(tx).unwrap()
}

fn delegation(env: &CaseEnv<'_>) -> String {
    let receipt = mined(env, &delegate_tx(env, 0));
    let code = env.show("eth_getCode", json!([env.poor.address, "latest"]));
    let code = code.replace(&"de".repeat(20), " and the delegate");
    let [ty, status] = ["type", "status"].map(|name| receipt[name].as_str().unwrap_or("null"));
    let count = env.count(env.poor.address, "latest");
    format!("type {ty}, status {status}; code {code}; authority's count {count}")
}

fn bad_authorization(env: &CaseEnv<'_>) -> String {
    let receipt = mined(env, &delegate_tx(env, 5));
    let code = env.show("eth_getCode", json!([env.poor.address, "latest"]));
    let count = env.count(env.poor.address, "latest");
    format!("status {}, code {code}, authority's count {count}", receipt["status"].as_str().unwrap())
}

/// Sends of an account with delegated code, whose nonce is 1.
fn from_delegated(env: &CaseEnv<'_>, nonces: &[u64]) -> String {
    env.ok("hardhat_setBalance", json!([env.poor.address, U256::from(BALANCE)]));
    mined(env, &delegate_tx(env, 0));
    let send = |nonce: &u64| accepted(&env.send(&env.poor.sign(env.payment(*nonce)).unwrap()));
    nonces.iter().map(send).collect::<Vec<_>>().join("; ")
}

fn pending_receipt(env: &CaseEnv<'_>) -> String {
    let hash = env.sent(&env.signed(env.payment(0)));
    env.receipt(hash).to_string()
}

fn pending_transaction(env: &CaseEnv<'_>) -> String {
    let hash = env.sent(&env.signed(env.payment(0)));
    let tx = env.ok("eth_getTransactionByHash", json!([hash]));
    let is_cap = tx["gasPrice"] == json!(U256::from(FEE_CAP));
    let price = if is_cap { "is the cap" } else { "is another" };
    format!("block {}, index {}, gasPrice {price}", tx["blockHash"], tx["transactionIndex"])
}

fn mined_transaction(env: &CaseEnv<'_>) -> String {
    let hash = env.sent(&env.signed(env.payment(0)));
    env.mine();
    let tx = env.ok("eth_getTransactionByHash", json!([hash]));
    let receipt = env.receipt(hash);
    let block = if tx["blockHash"] == receipt["blockHash"] { "same" } else { "other" };
    let price = if tx["gasPrice"] == receipt["effectiveGasPrice"] { "paid" } else { "other" };
    let index = if tx["transactionIndex"] == receipt["transactionIndex"] { "0x0" } else { "other" };
    format!("block {block}, index {index}, gasPrice {price}")
}

fn counts(env: &CaseEnv<'_>) -> String {
    env.sent(&env.signed(env.payment(0)));
    let account = env.account.address;
    format!("latest {}, pending {}", env.count(account, "latest"), env.count(account, "pending"))
}

fn earlier_count(env: &CaseEnv<'_>) -> String {
    let receipt = mined(env, &env.signed(env.payment(0)));
    mined(env, &env.signed(TxEip1559 { value: U256::from(2), ..env.payment(1) }));
    let account = env.account.address;
    let by_hash = json!([account, { "blockHash": receipt["blockHash"] }]);
    format!(
        "{} by number, {} by hash, {} now",
        env.count(account, receipt["blockNumber"].as_str().unwrap()),
        env.show("eth_getTransactionCount", by_hash),
        env.count(account, "latest")
    )
}

fn future_count(env: &CaseEnv<'_>) -> String {
    without_head(&env.count(env.account.address, "0xffffff"), env.head())
}

fn unknown_hash_count(env: &CaseEnv<'_>) -> String {
    let at = json!({ "blockHash": B256::repeat_byte(0xab) });
    without_head(&env.show("eth_getTransactionCount", json!([env.account.address, at])), env.head())
}
