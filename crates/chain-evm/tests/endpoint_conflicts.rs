//! Endpoints that disagree, lack methods or hang: which answers count, and which prove nothing about a transaction.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use std::time::{Duration, Instant};

use gapless_chain::{ChainReader as _, EndpointHealth, Reason, Verdict};
use gapless_chain_evm::{EvmChain, SendTo};
use support::{FakeNode, Sending, chain, later, options, plan, send, signed, submitter};

/// proves S10
#[tokio::test]
async fn error_text_of_a_down_endpoint_is_no_verdict() {
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
            let answer = send(&chain, &tx).await.remove(0);
            assert_eq!((answer.verdict, answer.reason), (Verdict::Unavailable, Reason::Unreachable), "{answer:?}");
            assert!(answer.text.as_str().contains(words), "the text is kept: {answer:?}");
            assert_eq!(chain.head().await.unwrap_err().classified.verdict, Verdict::Unavailable);
            later(Duration::from_secs(9)).await;
        }
    }
}

#[tokio::test]
async fn refusal_is_not_reported_for_an_unsent_transaction() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    chain.head().await.unwrap();
    let first = [signed(&chain, &plan(0)).await];
    let body = r#"{"error":{"code":-32000,"message":"intrinsic gas too low"}}"#;
    node.change(|script| script.http = Some((500, "", body)));
    for _ in 0..3 {
        send(&chain, &first).await;
    }
    node.change(|script| {
        script.http = None;
        script.errors.insert("eth_blockNumber", (-32000, "node is starting"));
    });
    later(Duration::from_secs(9)).await;
    let second = [signed(&chain, &plan(1)).await];
    let sends = node.count("eth_sendRawTransaction");
    let answer = send(&chain, &second).await.remove(0);
    assert_eq!(node.count("eth_sendRawTransaction"), sends, "the transaction was not sent");
    assert_eq!(answer.verdict, Verdict::Unavailable, "{answer:?}");
}

#[tokio::test]
async fn oscillating_head_makes_no_endpoint_stuck() {
    let (good, balancer) = (FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await);
    let chain = chain(&[&good, &balancer]);
    for turn in 0..12 {
        balancer.change(|script| script.head = if turn % 2 == 0 { 100 } else { 98 });
        assert_eq!(chain.head().await.unwrap().block.number, 100, "turn {turn}");
        later(Duration::from_secs(10)).await;
    }
    assert_eq!(chain.endpoints()[0].health, EndpointHealth::Good);
}

#[tokio::test]
async fn flipping_endpoint_makes_no_endpoint_stuck() {
    let (good, flips) = (FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await);
    let chain = chain(&[&good, &flips]);
    for turn in 0..40 {
        flips.change(|script| script.fork = turn % 2);
        assert_eq!(chain.head().await.unwrap().block.number, 100, "turn {turn}");
        chain.accounts(&[submitter(0)], None).await.unwrap();
        later(Duration::from_secs(4)).await;
    }
    assert_eq!(chain.endpoints()[0].health, EndpointHealth::Good);
}

/// proves S10
#[tokio::test]
async fn syncing_endpoint_is_not_preferred_to_a_flipping_one() {
    let (flips, syncing) = (FakeNode::start(|_| {}).await, FakeNode::start(|script| script.head = 5).await);
    let chain = chain(&[&flips, &syncing]);
    for turn in 0..12 {
        flips.change(|script| script.fork = turn % 2);
        syncing.change(|script| script.head += 1);
        assert_eq!(chain.head().await.unwrap().block.number, 100);
        assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 100);
    }
    assert_eq!(chain.endpoints()[0].health, EndpointHealth::Flipping);
}

#[tokio::test]
async fn head_of_a_paused_endpoint_stops_counting() {
    let (ahead, good) = (FakeNode::start(|script| script.head = 1_000_000).await, FakeNode::start(|_| {}).await);
    let chain = chain(&[&ahead, &good]);
    assert_eq!(chain.head().await.unwrap().block.number, 1_000_000);
    ahead.change(|script| script.http = Some((429, "retry-after: 3600\r\n", "quota")));
    chain.head().await.unwrap_err();
    later(Duration::from_secs(31)).await;
    good.change(|script| script.head += 1);
    assert_eq!(chain.head().await.unwrap().block.number, 101);
}

