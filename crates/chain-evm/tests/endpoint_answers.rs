//! The answers of each endpoint to a send.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use gapless_chain::{ChainSender as _, Verdict};
use gapless_chain_evm::EvmChain;
use gapless_domain::SendOutcome::{self, Accepted, InsufficientFunds, PoolFull, Unavailable};
use gapless_domain::SignedTx;
use support::{FakeNode, Sending, chain, plan, signed};

/// The combined verdict and the sorted answers of the endpoints.
async fn answers(chain: &EvmChain, tx: &SignedTx) -> (Verdict, Vec<(SendOutcome, String, String)>) {
    let answer = chain.broadcast(std::slice::from_ref(tx)).await.remove(0);
    let by_endpoint = answer.heard.into_iter();
    let mut answers: Vec<_> =
        by_endpoint.map(|answer| (answer.outcome, answer.endpoint.to_string(), answer.text.to_string())).collect();
    answers.sort();
    (answer.classified.verdict, answers)
}

fn name(node: &FakeNode) -> String {
    node.url.strip_prefix("http://").unwrap().split_once('/').unwrap().0.to_owned()
}

async fn refusing(text: &'static str) -> FakeNode {
    FakeNode::start(|script| script.send = Sending::Refuse(-32000, text)).await
}

#[tokio::test]
async fn each_endpoint_answer_is_recorded_by_name() {
    let (takes, full, poor) =
        (FakeNode::start(|_| {}).await, refusing("txpool is full").await, refusing("insufficient funds for gas").await);
    let chain = chain(&[&full, &takes, &poor]);
    let tx = signed(&chain, &plan(0)).await;
    let (verdict, recorded) = answers(&chain, &tx).await;
    assert_eq!(verdict, Verdict::Accepted);
    let expected = [
        (Accepted, name(&takes), String::new()),
        (InsufficientFunds, name(&poor), "insufficient funds for gas".to_owned()),
        (PoolFull, name(&full), "txpool is full".to_owned()),
    ];
    assert_eq!(recorded, expected);
    assert!(!format!("{recorded:?}").contains("s3cr3t"));
}

#[tokio::test]
async fn each_transaction_of_a_batch_has_its_own_answers() {
    let (takes, full) = (FakeNode::start(|_| {}).await, refusing("txpool is full").await);
    let chain = chain(&[&takes, &full]);
    let txs = [signed(&chain, &plan(0)).await, signed(&chain, &plan(1)).await];
    for answer in chain.broadcast(&txs).await {
        assert_eq!(answer.heard.len(), 2, "{answer:?}");
    }
    assert!(chain.broadcast(&[]).await.is_empty());
}

#[tokio::test]
async fn uninvolved_endpoint_has_no_answer() {
    let takes = FakeNode::start(|_| {}).await;
    let reads_only = FakeNode::start(|script| script.missing.extend(["eth_sendRawTransaction"])).await;
    let foreign = FakeNode::start(|script| script.chain_id = 7).await;
    let mut gone = FakeNode::start(|_| {}).await;
    gone.stop().await;
    let chain = chain(&[&reads_only, &foreign, &gone, &takes]);
    let tx = signed(&chain, &plan(0)).await;
    let (verdict, recorded) = answers(&chain, &tx).await;
    assert_eq!((verdict, recorded), (Verdict::Accepted, vec![(Accepted, name(&takes), String::new())]));
}

#[tokio::test]
async fn timed_out_endpoint_is_recorded() {
    let hangs = FakeNode::start(|script| script.hang.extend(["eth_sendRawTransaction"])).await;
    let full = refusing("txpool is full").await;
    let chain = chain(&[&hangs, &full]);
    let tx = signed(&chain, &plan(0)).await;
    let (verdict, recorded) = answers(&chain, &tx).await;
    assert_eq!(verdict, Verdict::Unavailable);
    let [(PoolFull, first, _), (Unavailable, second, text)] = recorded.as_slice() else { panic!("{recorded:?}") };
    assert_eq!((first, second), (&name(&full), &name(&hangs)));
    assert_eq!(text, "timed_out");
}

#[tokio::test]
async fn long_answer_is_cut() {
    let text: &'static str = format!("txpool is full {}", "x".repeat(1_500)).leak();
    let full = refusing(text).await;
    let chain = chain(&[&full]);
    let tx = signed(&chain, &plan(0)).await;
    let answer = chain.broadcast(&[tx]).await.remove(0);
    assert_eq!(answer.classified.text.as_str(), text, "the combined answer has the whole text");
    let recorded = answer.heard[0].text.as_str();
    assert!(text.starts_with(recorded) && recorded.len() == 300, "{recorded}");
}
