//! The requests of gas estimates: how many calls and round trips a batch costs.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use std::time::Duration;

use gapless_chain::{ChainPricer as _, ChainReader as _, Verdict};
use gapless_chain_evm::{EvmChain, FeeOptions, Rollup};
use gapless_domain::{Action, Address, Amount, B256, BlockRef, Bytes, EvmCall, Work};
use serde_json::{Value, json};
use support::{FakeNode, chain, later, options, submitter};

/// The address of a contract, and that of an account with a delegation (EIP-7702).
const CONTRACT: Address = Address::repeat_byte(0xc0);
const DELEGATED: Address = Address::repeat_byte(0xde);

const BATCH: u8 = 40;

fn transfer(to: Address) -> EvmCall {
    EvmCall { to: Some(to), value: Amount::from(1_u64), ..EvmCall::default() }
}

/// Transfers to so many accounts without code, from a first one on.
fn transfers(first: u8) -> Vec<EvmCall> {
    (first..first + BATCH).map(|byte| transfer(Address::repeat_byte(byte))).collect()
}

fn answer(method: &str, params: &Value) -> Option<Value> {
    let result = |result: &str| Some(json!({ "jsonrpc": "2.0", "result": result }));
    let has = |account: &Value, address: Address| account.as_str().unwrap().parse::<Address>().unwrap() == address;
    match method {
        "eth_estimateGas" => {
            let is_plain = ![CONTRACT, DELEGATED].iter().any(|code| has(&params[0]["to"], *code));
            let data = params[0]["input"].as_str().or(params[0]["data"].as_str()).unwrap_or("0x");
            result(if is_plain && data == "0x" { "0x5208" } else { "0x7530" })
        }
        "eth_getCode" if has(&params[0], CONTRACT) => result("0x60016002"),
        "eth_getCode" if has(&params[0], DELEGATED) => result(&format!("0xef0100{}", "11".repeat(20))),
        _ => None,
    }
}

async fn start() -> (FakeNode, EvmChain, BlockRef) {
    let node = FakeNode::start(|script| script.custom = Some(answer)).await;
    let chain = chain(&[&node]);
    let head = chain.head().await.unwrap().block;
    (node, chain, head)
}

/// Estimates a batch. Gives the gas of each call, and the numbers of estimates, of codes and of requests.
async fn estimate(node: &FakeNode, chain: &EvmChain, calls: &[EvmCall], at: BlockRef) -> (Vec<u64>, [usize; 3]) {
    node.change(|script| {
        script.asked.clear();
        script.sizes.clear();
    });
    let actions: Vec<Action> = calls.iter().cloned().map(Action::from).collect();
    let actions: Vec<&Action> = actions.iter().collect();
    let work = chain.measure(&submitter(0), &actions, at).await;
    let gas = work.into_iter().map(|work| work.unwrap().units).collect();
    let requests = node.change(|script| script.sizes.len());
    (gas, [node.count("eth_estimateGas"), node.count("eth_getCode"), requests])
}

/// Before: 40 estimates in 40 requests for each of these batches.
#[tokio::test]
async fn plain_transfers_need_no_estimate_after_the_first() {
    let (node, chain, head) = start().await;
    let (gas, counts) = estimate(&node, &chain, &transfers(1), head).await;
    assert_eq!((gas, counts), (vec![21_000; 40], [40, 0, 2]), "the first batch is estimated, 20 in one request");
    let (gas, counts) = estimate(&node, &chain, &transfers(1), head).await;
    assert_eq!((gas, counts), (vec![21_000; 40], [0, 0, 0]), "known recipients need no request");
    let (gas, counts) = estimate(&node, &chain, &transfers(50), head).await;
    assert_eq!((gas, counts), (vec![21_000; 40], [0, 40, 2]), "of new recipients only the code is read");
    let same = vec![transfer(Address::repeat_byte(100)); 40];
    let (gas, counts) = estimate(&node, &chain, &same, head).await;
    assert_eq!((gas, counts), (vec![21_000; 40], [0, 1, 1]), "the code of one recipient is read once");
    let later = BlockRef { number: head.number, hash: B256::repeat_byte(9) };
    let (gas, counts) = estimate(&node, &chain, &same, later).await;
    assert_eq!((gas, counts), (vec![21_000; 40], [0, 1, 1]), "the recipient may have code in another block");
}

#[tokio::test]
async fn recipient_with_code_is_estimated() {
    let (node, chain, head) = start().await;
    estimate(&node, &chain, &transfers(1), head).await;
    for _ in 0..2 {
        for recipient in [CONTRACT, DELEGATED] {
            let calls = [transfer(recipient), transfer(Address::repeat_byte(1))];
            let (gas, counts) = estimate(&node, &chain, &calls, head).await;
            assert_eq!((gas, counts), (vec![30_000, 21_000], [1, 1, 2]), "{recipient}");
        }
    }
}

#[tokio::test]
async fn call_with_data_is_estimated_in_the_same_request() {
    let (node, chain, head) = start().await;
    estimate(&node, &chain, &transfers(1), head).await;
    let with_data = EvmCall { data: Bytes::from_static(&[1]), ..transfer(Address::repeat_byte(1)) };
    let precompile = transfer(Address::with_last_byte(4));
    let calls = [with_data, transfer(Address::repeat_byte(60)), precompile];
    let (gas, counts) = estimate(&node, &chain, &calls, head).await;
    assert_eq!((gas, counts), (vec![30_000, 21_000, 21_000], [2, 1, 1]));
}

