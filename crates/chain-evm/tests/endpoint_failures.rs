//! Endpoints that are down, slow, lagging, on another chain, or return wrong answers.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use std::time::{Duration, Instant};

use gapless_chain::{ChainReader as _, Reason, Verdict};
use gapless_chain_evm::{EvmChain, EvmEncoder, SendTo};
use gapless_domain::{B256, BlockRef};
use gapless_signer::{SignerError, sign_plans};
use serde_json::json;
use support::{CHAIN, FakeNode, Sending, chain, counted, later, options, plan, send, signed, submitter};

fn at(number: u64) -> BlockRef {
    BlockRef { number, hash: B256::from(gapless_domain::U256::from(number)) }
}

#[expect(clippy::disallowed_methods, reason = "the test measures time")]
fn started() -> Instant {
    Instant::now()
}

/// proves S08
#[test]
fn different_hash_is_no_acceptance_and_is_counted() {
    let counts = counted(async {
        let wrong = FakeNode::start(|script| script.send = Sending::Returns(format!("0x{:064x}", 7))).await;
        let chain = chain(&[&wrong]);
        let tx = signed(&chain, &plan(0)).await;
        let answer = send(&chain, &[tx]).await.remove(0);
        assert_eq!((answer.verdict, answer.reason), (Verdict::Unknown, Reason::HashMismatch));
        wrong.change(|script| script.send = Sending::Returns("thanks".to_owned()));
        let tx = signed(&chain, &plan(1)).await;
        assert_eq!(send(&chain, &[tx]).await[0].verdict, Verdict::Unknown, "a result that is no hash proves nothing");
    });
    assert_eq!(counts.of("gapless_rpc_hash_mismatch_total"), 1);
    assert!(counts.of("gapless_rpc_requests_total") >= 5);
}

/// proves S10
#[test]
fn any_success_wins_and_contradictions_are_counted() {
    let counts = counted(async {
        let good = FakeNode::start(|_| {}).await;
        let refuses = FakeNode::start(|script| script.send = Sending::Refuse(-32000, "intrinsic gas too low")).await;
        let busy = FakeNode::start(|script| script.send = Sending::Refuse(-32000, "txpool is full")).await;
        let chain = chain(&[&refuses, &busy, &good]);
        let txs = [signed(&chain, &plan(0)).await, signed(&chain, &plan(1)).await];
        let answers = send(&chain, &txs).await;
        assert_eq!(answers.iter().map(|answer| answer.verdict).collect::<Vec<_>>(), [Verdict::Accepted; 2]);
        let sent = good.change(|script| {
            script
                .asked
                .iter()
                .filter(|(m, _)| m == "eth_sendRawTransaction")
                .map(|(_, p)| p[0].clone())
                .collect::<Vec<_>>()
        });
        assert_eq!(sent, [json!(txs[0].raw), json!(txs[1].raw)], "in the given order");
        good.change(|script| script.send = Sending::Refuse(-32000, "intrinsic gas too low"));
        assert_eq!(send(&chain, &txs).await[0].verdict, Verdict::PoolFull, "the least final refusal");
    });
    assert_eq!(counts.of("gapless_rpc_contradiction_total"), 2);
}

