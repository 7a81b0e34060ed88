//! Endpoints that are at odds, half able, or hung: whose word counts, and what a transaction's fate is not concluded from.

#![allow(clippy::unwrap_used, reason = "all of this is for tests, though not all of it is inside one")]

mod support;

use std::time::{Duration, Instant};

use gapless_chain::{Chain as _, EndpointHealth, Reason, Verdict};
use gapless_chain_evm::{EvmChain, SendTo};
use support::{FakeNode, Sending, chain, later, options, plan, send, signed, signer, submitter};

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
            let answer = send(&chain, &tx).await.remove(0);
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
    assert_eq!(node.count("eth_sendRawTransaction"), sends, "it went to nobody");
    assert_eq!(answer.verdict, Verdict::Unavailable, "{answer:?}");
}

#[tokio::test]
async fn one_that_goes_to_and_fro_on_a_halted_chain_makes_nobody_stuck() {
    let (good, balancer) = (FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await);
    let chain = chain(&[&good, &balancer]);
    for turn in 0..12 {
        balancer.change(|script| script.head = if turn % 2 == 0 { 100 } else { 98 });
        assert_eq!(chain.head().await.unwrap().block.number, 100, "turn {turn}");
        later(Duration::from_secs(10)).await;
    }
    assert_eq!(chain.endpoints()[0].standing, EndpointHealth::Good);
}

#[tokio::test]
async fn one_that_flips_on_a_halted_chain_makes_nobody_stuck() {
    let (good, flips) = (FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await);
    let chain = chain(&[&good, &flips]);
    for turn in 0..40 {
        flips.change(|script| script.fork = turn % 2);
        assert_eq!(chain.head().await.unwrap().block.number, 100, "turn {turn}");
        chain.accounts(&[submitter(0)], None).await.unwrap();
        later(Duration::from_secs(4)).await;
    }
    assert_eq!(chain.endpoints()[0].standing, EndpointHealth::Good);
}

/// proves S10
#[tokio::test]
async fn one_that_is_still_syncing_is_not_believed_while_the_other_flips() {
    let (flips, syncing) = (FakeNode::start(|_| {}).await, FakeNode::start(|script| script.head = 5).await);
    let chain = chain(&[&flips, &syncing]);
    for turn in 0..12 {
        flips.change(|script| script.fork = turn % 2);
        syncing.change(|script| script.head += 1);
        assert_eq!(chain.head().await.unwrap().block.number, 100);
        assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 100);
    }
    assert_eq!(chain.endpoints()[0].standing, EndpointHealth::Flipping);
}

#[tokio::test]
async fn the_word_of_one_that_is_not_asked_any_more_does_not_stand_for_ever() {
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
async fn one_that_makes_up_heads_does_not_put_two_others_into_the_past() {
    let liar = FakeNode::start(|script| script.head = 1_000_000).await;
    let honest = [FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await];
    let mut options = options(&[&liar, &honest[0], &honest[1]]);
    options.head_age_max = Duration::from_secs(10);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    // The chain stands still, and only the liar goes on.
    for _ in 0..8 {
        liar.change(|script| script.head += 1);
        assert_eq!(chain.head().await.unwrap().block.number, 100);
        assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 100);
        later(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn one_that_may_be_back_does_not_take_the_place_of_one_that_is_only_busy() {
    let (good, dead) = (FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await);
    let options = options(&[&good, &dead]);
    drop(dead);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    chain.head().await.unwrap();
    let tx = [signed(&chain, &plan(0)).await];
    later(Duration::from_secs(10)).await;
    good.change(|script| script.http = Some((429, "", "slow down")));
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::RateLimited);
    good.change(|script| script.http = None);
    later(Duration::from_millis(600)).await;
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
}

#[expect(clippy::disallowed_methods, reason = "the test measures")]
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
async fn one_that_takes_no_transactions_hides_no_refusal() {
    let refuses =
        FakeNode::start(|script| script.send = Sending::Refuse(-32000, "insufficient funds for transfer")).await;
    let reads_only = reads_only().await;
    let chain = chain(&[&refuses, &reads_only]);
    chain.head().await.unwrap();
    let tx = [signed(&chain, &plan(0)).await];
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::InsufficientFunds);
    // It may have the transaction from elsewhere, and is asked less and less often, and not missed for ever.
    refuses.change(|script| script.send = Sending::Refuse(-32000, "intrinsic gas too low"));
    for _ in 0..5 {
        assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Unavailable);
    }
    assert_eq!(reads_only.count("eth_sendRawTransaction"), 3);
    later(Duration::from_secs(10 * 60)).await;
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Rejected);
    assert_eq!(reads_only.count("eth_sendRawTransaction"), 4);
    assert_eq!(chain.endpoints()[1].standing, EndpointHealth::Good);
}