/// The gas of a transfer on Arbitrum includes its data, whose price changes.
#[tokio::test]
async fn transfers_of_arbitrum_are_always_estimated() {
    for (rollup, client) in [(Rollup::Arbitrum, "unknown/v1"), (Rollup::None, "nitro/v3.2")] {
        let node = FakeNode::start(|script| {
            script.custom = Some(answer);
            script.client = client;
        })
        .await;
        let mut options = options(&[&node]);
        options.fees = FeeOptions { rollup, ..options.fees };
        let chain = EvmChain::connect(options).unwrap();
        let head = chain.head().await.unwrap().block;
        for _ in 0..2 {
            let (_, counts) = estimate(&node, &chain, &transfers(1), head).await;
            assert_eq!(counts, [40, 0, 2], "{client}");
        }
    }
}

#[tokio::test]
async fn failed_estimate_is_asked_at_another_endpoint() {
    fn refuses(method: &str, params: &Value) -> Option<Value> {
        let is_refused = method == "eth_estimateGas" && params[0]["to"] == json!(CONTRACT);
        let error = json!({ "jsonrpc": "2.0", "error": { "code": -32000, "message": "the flux is out of phase" } });
        if is_refused { Some(error) } else { answer(method, params) }
    }
    let first = FakeNode::start(|script| script.custom = Some(refuses)).await;
    let second = FakeNode::start(|script| script.custom = Some(refuses)).await;
    let chain = chain(&[&first, &second]);
    let head = chain.head().await.unwrap().block;
    let actions = [&transfer(Address::repeat_byte(1)).into(), &transfer(CONTRACT).into()];
    let answers = chain.measure(&submitter(0), &actions, head).await;
    assert_eq!(answers[0], Ok(Work::new(21_000)));
    assert_eq!(answers[1].as_ref().unwrap_err().classified.verdict, Verdict::Unknown);
    let estimates = first.count("eth_estimateGas") + second.count("eth_estimateGas");
    assert_eq!(estimates, 3, "only the failed estimate is repeated");
    second.change(|script| script.custom = Some(answer));
    first.change(|script| script.custom = Some(answer));
    assert_eq!(chain.measure(&submitter(0), &actions, head).await, [21_000, 30_000].map(|gas| Ok(Work::new(gas))));
}

/// Contract calls, which are always estimated.
fn contract_calls(count: u8) -> Vec<EvmCall> {
    (0..count).map(|byte| EvmCall { data: Bytes::copy_from_slice(&[byte]), ..transfer(CONTRACT) }).collect()
}

async fn start_with_timeout() -> (FakeNode, EvmChain, BlockRef) {
    let node = FakeNode::start(|script| script.custom = Some(answer)).await;
    let mut options = options(&[&node]);
    options.rpc_timeout = Duration::from_millis(300);
    let chain = EvmChain::connect(options).unwrap();
    let head = chain.head().await.unwrap().block;
    (node, chain, head)
}

/// The number of calls in the longest request.
fn longest(node: &FakeNode) -> usize {
    node.change(|script| script.sizes.iter().copied().max().unwrap())
}

#[tokio::test]
async fn estimates_that_time_out_together_are_split() {
    let (node, chain, head) = start_with_timeout().await;
    node.change(|script| script.estimates_max = 2);
    let calls: Vec<Action> = contract_calls(20).into_iter().map(Action::from).collect();
    let calls: Vec<&Action> = calls.iter().collect();
    let mut sizes = Vec::new();
    for _ in 0..4 {
        node.change(|script| script.sizes.clear());
        let answers = chain.measure(&submitter(0), &calls, head).await;
        sizes.push((longest(&node), answers.iter().all(Result::is_ok)));
        let endpoint = chain.endpoints().remove(0);
        assert!(endpoint.is_healthy() && endpoint.errors_permille == Some(0), "{endpoint:?}");
    }
    assert_eq!(sizes, [(20, false), (10, false), (5, false), (2, true)]);
    node.change(|script| script.estimates_max = usize::MAX);
    for expected in [4, 8, 16, 20] {
        node.change(|script| script.sizes.clear());
        assert!(chain.measure(&submitter(0), &calls, head).await.iter().all(Result::is_ok));
        assert_eq!(longest(&node), expected, "requests grow again");
    }
}

#[tokio::test]
async fn refused_estimates_leave_the_request_size() {
    let (node, chain, head) = start_with_timeout().await;
    let calls: Vec<Action> = contract_calls(8).into_iter().map(Action::from).collect();
    let calls: Vec<&Action> = calls.iter().collect();
    node.change(|script| script.estimates_max = 3);
    assert!(chain.measure(&submitter(0), &calls[..4], head).await.iter().all(Result::is_err));
    for (status, body) in [(503, "overloaded"), (429, "too many requests")] {
        node.change(|script| script.http = Some((status, "", body)));
        assert!(chain.measure(&submitter(0), &calls[..2], head).await.iter().all(Result::is_err));
        later(Duration::from_secs(2)).await;
    }
    node.change(|script| {
        script.http = None;
        script.sizes.clear();
    });
    assert!(chain.measure(&submitter(0), &calls, head).await.iter().all(Result::is_ok));
    assert_eq!(longest(&node), 2);
}

#[tokio::test]
async fn single_estimate_that_times_out_counts_as_failure() {
    let (node, chain, head) = start_with_timeout().await;
    node.change(|script| script.estimates_max = 0);
    let call = Action::from(contract_calls(1).remove(0));
    let answers = chain.measure(&submitter(0), &[&call], head).await;
    assert_eq!(answers[0].as_ref().unwrap_err().classified.verdict, Verdict::Unavailable);
    assert!(chain.endpoints()[0].errors_permille > Some(0));
}