/// proves S10
#[tokio::test]
async fn failing_endpoints_do_not_delay_a_transaction() {
    let good = FakeNode::start(|_| {}).await;
    let hung = FakeNode::start(|script| script.hang = ["eth_sendRawTransaction"].into()).await;
    let foreign = FakeNode::start(|script| script.chain_id = 1).await;
    let dead = FakeNode::start(|_| {}).await;
    let mut options = options(&[&dead, &foreign, &hung, &good]);
    options.rpc_timeout = Duration::from_secs(20);
    drop(dead);
    let chain = EvmChain::connect(options).unwrap();
    for nonce in 0..3 {
        let tx = signed(&chain, &plan(nonce)).await;
        let begin = started();
        assert_eq!(send(&chain, &[tx]).await[0].verdict, Verdict::Accepted);
        assert!(begin.elapsed() < Duration::from_secs(10), "the time-out of the hung endpoint is not awaited");
    }
    assert_eq!(good.count("eth_sendRawTransaction"), 3);
    assert_eq!(foreign.count("eth_sendRawTransaction"), 0, "no transaction is sent to another chain");
    assert!(hung.count("eth_sendRawTransaction") > 0);
    let status = chain.endpoints();
    assert_eq!(status.iter().map(|status| status.is_healthy()).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!(status[1].last_error.as_deref(), Some("returns chain id 1"));
}

#[tokio::test]
async fn down_endpoint_hides_no_verdict() {
    let node = FakeNode::start(|script| script.send = Sending::Refuse(-32000, "transaction underpriced")).await;
    let dead = FakeNode::start(|_| {}).await;
    let options = options(&[&dead, &node]);
    drop(dead);
    let chain = EvmChain::connect(options).unwrap();
    let tx = signed(&chain, &plan(0)).await;
    assert_eq!(send(&chain, &[tx]).await[0].verdict, Verdict::Underpriced);
}

#[tokio::test]
async fn final_refusal_waits_for_unanswered_endpoints() {
    let refuses = FakeNode::start(|script| script.send = Sending::Refuse(-32000, "intrinsic gas too low")).await;
    let other = FakeNode::start(|_| {}).await;
    let foreign = FakeNode::start(|script| script.chain_id = 1).await;
    let chain = chain(&[&refuses, &other, &foreign]);
    chain.head().await.unwrap();
    let tx = [signed(&chain, &plan(0)).await];

    other.change(|script| script.http = Some((429, "retry-after: 3600\r\n", "slow down")));
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::RateLimited);
    let answer = send(&chain, &tx).await.remove(0);
    assert_eq!(other.count("eth_sendRawTransaction"), 1, "no request during the pause");
    assert_eq!(answer.verdict, Verdict::Unavailable, "its answer is awaited: {}", answer.text);
    assert!(answer.text.as_str().contains("intrinsic gas too low"));

    refuses.change(|script| script.send = Sending::Refuse(-32000, "transaction underpriced"));
    assert_eq!(
        send(&chain, &tx).await[0].verdict,
        Verdict::Underpriced,
        "a refusal that is not final is returned at once"
    );
    refuses.change(|script| script.send = Sending::Accept);
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
}

#[tokio::test]
async fn final_refusal_waits_for_a_limited_time() {
    let refuses = FakeNode::start(|script| script.send = Sending::Refuse(-32000, "intrinsic gas too low")).await;
    let dead = FakeNode::start(|_| {}).await;
    let options = options(&[&dead, &refuses]);
    drop(dead);
    let chain = EvmChain::connect(options).unwrap();
    let tx = [signed(&chain, &plan(0)).await];
    for _ in 0..3 {
        assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Unavailable, "the endpoint may be up again soon");
    }
    later(Duration::from_secs(9 * 60)).await;
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Unavailable, "the endpoint is still down");
    later(Duration::from_secs(2 * 60)).await;
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Rejected);
}

#[tokio::test]
async fn final_refusal_ignores_foreign_and_unchosen_endpoints() {
    let refuses = FakeNode::start(|script| {
        script.head = 101;
        script.send = Sending::Refuse(-32000, "intrinsic gas too low");
    })
    .await;
    let (foreign, other) = (FakeNode::start(|script| script.chain_id = 1).await, FakeNode::start(|_| {}).await);
    let of_two = chain(&[&foreign, &refuses]);
    let tx = [signed(&of_two, &plan(0)).await];
    assert_eq!(send(&of_two, &tx).await[0].verdict, Verdict::Rejected);
    let mut options = options(&[&other, &refuses]);
    options.send_to = SendTo::Best(1);
    let best = EvmChain::connect(options).unwrap();
    best.head().await.unwrap();
    assert_eq!(send(&best, &tx).await[0].verdict, Verdict::Rejected);
    assert_eq!(other.count("eth_sendRawTransaction"), 0);
}

/// proves O02
#[tokio::test]
async fn chain_starts_without_endpoints_and_finds_them_later() {
    let node = FakeNode::start(|script| script.http = Some((503, "", "down for maintenance"))).await;
    let chain = chain(&[&node]);
    let tx = signed(&chain, &plan(0)).await;
    assert_eq!(send(&chain, std::slice::from_ref(&tx)).await[0].verdict, Verdict::Unavailable);
    assert_eq!(chain.head().await.unwrap_err().classified.verdict, Verdict::Unavailable);
    assert!(!chain.endpoints()[0].is_healthy());
    node.change(|script| script.http = None);
    assert_eq!(send(&chain, &[tx]).await[0].verdict, Verdict::Accepted);
    assert_eq!(chain.head().await.unwrap().block, at(100));
    assert!(chain.endpoints()[0].is_healthy());
}

