//! Endpoints that are at odds, half able, or hung: whose word counts, and what a transaction's fate is not concluded from.

#![allow(clippy::unwrap_used, reason = "all of this is for tests, though not all of it is inside one")]

mod support;

use std::time::Duration;

use gapless_chain::{Chain as _, Reason, Verdict};
use support::{FakeNode, chain, later, plan, signed};

/// proves S10
#[tokio::test]
async fn what_reached_nobody_is_not_judged_by_what_strangers_say() {
    for words in [
        "already known",
        "nonce too low",
        "intrinsic gas too low",
        "invalid sender",
        "insufficient funds for gas * price + value",
        "transaction underpriced",
        "execution reverted",
    ] {
        let node = FakeNode::start(|_| {}).await;
        let chain = chain(&[&node]);
        let tx = [signed(&chain, &plan(0)).await];
        let body = format!(r#"{{"jsonrpc":"2.0","id":0,"error":{{"code":-32000,"message":"{words}"}}}}"#);
        node.change(|script| script.http = Some((500, "", Box::leak(body.into_boxed_str()))));
        for _ in 0..3 {
            let answer = chain.broadcast(&tx).await.remove(0);
            assert_eq!((answer.verdict, answer.reason), (Verdict::Unavailable, Reason::Unreachable), "{answer:?}");
            assert!(answer.text.as_str().contains(words), "what they say is still told: {answer:?}");
            assert_eq!(chain.head().await.unwrap_err().classified.verdict, Verdict::Unavailable);
            later(Duration::from_secs(9)).await;
        }
    }
}

#[tokio::test]
async fn a_refusal_of_one_transaction_is_not_told_of_another_that_reached_nobody() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    chain.head().await.unwrap();
    let first = [signed(&chain, &plan(0)).await];
    let body = r#"{"error":{"code":-32000,"message":"intrinsic gas too low"}}"#;
    node.change(|script| script.http = Some((500, "", body)));
    for _ in 0..3 {
        chain.broadcast(&first).await;
    }
    node.change(|script| {
        script.http = None;
        script.errors.insert("eth_blockNumber", (-32000, "node is starting"));
    });
    later(Duration::from_secs(9)).await;
    let second = [signed(&chain, &plan(1)).await];
    let sends = node.count("eth_sendRawTransaction");
    let answer = chain.broadcast(&second).await.remove(0);
    assert_eq!(node.count("eth_sendRawTransaction"), sends, "it went to nobody");
    assert_eq!(answer.verdict, Verdict::Unavailable, "{answer:?}");
}