#[tokio::test]
async fn what_nobody_takes_transactions_for_is_told_with_its_reason() {
    let reads_only = reads_only().await;
    let chain = chain(&[&reads_only]);
    let tx = [signed(&chain, &plan(0)).await];
    for _ in 0..5 {
        assert_eq!(send(&chain, &tx).await[0].reason, Reason::MethodMissing);
    }
}

#[tokio::test]
async fn the_next_ones_stand_in_for_those_that_give_no_verdict() {
    let (reads_only, good, third) = (reads_only().await, FakeNode::start(|_| {}).await, FakeNode::start(|_| {}).await);
    let mut options = options(&[&reads_only, &good, &third]);
    options.send_to = SendTo::Best(1);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    chain.head().await.unwrap();
    let txs = [signed(&chain, &plan(0)).await, signed(&chain, &plan(1)).await];
    let verdicts: Vec<_> = send(&chain, &txs).await.into_iter().map(|answer| answer.verdict).collect();
    assert_eq!(verdicts, [Verdict::Accepted; 2]);
    let sends = [&reads_only, &good, &third].map(|node| node.count("eth_sendRawTransaction"));
    assert_eq!(sends, [2, 2, 0]);
    // A verdict is a verdict: nobody is asked for a better one.
    good.change(|script| script.send = Sending::Refuse(-32000, "transaction underpriced"));
    assert_eq!(send(&chain, &txs).await[0].verdict, Verdict::Underpriced);
    assert_eq!(third.count("eth_sendRawTransaction"), 0);
}

#[tokio::test]
async fn a_broadcast_has_one_deadline() {
    let refuses = FakeNode::start(|script| script.send = Sending::Refuse(-32000, "transaction underpriced")).await;
    let hangs = FakeNode::start(|script| script.batch_max = 1).await;
    let mut options = options(&[&refuses, &hangs]);
    options.rpc_timeout = Duration::from_millis(500);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    chain.head().await.unwrap();
    let mut txs = Vec::new();
    for nonce in 0..20 {
        txs.push(signed(&chain, &plan(nonce)).await);
    }
    send(&chain, &txs).await;
    hangs.change(|script| script.hang.insert("eth_sendRawTransaction"));
    let begin = started();
    for answer in send(&chain, &txs).await {
        assert_eq!(answer.verdict, Verdict::Unavailable, "it may have taken it: {answer:?}");
    }
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn one_that_hangs_on_transactions_only_is_given_none_for_a_while() {
    let refuses = FakeNode::start(|script| script.send = Sending::Refuse(-32000, "transaction underpriced")).await;
    let hangs = FakeNode::start(|script| script.hang = ["eth_sendRawTransaction"].into()).await;
    let mut options = options(&[&refuses, &hangs]);
    options.rpc_timeout = Duration::from_millis(700);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
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
    assert_eq!(chain.endpoints()[1].standing, EndpointHealth::Good, "what it reads is still believed");
}

#[tokio::test]
async fn a_hung_endpoint_takes_no_place_from_the_others() {
    let hung = FakeNode::start(|script| script.hang = ["eth_sendRawTransaction"].into()).await;
    let good = FakeNode::start(|_| {}).await;
    let mut options = options(&[&hung, &good]);
    options.rpc_timeout = Duration::from_secs(60);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    chain.head().await.unwrap();
    let tx = [signed(&chain, &plan(0)).await];
    for _ in 0..12 {
        let all = futures_util::future::join_all((0..400).map(|_| send(&chain, &tx))).await;
        assert!(all.iter().all(|answer| answer[0].verdict == Verdict::Accepted));
    }
}
