//! Nodes that are away, slow, behind, of another chain, or that lie.

#![allow(clippy::unwrap_used, reason = "all of this is for tests, though not all of it is inside one")]

mod support;

use std::time::{Duration, Instant};

use gapless_chain::{Chain as _, Reason, Verdict};
use gapless_chain_evm::{EvmChain, SendTo};
use gapless_domain::{B256, BlockRef};
use serde_json::json;
use support::{CHAIN, FakeNode, Sending, chain, counted, later, options, plan, send, signed, signer, submitter};

fn at(number: u64) -> BlockRef {
    BlockRef { number, hash: B256::from(gapless_domain::U256::from(number)) }
}

#[expect(clippy::disallowed_methods, reason = "the test measures")]
fn started() -> Instant {
    Instant::now()
}

/// proves S08
#[test]
fn another_hash_than_ours_is_no_acceptance_and_is_counted() {
    let counts = counted(async {
        let liar = FakeNode::start(|script| script.send = Sending::Returns(format!("0x{:064x}", 7))).await;
        let chain = chain(&[&liar]);
        let tx = signed(&chain, &plan(0)).await;
        let answer = send(&chain, &[tx]).await.remove(0);
        assert_eq!((answer.verdict, answer.reason), (Verdict::Unknown, Reason::HashMismatch));
        liar.change(|script| script.send = Sending::Returns("thanks".to_owned()));
        let tx = signed(&chain, &plan(1)).await;
        assert_eq!(send(&chain, &[tx]).await[0].verdict, Verdict::Unknown, "no hash at all proves as little");
    });
    assert_eq!(counts.of("gapless_rpc_hash_mismatch_total"), 1);
    assert!(counts.of("gapless_rpc_requests_total") >= 5);
}

/// proves S10
#[test]
fn any_success_wins_and_a_contradiction_is_counted() {
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
        assert_eq!(sent, [json!(txs[0].raw), json!(txs[1].raw)], "in the order given");
        good.change(|script| script.send = Sending::Refuse(-32000, "intrinsic gas too low"));
        assert_eq!(send(&chain, &txs).await[0].verdict, Verdict::PoolFull, "the least final refusal");
    });
    assert_eq!(counts.of("gapless_rpc_contradiction_total"), 2);
}

/// proves S10
#[tokio::test]
async fn dead_hung_and_foreign_endpoints_cost_no_transaction_and_little_time() {
    let good = FakeNode::start(|_| {}).await;
    let hung = FakeNode::start(|script| script.hang = ["eth_sendRawTransaction"].into()).await;
    let foreign = FakeNode::start(|script| script.chain_id = 1).await;
    let dead = FakeNode::start(|_| {}).await;
    let mut options = options(&[&dead, &foreign, &hung, &good]);
    options.rpc_timeout = Duration::from_secs(20);
    drop(dead);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    for nonce in 0..3 {
        let tx = signed(&chain, &plan(nonce)).await;
        let begin = started();
        assert_eq!(send(&chain, &[tx]).await[0].verdict, Verdict::Accepted);
        assert!(begin.elapsed() < Duration::from_secs(10), "nobody waits for the hung one's time-out");
    }
    assert_eq!(good.count("eth_sendRawTransaction"), 3);
    assert_eq!(foreign.count("eth_sendRawTransaction"), 0, "nothing is sent to another chain");
    assert!(hung.count("eth_sendRawTransaction") > 0);
    let status = chain.endpoints();
    assert_eq!(status.iter().map(|status| status.is_healthy()).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!(status[1].trouble.as_deref(), Some("it is on chain 1"));
}

#[tokio::test]
async fn verdicts_of_the_healthy_are_not_hidden_by_an_endpoint_that_is_known_to_be_away() {
    let node = FakeNode::start(|script| script.send = Sending::Refuse(-32000, "transaction underpriced")).await;
    let dead = FakeNode::start(|_| {}).await;
    let options = options(&[&dead, &node]);
    drop(dead);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    let tx = signed(&chain, &plan(0)).await;
    assert_eq!(send(&chain, &[tx]).await[0].verdict, Verdict::Underpriced);
}

#[tokio::test]
async fn a_final_refusal_waits_for_endpoints_that_were_not_heard() {
    let refuses = FakeNode::start(|script| script.send = Sending::Refuse(-32000, "intrinsic gas too low")).await;
    let other = FakeNode::start(|_| {}).await;
    let foreign = FakeNode::start(|script| script.chain_id = 1).await;
    let chain = chain(&[&refuses, &other, &foreign]);
    chain.head().await.unwrap();
    let tx = [signed(&chain, &plan(0)).await];

    other.change(|script| script.http = Some((429, "retry-after: 3600\r\n", "slow down")));
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::RateLimited);
    let answer = send(&chain, &tx).await.remove(0);
    assert_eq!(other.count("eth_sendRawTransaction"), 1, "it is left alone");
    assert_eq!(answer.verdict, Verdict::Unavailable, "and missed: {}", answer.text);
    assert!(answer.text.as_str().contains("intrinsic gas too low"));

    refuses.change(|script| script.send = Sending::Refuse(-32000, "transaction underpriced"));
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Underpriced, "what decides nothing is told at once");
    refuses.change(|script| script.send = Sending::Accept);
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Accepted);
}

