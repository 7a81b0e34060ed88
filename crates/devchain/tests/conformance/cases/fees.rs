//! Fee history and fee suggestions.

use serde_json::{Value, json};

use crate::case::Case;
use crate::case_env::{CaseEnv, accepted, number, show, without_head};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("fee history of two blocks", history, "base fees 3, ratios 2, rewards 2 of 2, oldest is right true"),
        Case::new("fee history without percentiles", no_percentiles, "no reward").anvil("reward []"),
        Case::new("reward of a block with one transaction", reward, "0x77359400 0x77359400"),
        Case::new("fee history of no blocks", no_blocks, "oldest 0")
            .anvil("oldest is the head")
            .hardhat("-32000: blockCount should be at least 1"),
        Case::new(
            "fee history beyond the head",
            beyond,
            "-32000: request beyond head block: requested 16777215, head HEAD",
        )
        .anvil("accepted")
        .hardhat("-32000: Received invalid block tag 16777215. Latest block number is HEAD"),
        Case::new(
            "percentiles that fall",
            |env| falling(env, json!([50.0, 20.0])),
            "-32000: invalid reward percentile: #0:50.000000 >= #1:20.000000",
        )
        .anvil("accepted")
        .hardhat(
            "-32000: The reward percentiles should be in non-decreasing order, but the percentile number 1 is \
             greater than the next one",
        ),
        Case::new(
            "percentile above 100",
            |env| falling(env, json!([101.0])),
            "-32000: invalid reward percentile: 101.000000",
        )
        .anvil("accepted")
        .hardhat(
            "-32000: The reward percentile number 1 is invalid. It must be a float between 0 and 100, but is 101 \
             instead.",
        ),
        Case::new("last base fee is the next block's", next_base_fee, "true"),
        Case::new(
            "gas price is a quantity",
            |env| (number(&env.ok("eth_gasPrice", json!([]))) > 0).to_string(),
            "true",
        ),
        Case::new(
            "tip is a quantity",
            |env| (number(&env.ok("eth_maxPriorityFeePerGas", json!([]))) > 0).to_string(),
            "true",
        ),
    ]
}

fn length(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}

/// The fee history of the head. anvil updates its history after it has answered the mining call, so the read is
/// repeated until the history contains the head.
fn of_head(env: &CaseEnv<'_>, percentiles: Value) -> Value {
    const TRIES: usize = 500;
    let head = env.ok("eth_getBlockByNumber", json!(["latest", false]));
    let ask = |_| env.ok("eth_feeHistory", json!(["0x1", "latest", percentiles]));
    let knows = |history: &Value| {
        let ratio = number(&head["gasUsed"]) as f64 / number(&head["gasLimit"]) as f64;
        let reported = history["gasUsedRatio"][0].as_f64().unwrap_or(-1.0);
        history["baseFeePerGas"][0] == head["baseFeePerGas"] && (reported - ratio).abs() < 1e-9
    };
    (0..TRIES).map(ask).find(knows).expect("the fee history did not reach the head")
}

fn history(env: &CaseEnv<'_>) -> String {
    env.mine();
    of_head(env, json!([]));
    env.mine();
    of_head(env, json!([]));
    let history = env.ok("eth_feeHistory", json!(["0x2", "latest", [25.0, 75.0]]));
    format!(
        "base fees {}, ratios {}, rewards {} of {}, oldest is right {}",
        length(&history["baseFeePerGas"]),
        length(&history["gasUsedRatio"]),
        length(&history["reward"]),
        length(&history["reward"][0]),
        number(&history["oldestBlock"]) == env.head() - 1
    )
}

fn no_percentiles(env: &CaseEnv<'_>) -> String {
    let history = env.ok("eth_feeHistory", json!(["0x1", "latest", []]));
    let reward = history.get("reward");
    if reward.is_none_or(Value::is_null) { "no reward".to_owned() } else { format!("reward {}", history["reward"]) }
}

fn reward(env: &CaseEnv<'_>) -> String {
    // Mines the leftovers of other cases first, so that the next block has one transaction.
    env.mine();
    env.sent(&env.signed(env.payment(0)));
    env.mine();
    let history = of_head(env, json!([0.0, 100.0]));
    let rewards = history["reward"][0].as_array().unwrap();
    rewards.iter().map(|reward| reward.as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

fn no_blocks(env: &CaseEnv<'_>) -> String {
    match env.call("eth_feeHistory", json!(["0x0", "latest", []])) {
        Ok(history) if number(&history["oldestBlock"]) == env.head() => "oldest is the head".to_owned(),
        Ok(history) => format!("oldest {}", number(&history["oldestBlock"])),
        error => show(&error),
    }
}

fn beyond(env: &CaseEnv<'_>) -> String {
    without_head(&accepted(&env.call("eth_feeHistory", json!(["0x1", "0xffffff", []]))), env.head())
}

fn falling(env: &CaseEnv<'_>, percentiles: Value) -> String {
    accepted(&env.call("eth_feeHistory", json!(["0x1", "latest", percentiles])))
}

fn next_base_fee(env: &CaseEnv<'_>) -> String {
    env.mine();
    let history = of_head(env, json!([]));
    env.mine();
    let block = env.ok("eth_getBlockByNumber", json!(["latest", false]));
    (history["baseFeePerGas"][1] == block["baseFeePerGas"]).to_string()
}