#[tokio::test]
async fn invented_heads_do_not_make_two_others_lag() {
    let inventor = FakeNode::start(|script| script.head = 1_000_000).await;
    let honest = [FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await];
    let mut options = options(&[&inventor, &honest[0], &honest[1]]);
    options.head_age_max = Duration::from_secs(10);
    let chain = EvmChain::connect(options).unwrap();
    // The chain is halted, and only the invented head rises.
    for _ in 0..8 {
        inventor.change(|script| script.head += 1);
        assert_eq!(chain.head().await.unwrap().block.number, 100);
        assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 100);
        later(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn rate_limited_endpoint_is_preferred_to_a_down_one() {
    let (good, dead) = (FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await);
    let options = options(&[&good, &dead]);
    drop(dead);
    let chain = EvmChain::connect(options).unwrap();
    chain.head().await.unwrap();
    let tx = [signed(&chain, &plan(0)).await];
    later(Duration::from_secs(10)).await;
    good.change(|script| script.http = Some((429, "", "slow down")));
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::RateLimited);
    good.change(|script| script.http = None);
    later(Duration::from_millis(600)).await;
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
}

#[expect(clippy::disallowed_methods, reason = "the test measures time")]
fn started() -> Instant {
    Instant::now()
}

async fn reads_only() -> FakeNode {
    FakeNode::start(|script| {
        script.missing.insert("eth_sendRawTransaction");
    })
    .await
}

#[tokio::test]
async fn read_only_endpoint_hides_no_refusal() {
    let refuses =
        FakeNode::start(|script| script.send = Sending::Refuse(-32000, "insufficient funds for transfer")).await;
    let reads_only = reads_only().await;
    let chain = chain(&[&refuses, &reads_only]);
    chain.head().await.unwrap();
    let tx = [signed(&chain, &plan(0)).await];
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::InsufficientFunds);
    // The read-only endpoint may have the transaction. It is asked ever less often, and awaited for a limited time.
    refuses.change(|script| script.send = Sending::Refuse(-32000, "intrinsic gas too low"));
    for _ in 0..5 {
        assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Unavailable);
    }
    assert_eq!(reads_only.count("eth_sendRawTransaction"), 3);
    later(Duration::from_secs(10 * 60)).await;
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Rejected);
    assert_eq!(reads_only.count("eth_sendRawTransaction"), 4);
    assert_eq!(chain.endpoints()[1].health, EndpointHealth::Good);
}

#[tokio::test]
async fn missing_send_method_is_reported_as_the_reason() {
    let reads_only = reads_only().await;
    let chain = chain(&[&reads_only]);
    let tx = [signed(&chain, &plan(0)).await];
    for _ in 0..5 {
        assert_eq!(send(&chain, &tx).await[0].reason, Reason::MethodMissing);
    }
}

#[tokio::test]
async fn next_endpoint_is_asked_if_the_first_has_no_verdict() {
    let (reads_only, good, third) = (reads_only().await, FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await);
    let mut options = options(&[&reads_only, &good, &third]);
    options.send_to = SendTo::Best(1);
    let chain = EvmChain::connect(options).unwrap();
    chain.head().await.unwrap();
    let txs = [signed(&chain, &plan(0)).await, signed(&chain, &plan(1)).await];
    let verdicts: Vec<_> = send(&chain, &txs).await.into_iter().map(|answer| answer.verdict).collect();
    assert_eq!(verdicts, [Verdict::Accepted; 2]);
    let sends = [&reads_only, &good, &third].map(|node| node.count("eth_sendRawTransaction"));
    assert_eq!(sends, [2, 2, 0]);
    // After a verdict no further endpoint is asked.
    good.change(|script| script.send = Sending::Refuse(-32000, "transaction underpriced"));
    assert_eq!(send(&chain, &txs).await[0].verdict, Verdict::Underpriced);
    assert_eq!(third.count("eth_sendRawTransaction"), 0);
}

#[tokio::test]
async fn broadcast_has_one_deadline() {
    let refuses = FakeNode::start(|script| script.send = Sending::Refuse(-32000, "transaction underpriced")).await;
    let hangs = FakeNode::start(|script| script.batch_max = 1).await;
    let mut options = options(&[&refuses, &hangs]);
    options.rpc_timeout = Duration::from_millis(500);
    let chain = EvmChain::connect(options).unwrap();
    chain.head().await.unwrap();
    let mut txs = Vec::new();
    for nonce in 0..20 {
        txs.push(signed(&chain, &plan(nonce)).await);
    }
    send(&chain, &txs).await;
    hangs.change(|script| script.hang.insert("eth_sendRawTransaction"));
    let begin = started();
    for answer in send(&chain, &txs).await {
        assert_eq!(answer.verdict, Verdict::Unavailable, "the hanging endpoint may have the transaction: {answer:?}");
    }
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn endpoint_that_hangs_on_sends_is_paused_for_sends() {
    let refuses = FakeNode::start(|script| script.send = Sending::Refuse(-32000, "transaction underpriced")).await;
    let hangs = FakeNode::start(|script| script.hang = ["eth_sendRawTransaction"].into()).await;
    let mut options = options(&[&refuses, &hangs]);
    options.rpc_timeout = Duration::from_millis(700);
    let chain = EvmChain::connect(options).unwrap();
    let tx = [signed(&chain, &plan(0)).await];
    let mut verdicts = Vec::new();
    for _ in 0..6 {
        for _ in 0..3 {
            refuses.change(|script| script.head += 1);
            hangs.change(|script| script.head += 1);
            chain.head().await.unwrap();
        }
        verdicts.push(send(&chain, &tx).await.remove(0).verdict);
    }
    use Verdict::{Unavailable, Underpriced};
    assert_eq!(verdicts, [Unavailable, Unavailable, Unavailable, Underpriced, Underpriced, Underpriced]);
    assert_eq!(chain.endpoints()[1].health, EndpointHealth::Good, "its reads are still used");
}

#[tokio::test]
async fn hung_endpoint_does_not_block_the_others() {
    let hung = FakeNode::start(|script| script.hang = ["eth_sendRawTransaction"].into()).await;
    let good = FakeNode::start(|_| {}).await;
    let mut options = options(&[&hung, &good]);
    options.rpc_timeout = Duration::from_secs(60);
    let chain = EvmChain::connect(options).unwrap();
    chain.head().await.unwrap();
    let tx = [signed(&chain, &plan(0)).await];
    for _ in 0..12 {
        let all = futures_util::future::join_all((0..400).map(|_| send(&chain, &tx))).await;
        assert!(all.iter().all(|answer| answer[0].verdict == Verdict::Accepted));
    }
}