#[tokio::test]
async fn time_out_is_no_verdict() {
    let node = FakeNode::start(|script| script.hang = ["eth_sendRawTransaction"].into()).await;
    let mut options = options(&[&node]);
    options.rpc_timeout = Duration::from_millis(200);
    let chain = EvmChain::connect(options).unwrap();
    let tx = signed(&chain, &plan(0)).await;
    let answer = send(&chain, &[tx]).await.remove(0);
    assert_eq!((answer.verdict, answer.reason), (Verdict::Unavailable, Reason::TimedOut));
}

#[tokio::test]
async fn retry_after_is_respected() {
    let limited = FakeNode::start(|_| {}).await;
    let other = FakeNode::start(|_| {}).await;
    let chain = chain(&[&limited, &other]);
    chain.head().await.unwrap();
    limited.change(|script| script.http = Some((429, "retry-after: 30\r\n", "slow down")));
    let account = [submitter(0)];
    for _ in 0..2 {
        assert!(chain.accounts(&account, None).await.is_ok(), "the other endpoint is asked");
    }
    let asked = limited.change(|script| script.asked.len());
    for _ in 0..3 {
        chain.accounts(&account, None).await.unwrap();
        let tx = signed(&chain, &plan(0)).await;
        assert_eq!(send(&chain, &[tx]).await[0].verdict, Verdict::Accepted);
    }
    assert_eq!(limited.change(|script| script.asked.len()), asked);
}

/// proves S10
#[tokio::test]
async fn lagging_endpoint_is_not_read() {
    let lagging = FakeNode::start(|script| script.head = 90).await;
    let newest = FakeNode::start(|script| script.head = 100).await;
    let chain = chain(&[&lagging, &newest]);
    assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 100);
    assert_eq!(chain.head().await.unwrap().block.number, 100);
    newest.change(|script| script.http = Some((502, "", "")));
    assert!(chain.accounts(&[submitter(0)], None).await.is_err(), "the lagging endpoint is not used");
    assert!(chain.head().await.is_err());
    lagging.change(|script| script.head = 101);
    assert_eq!(chain.head().await.unwrap().block.number, 101);
    assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 101);
}

#[tokio::test]
async fn far_head_without_header_does_not_count() {
    let honest = FakeNode::start(|_| {}).await;
    let absurd = FakeNode::start(|script| {
        script.answers.insert("eth_blockNumber", json!("0xffffffff"));
        script.errors.insert("eth_getBlockByNumber", (-32000, "header not found"));
        script.answers.insert("eth_getTransactionCount", json!("0x7"));
    })
    .await;
    let chain = chain(&[&absurd, &honest]);
    for head in [100, 101] {
        honest.change(|script| script.head = head);
        assert_eq!(chain.head().await.unwrap().block.number, head);
        assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), head);
    }
    assert!(absurd.count("eth_getBlockByNumber") > 0, "the header was requested");
}

#[tokio::test]
async fn far_head_with_header_counts() {
    let stuck = FakeNode::start(|_| {}).await;
    let newest = FakeNode::start(|script| script.head = 1_000_000).await;
    let chain = chain(&[&stuck, &newest]);
    assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 1_000_000);
    newest.change(|script| script.http = Some((502, "", "")));
    assert!(chain.accounts(&[submitter(0)], None).await.is_err(), "the other endpoint is outdated");
    assert!(chain.head().await.is_err());
}

#[tokio::test]
async fn node_without_batches_gets_single_calls() {
    let node = FakeNode::start(|script| script.batch_max = 1).await;
    let chain = chain(&[&node]);
    let accounts: Vec<_> = (0..5).map(submitter).collect();
    for _ in 0..2 {
        assert_eq!(chain.accounts(&accounts, None).await.unwrap().len(), 5);
    }
    let refused = node.change(|script| script.sizes.iter().filter(|size| **size > 1).count());
    assert_eq!(refused, 1);
}

