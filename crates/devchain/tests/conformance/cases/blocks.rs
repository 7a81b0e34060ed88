//! Blocks and their contents, and the methods that make blocks.

use alloy_primitives::{B256, U256};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_env::{CaseEnv, number, show};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "block that is not there yet",
            |env| env.show("eth_getBlockByNumber", json!(["0xffffff", false])),
            "null",
        ),
        Case::new(
            "block whose hash nobody knows",
            |env| env.show("eth_getBlockByHash", json!([B256::repeat_byte(0xab), false])),
            "null",
        ),
        Case::new("block with hashes, block with transactions", transactions, "hash same, object same"),
        Case::new("pending block", pending, "hash null, number is the next, has the transaction true")
            .anvil("hash there, number is the next, has the transaction true")
            .hardhat("hash there, number null, has the transaction true"),
        Case::new("receipts of a block", receipts, "as many as transactions, each as by hash")
            .hardhat("-32004: Method eth_getBlockReceipts is not supported"),
        Case::new("receipts of a block by its hash", receipts_by_hash, "same")
            .hardhat("-32004: Method eth_getBlockReceipts is not supported"),
        Case::new(
            "receipts of a block that is not there yet",
            |env| env.show("eth_getBlockReceipts", json!(["0xffffff"])),
            "null",
        )
        .hardhat("-32004: Method eth_getBlockReceipts is not supported"),
        Case::new("blocks are linked by their parents' hashes", linked, "true"),
        Case::new("safe and finalized, as far behind as Ethereum's", tags, "safe 32, finalized 64")
            .hardhat("safe 0, finalized 0"),
        Case::new("timestamp of the next block", timestamp, "true"),
        Case::new("base fee of the next block", base_fee, "0x77359400, then 0x684ee180"),
        Case::new("balance that is set", balance, "0x7b"),
        Case::new("what waits in the pool", pool, "pending 0, queued 5")
            .hardhat("-32004: Method txpool_content is not supported"),
        Case::new("reorg of one block", reorg, "other hash true, receipt null, count 0x0")
            .hardhat("-32004: Method anvil_reorg is not supported"),
    ]
}

fn latest(env: &CaseEnv<'_>, full: bool) -> Value {
    env.ok("eth_getBlockByNumber", json!(["latest", full]))
}

fn transactions(env: &CaseEnv<'_>) -> String {
    let hash = env.sent(&env.signed(env.payment(0)));
    env.mine();
    let has = |block: Value, of: fn(&Value) -> Value| {
        let found = block["transactions"].as_array().unwrap().iter().any(|tx| of(tx) == json!(hash));
        if found { "same" } else { "missing" }
    };
    let hashes = has(latest(env, false), Value::clone);
    let objects = has(latest(env, true), |tx| tx["hash"].clone());
    format!("hash {hashes}, object {objects}")
}

fn pending(env: &CaseEnv<'_>) -> String {
    let hash = env.sent(&env.signed(env.payment(0)));
    let block = env.ok("eth_getBlockByNumber", json!(["pending", false]));
    let place = match &block["number"] {
        Value::Null => "null",
        there if number(there) == env.head() + 1 => "is the next",
        _ => "is another",
    };
    let has = block["transactions"].as_array().unwrap().contains(&json!(hash));
    let shown = if block["hash"].is_null() { "null" } else { "there" };
    format!("hash {shown}, number {place}, has the transaction {has}")
}

fn receipts(env: &CaseEnv<'_>) -> String {
    env.sent(&env.signed(env.payment(0)));
    env.sent(&env.signed(env.payment(1)));
    env.mine();
    let block = latest(env, false);
    let all = match env.call("eth_getBlockReceipts", json!([block["number"]])) {
        Ok(all) => all,
        error => return show(&error),
    };
    let hashes = block["transactions"].as_array().unwrap();
    let all = all.as_array().unwrap();
    if all.len() != hashes.len() || all.len() < 2 {
        return format!("{} receipts of {} transactions", all.len(), hashes.len());
    }
    let same =
        hashes.iter().zip(all).all(|(hash, receipt)| env.ok("eth_getTransactionReceipt", json!([hash])) == *receipt);
    format!("as many as transactions, each {}", if same { "as by hash" } else { "another than by hash" })
}

fn receipts_by_hash(env: &CaseEnv<'_>) -> String {
    env.sent(&env.signed(env.payment(0)));
    env.mine();
    let block = latest(env, false);
    let by_number = env.call("eth_getBlockReceipts", json!([block["number"]]));
    match (by_number, env.call("eth_getBlockReceipts", json!([block["hash"]]))) {
        (Ok(by_number), Ok(by_hash)) if by_number == by_hash => "same".to_owned(),
        (_, by_hash) => show(&by_hash),
    }
}

fn linked(env: &CaseEnv<'_>) -> String {
    env.mine();
    let parent = latest(env, false);
    env.mine();
    (latest(env, false)["parentHash"] == parent["hash"]).to_string()
}

fn tags(env: &CaseEnv<'_>) -> String {
    env.ok("hardhat_mine", json!(["0x50"]));
    let head = env.head();
    let behind = |tag: &str| head - number(&env.ok("eth_getBlockByNumber", json!([tag, false]))["number"]);
    format!("safe {}, finalized {}", behind("safe"), behind("finalized"))
}

fn timestamp(env: &CaseEnv<'_>) -> String {
    let at = number(&latest(env, false)["timestamp"]) + 100;
    env.ok("evm_setNextBlockTimestamp", json!([at]));
    env.mine();
    (number(&latest(env, false)["timestamp"]) == at).to_string()
}

/// 2 gwei, and an eighth less after an empty block.
fn base_fee(env: &CaseEnv<'_>) -> String {
    // Mines the leftovers of other cases first, so that the block is empty.
    env.mine();
    env.ok("hardhat_setNextBlockBaseFeePerGas", json!(["0x77359400"]));
    env.mine();
    let first = latest(env, false)["baseFeePerGas"].clone();
    env.mine();
    let second = latest(env, false)["baseFeePerGas"].clone();
    format!("{}, then {}", first.as_str().unwrap(), second.as_str().unwrap())
}

fn balance(env: &CaseEnv<'_>) -> String {
    env.ok("hardhat_setBalance", json!([env.poor.address, U256::from(123)]));
    env.show("eth_getBalance", json!([env.poor.address, "latest"]))
}

fn pool(env: &CaseEnv<'_>) -> String {
    env.sent(&env.signed(env.payment(5)));
    let content = match env.call("txpool_content", json!([])) {
        Ok(content) => content,
        Err(error) => return show(&Err(error)),
    };
    let nonces = |part: &str| -> String {
        let accounts = content[part].as_object().unwrap();
        let own = accounts.iter().find(|(account, _)| account.eq_ignore_ascii_case(&env.account.address.to_string()));
        own.map_or_else(|| "0".to_owned(), |(_, txs)| txs.as_object().unwrap().keys().cloned().collect())
    };
    format!("pending {}, queued {}", nonces("pending"), nonces("queued"))
}

fn reorg(env: &CaseEnv<'_>) -> String {
    let hash = env.sent(&env.signed(env.payment(0)));
    env.mine();
    let before = latest(env, false);
    if let Err(error) = env.call("anvil_reorg", json!([1, []])) {
        return show(&Err(error));
    }
    let after = env.ok("eth_getBlockByNumber", json!([before["number"], false]));
    let count = env.count(env.account.address, "latest");
    format!("other hash {}, receipt {}, count {count}", after["hash"] != before["hash"], env.receipt(hash))
}