#[tokio::test]
async fn a_final_refusal_does_not_wait_for_ever() {
    let refuses = FakeNode::start(|script| script.send = Sending::Refuse(-32000, "intrinsic gas too low")).await;
    let dead = FakeNode::start(|_| {}).await;
    let options = options(&[&dead, &refuses]);
    drop(dead);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    let tx = [signed(&chain, &plan(0)).await];
    for _ in 0..3 {
        assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Unavailable, "it may be back in a moment");
    }
    later(Duration::from_secs(9 * 60)).await;
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Unavailable, "asked again and still away");
    later(Duration::from_secs(2 * 60)).await;
    assert_eq!(send(&chain, &tx).await[0].verdict, Verdict::Rejected);
}

#[tokio::test]
async fn who_is_of_another_chain_or_not_chosen_is_not_missed() {
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
    let best = EvmChain::connect(options, vec![signer(0)]).unwrap();
    best.head().await.unwrap();
    assert_eq!(send(&best, &tx).await[0].verdict, Verdict::Rejected);
    assert_eq!(other.count("eth_sendRawTransaction"), 0);
}

/// proves O02
#[tokio::test]
async fn a_chain_is_made_without_nodes_and_finds_them_later() {
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
async fn a_time_out_is_no_verdict() {
    let node = FakeNode::start(|script| script.hang = ["eth_sendRawTransaction"].into()).await;
    let mut options = options(&[&node]);
    options.rpc_timeout = Duration::from_millis(200);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    let tx = signed(&chain, &plan(0)).await;
    let answer = send(&chain, &[tx]).await.remove(0);
    assert_eq!((answer.verdict, answer.reason), (Verdict::Unavailable, Reason::TimedOut));
}

#[tokio::test]
async fn who_asks_to_be_left_alone_is_left_alone() {
    let limited = FakeNode::start(|_| {}).await;
    let other = FakeNode::start(|_| {}).await;
    let chain = chain(&[&limited, &other]);
    chain.head().await.unwrap();
    limited.change(|script| script.http = Some((429, "retry-after: 30\r\n", "slow down")));
    let account = [submitter(0)];
    for _ in 0..2 {
        assert!(chain.accounts(&account, None).await.is_ok(), "the other one is asked instead");
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
async fn an_endpoint_that_is_behind_is_not_believed() {
    let lagging = FakeNode::start(|script| script.head = 90).await;
    let newest = FakeNode::start(|script| script.head = 100).await;
    let chain = chain(&[&lagging, &newest]);
    assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 100);
    assert_eq!(chain.head().await.unwrap().block.number, 100);
    newest.change(|script| script.http = Some((502, "", "")));
    assert!(chain.accounts(&[submitter(0)], None).await.is_err(), "what it says is of the past");
    assert!(chain.head().await.is_err());
    lagging.change(|script| script.head = 101);
    assert_eq!(chain.head().await.unwrap().block.number, 101);
    assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 101);
}

#[tokio::test]
async fn an_absurd_head_that_nobody_is_shown_puts_nobody_into_the_past() {
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
    assert!(absurd.count("eth_getBlockByNumber") > 0, "it was asked to show it");
}

#[tokio::test]
async fn a_head_far_above_the_others_counts_when_it_is_shown() {
    let stuck = FakeNode::start(|_| {}).await;
    let newest = FakeNode::start(|script| script.head = 1_000_000).await;
    let chain = chain(&[&stuck, &newest]);
    assert_eq!(chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get(), 1_000_000);
    newest.change(|script| script.http = Some((502, "", "")));
    assert!(chain.accounts(&[submitter(0)], None).await.is_err(), "what the other says is of the past");
    assert!(chain.head().await.is_err());
}

#[tokio::test]
async fn a_node_without_batches_is_asked_one_by_one_and_not_tried_again() {
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
async fn a_node_that_names_a_limit_gets_smaller_batches() {
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
async fn one_error_for_a_whole_batch_is_no_verdict_on_any_transaction() {
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
        // Some of these count as a node that is away: it has to be well before it is sent to again.
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
    assert_eq!(verdicts, [Verdict::Rejected; 2], "each has its own answer, its number is only a text");
}

#[tokio::test]
async fn only_the_best_are_sent_to_when_so_many_are_asked_for() {
    let (first, newer) = (FakeNode::start(|_| {}).await, FakeNode::start(|script| script.head = 101).await);
    let mut options = options(&[&first, &newer]);
    options.send_to = SendTo::Best(1);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    chain.head().await.unwrap();
    let tx = signed(&chain, &plan(0)).await;
    assert_eq!(send(&chain, &[tx]).await[0].verdict, Verdict::Accepted);
    assert_eq!((first.count("eth_sendRawTransaction"), newer.count("eth_sendRawTransaction")), (0, 1));
}

/// proves X03
#[tokio::test]
async fn no_secret_of_a_url_or_a_key_is_shown_by_a_chain() {
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
async fn a_plan_of_another_submitter_or_chain_is_not_signed() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    assert!(chain.sign(&support::permit(submitter(1)), &plan(0)).await.is_err(), "the permit is for another lane");
    let stranger = gapless_domain::TxPlan { submitter: submitter(1), ..plan(0) };
    let answer = chain.sign(&support::permit(submitter(1)), &stranger).await;
    assert_eq!(answer, Err(gapless_chain::SignError::NoKey(submitter(1))));
}
