//! What each endpoint said to a send.

#![allow(clippy::unwrap_used, reason = "all of this is for tests, though not all of it is inside one")]

mod support;

use gapless_chain::{Chain as _, Verdict};
use gapless_chain_evm::EvmChain;
use gapless_domain::SendOutcome::{self, Accepted, InsufficientFunds, PoolFull, Unavailable};
use gapless_domain::SignedTx;
use support::{FakeNode, Sending, chain, plan, signed};

/// Sorted by what was said: which of them is faster is nobody's business here.
async fn heard(chain: &EvmChain, tx: &SignedTx) -> (Verdict, Vec<(SendOutcome, String, String)>) {
    let answer = chain.broadcast(std::slice::from_ref(tx)).await.remove(0);
    let told =
        answer.heard.into_iter().map(|heard| (heard.outcome, heard.endpoint.to_string(), heard.text.to_string()));
    let mut told: Vec<_> = told.collect();
    told.sort();
    (answer.classified.verdict, told)
}

fn name(node: &FakeNode) -> String {
    node.url.strip_prefix("http://").unwrap().split_once('/').unwrap().0.to_owned()
}

async fn refusing(text: &'static str) -> FakeNode {
    FakeNode::start(|script| script.send = Sending::Refuse(-32000, text)).await
}

#[tokio::test]
async fn each_endpoints_word_is_kept_by_its_name() {
    let (takes, full, poor) =
        (FakeNode::start(|_| {}).await, refusing("txpool is full").await, refusing("insufficient funds for gas").await);
    let chain = chain(&[&full, &takes, &poor]);
    let tx = signed(&chain, &plan(0)).await;
    let (verdict, told) = heard(&chain, &tx).await;
    assert_eq!(verdict, Verdict::Accepted);
    let expected = [
        (Accepted, name(&takes), String::new()),
        (InsufficientFunds, name(&poor), "insufficient funds for gas".to_owned()),
        (PoolFull, name(&full), "txpool is full".to_owned()),
    ];
    assert_eq!(told, expected);
    assert!(!format!("{told:?}").contains("s3cr3t"));
}

#[tokio::test]
async fn each_transaction_of_a_batch_has_its_own_words() {
    let (takes, full) = (FakeNode::start(|_| {}).await, refusing("txpool is full").await);
    let chain = chain(&[&takes, &full]);
    let txs = [signed(&chain, &plan(0)).await, signed(&chain, &plan(1)).await];
    for answer in chain.broadcast(&txs).await {
        assert_eq!(answer.heard.len(), 2, "{answer:?}");
    }
    assert!(chain.broadcast(&[]).await.is_empty());
}

#[tokio::test]
async fn who_had_no_part_in_it_has_no_word() {
    let takes = FakeNode::start(|_| {}).await;
    let reads_only = FakeNode::start(|script| script.missing.extend(["eth_sendRawTransaction"])).await;
    let foreign = FakeNode::start(|script| script.chain_id = 7).await;
    let mut gone = FakeNode::start(|_| {}).await;
    gone.stop().await;
    let chain = chain(&[&reads_only, &foreign, &gone, &takes]);
    let tx = signed(&chain, &plan(0)).await;
    let (verdict, told) = heard(&chain, &tx).await;
    assert_eq!((verdict, told), (Verdict::Accepted, vec![(Accepted, name(&takes), String::new())]));
}

#[tokio::test]
async fn who_gave_no_answer_in_its_time_may_have_it_and_is_named() {
    let hangs = FakeNode::start(|script| script.hang.extend(["eth_sendRawTransaction"])).await;
    let full = refusing("txpool is full").await;
    let chain = chain(&[&hangs, &full]);
    let tx = signed(&chain, &plan(0)).await;
    let (verdict, told) = heard(&chain, &tx).await;
    assert_eq!(verdict, Verdict::Unavailable);
    let [(PoolFull, first, _), (Unavailable, second, text)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((first, second), (&name(&full), &name(&hangs)));
    assert_eq!(text, "timed_out");
}

#[tokio::test]
async fn a_long_speech_is_cut() {
    let speech: &'static str = format!("txpool is full {}", "x".repeat(1_500)).leak();
    let full = refusing(speech).await;
    let chain = chain(&[&full]);
    let tx = signed(&chain, &plan(0)).await;
    let answer = chain.broadcast(&[tx]).await.remove(0);
    assert_eq!(answer.classified.text.as_str(), speech, "what is decided by is whole");
    let said = answer.heard[0].text.as_str();
    assert!(speech.starts_with(said) && said.len() == 300, "{said}");
}
