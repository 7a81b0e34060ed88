//! Blocks and their contents, and the methods that make blocks.

use alloy_primitives::{B256, U256};
use serde_json::{Value, json};

use crate::case::Case;
use crate::stage::{Stage, number, show};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "block that is not there yet",
            |stage| stage.show("eth_getBlockByNumber", json!(["0xffffff", false])),
            "null",
        ),
        Case::new(
            "block whose hash nobody knows",
            |stage| stage.show("eth_getBlockByHash", json!([B256::repeat_byte(0xab), false])),
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
            |stage| stage.show("eth_getBlockReceipts", json!(["0xffffff"])),
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

fn latest(stage: &Stage<'_>, full: bool) -> Value {
    stage.ok("eth_getBlockByNumber", json!(["latest", full]))
}

fn transactions(stage: &Stage<'_>) -> String {
    let hash = stage.sent(&stage.signed(stage.payment(0)));
    stage.mine();
    let has = |block: Value, of: fn(&Value) -> Value| {
        let found = block["transactions"].as_array().unwrap().iter().any(|tx| of(tx) == json!(hash));
        if found { "same" } else { "missing" }
    };
    let hashes = has(latest(stage, false), Value::clone);
    let objects = has(latest(stage, true), |tx| tx["hash"].clone());
    format!("hash {hashes}, object {objects}")
}

fn pending(stage: &Stage<'_>) -> String {
    let hash = stage.sent(&stage.signed(stage.payment(0)));
    let block = stage.ok("eth_getBlockByNumber", json!(["pending", false]));
    let place = match &block["number"] {
        Value::Null => "null",
        there if number(there) == stage.head() + 1 => "is the next",
        _ => "is another",
    };
    let has = block["transactions"].as_array().unwrap().contains(&json!(hash));
    let shown = if block["hash"].is_null() { "null" } else { "there" };
    format!("hash {shown}, number {place}, has the transaction {has}")
}

fn receipts(stage: &Stage<'_>) -> String {
    stage.sent(&stage.signed(stage.payment(0)));
    stage.sent(&stage.signed(stage.payment(1)));
    stage.mine();
    let block = latest(stage, false);
    let all = match stage.call("eth_getBlockReceipts", json!([block["number"]])) {
        Ok(all) => all,
        error => return show(&error),
    };
    let hashes = block["transactions"].as_array().unwrap();
    let all = all.as_array().unwrap();
    if all.len() != hashes.len() || all.len() < 2 {
        return format!("{} receipts of {} transactions", all.len(), hashes.len());
    }
    let same =
        hashes.iter().zip(all).all(|(hash, receipt)| stage.ok("eth_getTransactionReceipt", json!([hash])) == *receipt);
    format!("as many as transactions, each {}", if same { "as by hash" } else { "another than by hash" })
}

fn receipts_by_hash(stage: &Stage<'_>) -> String {
    stage.sent(&stage.signed(stage.payment(0)));
    stage.mine();
    let block = latest(stage, false);
    let by_number = stage.call("eth_getBlockReceipts", json!([block["number"]]));
    match (by_number, stage.call("eth_getBlockReceipts", json!([block["hash"]]))) {
        (Ok(by_number), Ok(by_hash)) if by_number == by_hash => "same".to_owned(),
        (_, by_hash) => show(&by_hash),
    }
}

fn linked(stage: &Stage<'_>) -> String {
    stage.mine();
    let parent = latest(stage, false);
    stage.mine();
    (latest(stage, false)["parentHash"] == parent["hash"]).to_string()
}

fn tags(stage: &Stage<'_>) -> String {
    stage.ok("hardhat_mine", json!(["0x50"]));
    let head = stage.head();
    let behind = |tag: &str| head - number(&stage.ok("eth_getBlockByNumber", json!([tag, false]))["number"]);
    format!("safe {}, finalized {}", behind("safe"), behind("finalized"))
}

fn timestamp(stage: &Stage<'_>) -> String {
    let at = number(&latest(stage, false)["timestamp"]) + 100;
    stage.ok("evm_setNextBlockTimestamp", json!([at]));
    stage.mine();
    (number(&latest(stage, false)["timestamp"]) == at).to_string()
}

/// 2 gwei, and an eighth less after an empty block.
fn base_fee(stage: &Stage<'_>) -> String {
    // Mines the leftovers of other cases first, so that the block is empty.
    stage.mine();
    stage.ok("hardhat_setNextBlockBaseFeePerGas", json!(["0x77359400"]));
    stage.mine();
    let first = latest(stage, false)["baseFeePerGas"].clone();
    stage.mine();
    let second = latest(stage, false)["baseFeePerGas"].clone();
    format!("{}, then {}", first.as_str().unwrap(), second.as_str().unwrap())
}

fn balance(stage: &Stage<'_>) -> String {
    stage.ok("hardhat_setBalance", json!([stage.poor.address, U256::from(123)]));
    stage.show("eth_getBalance", json!([stage.poor.address, "latest"]))
}

fn pool(stage: &Stage<'_>) -> String {
    stage.sent(&stage.signed(stage.payment(5)));
    let content = match stage.call("txpool_content", json!([])) {
        Ok(content) => content,
        Err(error) => return show(&Err(error)),
    };
    let nonces = |part: &str| -> String {
        let accounts = content[part].as_object().unwrap();
        let own = accounts.iter().find(|(account, _)| account.eq_ignore_ascii_case(&stage.account.address.to_string()));
        own.map_or_else(|| "0".to_owned(), |(_, txs)| txs.as_object().unwrap().keys().cloned().collect())
    };
    format!("pending {}, queued {}", nonces("pending"), nonces("queued"))
}

fn reorg(stage: &Stage<'_>) -> String {
    let hash = stage.sent(&stage.signed(stage.payment(0)));
    stage.mine();
    let before = latest(stage, false);
    if let Err(error) = stage.call("anvil_reorg", json!([1, []])) {
        return show(&Err(error));
    }
    let after = stage.ok("eth_getBlockByNumber", json!([before["number"], false]));
    let count = stage.count(stage.account.address, "latest");
    format!("other hash {}, receipt {}, count {count}", after["hash"] != before["hash"], stage.receipt(hash))
}