#[tokio::test]
async fn node_with_a_batch_limit_gets_smaller_batches() {
    let node = FakeNode::start(|script| {
        script.batch_max = 30;
        script.batch_refusal =
            json!([{ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": "batch too large" } }]);
    })
    .await;
    let chain = chain(&[&node]);
    let accounts: Vec<_> = (0..40).map(|_| submitter(0)).collect();
    for _ in 0..2 {
        assert_eq!(chain.accounts(&accounts, None).await.unwrap().len(), 40);
    }
    node.change(|script| {
        let last = script.sizes.iter().rev().take(5).copied().collect::<Vec<_>>();
        assert!(last.iter().all(|size| (2..=30).contains(size)), "{:?}", script.sizes);
    });
}

#[tokio::test]
async fn one_error_for_a_batch_is_no_verdict() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    chain.head().await.unwrap();
    let txs = [signed(&chain, &plan(0)).await, signed(&chain, &plan(1)).await];
    let error = json!({ "code": -32000, "message": "intrinsic gas too low" });
    let texts = [
        json!({ "jsonrpc": "2.0", "id": null, "error": error }),
        json!({ "jsonrpc": "2.0", "id": 1, "error": error }),
        json!([{ "jsonrpc": "2.0", "error": error }]),
        json!([{ "id": "a", "error": error }, { "id": "b", "error": error }]),
        json!([{ "id": 0, "error": error }, 7]),
    ];
    for text in texts {
        // Some of these errors count as a failure, so the node has to recover before the next send.
        node.change(|script| script.batch_max = usize::MAX);
        assert_eq!(send(&chain, &txs).await[0].verdict, Verdict::Accepted, "{text}");
        node.change(|script| (script.batch_max, script.batch_refusal) = (1, text.clone()));
        let verdicts: Vec<_> = send(&chain, &txs).await.into_iter().map(|answer| answer.verdict).collect();
        assert_eq!(verdicts, [Verdict::Unavailable; 2], "{text}");
    }
    node.change(|script| {
        script.batch_max = usize::MAX;
        (script.send, script.ids_as_texts) = (Sending::Refuse(-32000, "intrinsic gas too low"), true);
    });
    let verdicts: Vec<_> = send(&chain, &txs).await.into_iter().map(|answer| answer.verdict).collect();
    assert_eq!(verdicts, [Verdict::Rejected; 2], "ids that are texts are matched");
}

#[tokio::test]
async fn send_to_best_sends_to_the_best_only() {
    let (first, newer) = (FakeNode::start(|_| {}).await, FakeNode::start(|script| script.head = 101).await);
    let mut options = options(&[&first, &newer]);
    options.send_to = SendTo::Best(1);
    let chain = EvmChain::connect(options).unwrap();
    chain.head().await.unwrap();
    let tx = signed(&chain, &plan(0)).await;
    assert_eq!(send(&chain, &[tx]).await[0].verdict, Verdict::Accepted);
    assert_eq!((first.count("eth_sendRawTransaction"), newer.count("eth_sendRawTransaction")), (0, 1));
}

/// proves X03
#[tokio::test]
async fn chain_shows_no_secret_of_a_url_or_key() {
    let node = FakeNode::start(|script| script.http = Some((403, "", "key s3cr3ts3cr3t is not allowed"))).await;
    let chain = chain(&[&node]);
    let error = chain.head().await.unwrap_err();
    let tx = signed(&chain, &plan(0)).await;
    let answer = send(&chain, &[tx]).await;
    let shown =
        format!("{chain:?} {chain:#?} {error} {error:?} {answer:?} {:?} {:?}", chain.endpoints(), options(&[&node]));
    assert!(shown.contains("127.0.0.1") && shown.contains("[redacted]"), "{shown}");
    for secret in ["s3cr3t", "ac0974be", "/v3/"] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
    assert_eq!(chain.id().evm_number(), Some(CHAIN));
}

#[tokio::test]
async fn plan_of_another_submitter_is_not_signed() {
    let encoder = EvmEncoder::new(format!("eip155:{CHAIN}").parse().unwrap()).unwrap();
    let permit = support::permit(submitter(1));
    let sign = async |plan| sign_plans(&permit, &encoder, &support::signer(0), &[plan]).await.remove(0);
    let answer = sign(plan(0)).await;
    assert_eq!(answer, Err(SignerError::Mismatch("submitter than its permit")), "the permit is for another lane");
    let stranger = gapless_domain::TxPlan { submitter: submitter(1), ..plan(0) };
    let answer = sign(stranger).await;
    assert_eq!(answer, Err(SignerError::Mismatch("sender")), "the key is of another account");
}
