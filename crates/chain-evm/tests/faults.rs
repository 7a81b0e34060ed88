//! Nodes that are away, slow, behind, of another chain, or that lie.

#![allow(clippy::unwrap_used, reason = "all of this is for tests, though not all of it is inside one")]

mod support;

use std::time::{Duration, Instant};

use gapless_chain::{Chain as _, HeaderAt, Reason, Verdict};
use gapless_chain_evm::{EvmChain, SendTo};
use gapless_domain::{B256, BlockRef};
use serde_json::json;
use support::{
    CHAIN, FakeNode, Sending, block, chain, counted, later, options, plan, receipt, signed, signer, submitter,
};

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
        let answer = chain.broadcast(&[tx]).await.remove(0);
        assert_eq!((answer.verdict, answer.reason), (Verdict::Unknown, Reason::HashMismatch));
        liar.change(|script| script.send = Sending::Returns("thanks".to_owned()));
        let tx = signed(&chain, &plan(1)).await;
        assert_eq!(chain.broadcast(&[tx]).await[0].verdict, Verdict::Unknown, "no hash at all proves as little");
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
        let answers = chain.broadcast(&txs).await;
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
        assert_eq!(chain.broadcast(&txs).await[0].verdict, Verdict::PoolFull, "the least final refusal");
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
        assert_eq!(chain.broadcast(&[tx]).await[0].verdict, Verdict::Accepted);
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
    assert_eq!(chain.broadcast(&[tx]).await[0].verdict, Verdict::Underpriced);
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
    assert_eq!(chain.broadcast(&tx).await[0].verdict, Verdict::RateLimited);
    let answer = chain.broadcast(&tx).await.remove(0);
    assert_eq!(other.count("eth_sendRawTransaction"), 1, "it is left alone");
    assert_eq!(answer.verdict, Verdict::Unavailable, "and missed: {}", answer.text);
    assert!(answer.text.as_str().contains("intrinsic gas too low"));

    refuses.change(|script| script.send = Sending::Refuse(-32000, "transaction underpriced"));
    assert_eq!(chain.broadcast(&tx).await[0].verdict, Verdict::Underpriced, "what decides nothing is told at once");
    refuses.change(|script| script.send = Sending::Accept);
    assert_eq!(chain.broadcast(&tx).await[0].verdict, Verdict::Accepted);
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
        assert_eq!(chain.broadcast(&tx).await[0].verdict, Verdict::Unavailable, "it may be back in a moment");
    }
    later(Duration::from_secs(9 * 60)).await;
    assert_eq!(chain.broadcast(&tx).await[0].verdict, Verdict::Unavailable, "asked again and still away");
    later(Duration::from_secs(2 * 60)).await;
    assert_eq!(chain.broadcast(&tx).await[0].verdict, Verdict::Rejected);
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
    assert_eq!(of_two.broadcast(&tx).await[0].verdict, Verdict::Rejected);
    let mut options = options(&[&other, &refuses]);
    options.send_to = SendTo::Best(1);
    let best = EvmChain::connect(options, vec![signer(0)]).unwrap();
    best.head().await.unwrap();
    assert_eq!(best.broadcast(&tx).await[0].verdict, Verdict::Rejected);
    assert_eq!(other.count("eth_sendRawTransaction"), 0);
}

/// proves O02
#[tokio::test]
async fn a_chain_is_made_without_nodes_and_finds_them_later() {
    let node = FakeNode::start(|script| script.http = Some((503, "", "down for maintenance"))).await;
    let chain = chain(&[&node]);
    let tx = signed(&chain, &plan(0)).await;
    assert_eq!(chain.broadcast(std::slice::from_ref(&tx)).await[0].verdict, Verdict::Unavailable);
    assert_eq!(chain.head().await.unwrap_err().classified.verdict, Verdict::Unavailable);
    assert!(!chain.endpoints()[0].is_healthy());
    node.change(|script| script.http = None);
    assert_eq!(chain.broadcast(&[tx]).await[0].verdict, Verdict::Accepted);
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
    let answer = chain.broadcast(&[tx]).await.remove(0);
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
        assert_eq!(chain.broadcast(&[tx]).await[0].verdict, Verdict::Accepted);
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
        assert_eq!(chain.broadcast(&txs).await[0].verdict, Verdict::Accepted, "{text}");
        node.change(|script| (script.batch_max, script.batch_refusal) = (1, text.clone()));
        let verdicts: Vec<_> = chain.broadcast(&txs).await.into_iter().map(|answer| answer.verdict).collect();
        assert_eq!(verdicts, [Verdict::Unavailable; 2], "{text}");
    }
    node.change(|script| {
        script.batch_max = usize::MAX;
        (script.send, script.ids_as_texts) = (Sending::Refuse(-32000, "intrinsic gas too low"), true);
    });
    let verdicts: Vec<_> = chain.broadcast(&txs).await.into_iter().map(|answer| answer.verdict).collect();
    assert_eq!(verdicts, [Verdict::Rejected; 2], "each has its own answer, its number is only a text");
}

#[tokio::test]
async fn accounts_are_asked_for_in_one_request() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    chain.head().await.unwrap();
    let before = node.change(|script| script.sizes.len());
    let accounts: Vec<_> = (0..25).map(|_| submitter(0)).collect();
    let views = chain.accounts(&accounts, Some(at(90))).await.unwrap();
    assert!(views.iter().all(|view| view.finalized == Some(view.latest)));
    assert_eq!(node.change(|script| script.sizes.split_off(before)), [100]);
}

#[tokio::test]
async fn a_node_that_wants_final_counts_by_number_gets_them_so() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    chain.head().await.unwrap();
    node.change(|script| script.missing.insert("eth_getTransactionCount"));
    assert!(chain.accounts(&[submitter(0)], Some(at(90))).await.is_err(), "the count itself is needed");
    node.change(|script| script.missing.clear());
    assert!(chain.accounts(&[submitter(0)], Some(at(90))).await.is_ok());
    let last = node.change(|script| script.asked.last().cloned().unwrap());
    assert_eq!(last.1[1], "0x5a", "once it is found out, it is remembered");
}

#[tokio::test]
async fn a_node_that_does_not_have_the_final_block_is_not_asked_for_another_one_of_that_number() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    let by_number = || node.change(|script| script.asked.iter().any(|(_, params)| params[1] == "0x5a"));
    for (code, text) in [
        (-32000, "hash is not currently canonical"),
        (-32000, "header for hash not found"),
        (-32000, "header not found"),
        (-32602, "invalid params: the block is not canonical"),
        (-32000, "missing trie node"),
    ] {
        node.change(|script| script.count_by_hash = Some((code, text)));
        let view = chain.accounts(&[submitter(0)], Some(at(90))).await.unwrap()[0];
        assert_eq!((view.latest.get(), view.finalized), (100, None), "{text}");
        assert!(!by_number(), "{text}");
    }
    node.change(|script| script.count_by_hash = None);
    assert!(
        chain.accounts(&[submitter(0)], Some(at(90))).await.unwrap()[0].finalized.is_some(),
        "nothing was unlearned"
    );
    let text = "invalid argument 1: json: cannot unmarshal object into Go value of type string";
    node.change(|script| script.count_by_hash = Some((-32602, text)));
    assert!(chain.accounts(&[submitter(0)], Some(at(90))).await.unwrap()[0].finalized.is_some());
    assert!(by_number());
}

#[tokio::test]
async fn receipts_of_a_block_without_the_method_for_it() {
    let hashes = [format!("0x{:064x}", 1), format!("0x{:064x}", 2)];
    let node = FakeNode::start(|script| {
        let mut row = block(100);
        row["transactions"] = json!(hashes);
        script.answers.insert("eth_getBlockByHash", row);
        script.answers.insert("eth_getTransactionReceipt", receipt(&hashes[0], 100));
    })
    .await;
    let chain = chain(&[&node]);
    assert_eq!(
        chain.block_receipts(at(100), &|_| true).await.unwrap(),
        None,
        "the second receipt is of another transaction"
    );
    node.change(|script| {
        script.answers.insert("eth_getBlockByHash", {
            let mut row = block(100);
            row["transactions"] = json!([hashes[0]]);
            row
        })
    });
    let receipts = chain.block_receipts(at(100), &|_| true).await.unwrap().unwrap();
    assert_eq!((receipts.len(), receipts[0].block, receipts[0].succeeded), (1, at(100), true));
    assert_eq!(node.count("eth_getBlockReceipts"), 1, "asked once, and remembered");
    assert_eq!(chain.block_receipts(at(99), &|_| true).await.unwrap(), None, "that is another block");
}

#[tokio::test]
async fn without_the_method_for_it_only_the_wanted_receipts_of_a_block_are_asked_for() {
    let hash = |n: u64| B256::from(gapless_domain::U256::from(n));
    let node = FakeNode::start(|script| {
        let mut row = block(100);
        row["transactions"] = (1..=50).map(|n| json!(hash(n))).collect();
        script.answers.insert("eth_getBlockByHash", row);
        script.custom = Some(|method, params| {
            let receipt = || receipt(params[0].as_str().unwrap(), 100);
            (method == "eth_getTransactionReceipt").then(|| json!({ "result": receipt() }))
        });
    })
    .await;
    let chain = chain(&[&node]);
    let wanted = |asked: B256| [hash(3), hash(49), hash(77)].contains(&asked);
    let receipts = chain.block_receipts(at(100), &wanted).await.unwrap().unwrap();
    assert_eq!(receipts.iter().map(|receipt| receipt.hash).collect::<Vec<_>>(), [hash(3), hash(49)]);
    assert_eq!(node.count("eth_getTransactionReceipt"), 2);
    assert_eq!(chain.block_receipts(at(100), &|_| false).await.unwrap(), Some(vec![]), "the block is known");
    assert_eq!(node.count("eth_getBlockReceipts"), 1, "asked once, and remembered");

    // Whoever answers after it was away may be another node.
    node.change(|script| script.http = Some((502, "", "")));
    while chain.endpoints()[0].is_healthy() {
        chain.head().await.unwrap_err();
    }
    node.change(|script| script.http = None);
    chain.block_receipts(at(100), &wanted).await.unwrap().unwrap();
    assert_eq!(node.count("eth_getBlockReceipts"), 2, "and looked at again");
}

/// proves R02
#[tokio::test]
async fn a_receipt_that_cannot_be_had_hides_no_other() {
    let node = FakeNode::start(|script| {
        script.custom = Some(|method, params| {
            let hash = params[0].as_str().unwrap_or_default();
            let answer = match hash.chars().last() {
                Some('1') => json!({ "error": { "code": -32603, "message": "internal error" } }),
                Some('2') => json!({ "result": { "transactionHash": "no" } }),
                Some('3') => json!({ "result": null }),
                _ => json!({ "result": receipt(hash, 100) }),
            };
            (method == "eth_getTransactionReceipt").then_some(answer)
        });
    })
    .await;
    let chain = chain(&[&node]);
    let hash = |n: u64| B256::from(gapless_domain::U256::from(n));
    let receipts = chain.receipts(&[1, 4, 2, 3, 5].map(hash)).await.unwrap();
    let found: Vec<_> = receipts.iter().map(|receipt| receipt.as_ref().map(|receipt| receipt.hash)).collect();
    assert_eq!(found, [None, Some(hash(4)), None, None, Some(hash(5))]);
    assert!(
        chain.receipts(&[1, 2].map(hash)).await.is_err(),
        "nothing was answered at all, so that somebody backs off"
    );
}

/// How each of these ended is in its hash's last digit.
fn failed(method: &str, params: &serde_json::Value) -> Option<serde_json::Value> {
    let hash = params[0].as_str().unwrap_or_default();
    let kind = hash.chars().last().unwrap_or('-');
    let result = match (method, kind) {
        ("eth_getTransactionReceipt", '9') => return Some(json!({ "error": { "code": -32603, "message": "oops" } })),
        ("eth_getTransactionReceipt", _) => {
            let mut row = receipt(hash, 100);
            row["status"] = json!(if kind == '0' { "0x1" } else { "0x0" });
            if kind == '1' {
                row["revertReason"] = json!("0x82b42900");
            }
            row
        }
        ("debug_traceTransaction", '2') => json!({ "error": "execution reverted", "output": "0x82b42901" }),
        ("debug_traceTransaction", '3') => json!({ "error": "invalid opcode: INVALID", "output": "0x" }),
        ("debug_traceTransaction", _) => {
            return Some(json!({ "error": { "code": -32000, "message": "historical state is not available" } }));
        }
        ("eth_getTransactionByHash", '7') => json!(null),
        ("eth_getTransactionByHash", _) => json!({
            "hash": hash, "from": "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", "to": null, "input": format!("0x0{kind}"),
            "value": "0x0", "gas": if kind == '6' { "0x5208" } else { "0x5209" }, "gasPrice": "0x7", "chainId": "0x1",
        }),
        ("eth_call", _) => {
            assert_eq!(params[1], "0x63", "on top of the block before");
            match params[0]["input"].as_str().unwrap() {
                "0x04" => {
                    let error = json!({ "code": 3, "message": "execution reverted", "data": "0x82b42902" });
                    return Some(json!({ "error": error }));
                }
                _ => json!("0x"),
            }
        }
        _ => return None,
    };
    Some(json!({ "result": result }))
}

#[tokio::test]
async fn why_something_reverted_is_found_out_in_whatever_way_a_node_has() {
    let node = FakeNode::start(|script| script.custom = Some(failed)).await;
    let chain = chain(&[&node]);
    let hash = |n: u64| B256::from(gapless_domain::U256::from(n));
    let hashes: Vec<B256> = (0..8).chain([9]).map(hash).collect();
    let told = chain.reverts(&hashes).await.unwrap();
    let reasons: Vec<Option<String>> =
        told.iter().map(|revert| Some(revert.as_ref()?.reason.as_ref()?.to_string())).collect();
    let expected = [
        None,
        Some("custom error 0x82b42900"),
        Some("custom error 0x82b42901"),
        Some("invalid opcode: INVALID"),
        Some("custom error 0x82b42902"),
        // Once more it goes well: nothing is known.
        None,
        Some("out of gas"),
        None,
        None,
    ];
    assert_eq!(reasons.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    assert_eq!(told.iter().map(Option::is_some).collect::<Vec<_>>(), expected.map(|reason| reason.is_some()));
    assert_eq!(node.count("debug_traceTransaction"), 6, "neither what went well nor what is explained");
    assert!(chain.reverts(&[hash(9)]).await.is_err());
    assert_eq!(chain.reverts(&[]).await.unwrap(), []);

    // Who cannot trace is asked so once, and is none the worse for it.
    node.change(|script| {
        script.missing.insert("debug_traceTransaction");
        script.custom = Some(|method, params| if method.starts_with("debug") { None } else { failed(method, params) });
    });
    for _ in 0..2 {
        assert!(chain.reverts(&[hash(4)]).await.unwrap()[0].is_some());
    }
    assert_eq!(node.count("debug_traceTransaction"), 7);
    assert_eq!(chain.endpoints()[0].errors_permille, Some(0));
}

#[tokio::test]
async fn what_one_endpoint_cannot_explain_another_may() {
    let knows_nothing = FakeNode::start(|script| {
        drop(script.answers.insert("eth_getTransactionReceipt", json!(null)));
        script.head = 101;
    })
    .await;
    let other = FakeNode::start(|script| script.custom = Some(failed)).await;
    let chain = chain(&[&knows_nothing, &other]);
    chain.head().await.unwrap();
    let hash = |n: u64| B256::from(gapless_domain::U256::from(n));
    let told = chain.reverts(&[hash(1), hash(7)]).await.unwrap();
    assert!(told[0].is_some() && told[1].is_none());
}

#[tokio::test]
async fn traces_that_are_not_for_us_or_never_come_do_not_put_an_endpoint_out_of_use() {
    let node = FakeNode::start(|script| {
        script.custom = Some(|method, params| if method.starts_with("debug") { None } else { failed(method, params) });
        script.hang.insert("debug_traceTransaction");
    })
    .await;
    let mut options = options(&[&node]);
    options.rpc_timeout = Duration::from_millis(200);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    let hash = B256::from(gapless_domain::U256::from(4));
    for _ in 0..5 {
        assert!(chain.reverts(&[hash]).await.unwrap()[0].is_some());
    }
    assert!(chain.endpoints()[0].is_healthy());
    assert_eq!(chain.endpoints()[0].errors_permille, Some(0));
}

/// What is not whole, or of another block, would leave a hole that nobody sees (P4).
#[tokio::test]
async fn receipts_of_another_block_or_too_few_are_no_answer() {
    let rows = |count: u64| (1..=count).map(|n| receipt(&format!("0x{n:064x}"), 100)).collect::<Vec<_>>();
    let node = FakeNode::start(|script| {
        script.answers.insert("eth_getBlockReceipts", json!(rows(2)));
        script.answers.insert("eth_getBlockTransactionCountByHash", json!("0x2"));
    })
    .await;
    let chain = chain(&[&node]);
    assert_eq!(chain.block_receipts(at(100), &|_| true).await.unwrap().unwrap().len(), 2);
    assert_eq!(chain.block_receipts(at(101), &|_| true).await.unwrap(), None);
    node.change(|script| script.answers.insert("eth_getBlockReceipts", json!(rows(1))));
    assert_eq!(chain.block_receipts(at(100), &|_| true).await.unwrap(), None);
    node.change(|script| script.answers.insert("eth_getBlockReceipts", json!(null)));
    assert_eq!(chain.block_receipts(at(100), &|_| true).await.unwrap(), None);
}

#[tokio::test]
async fn receipts_that_nobody_counted_are_no_answer() {
    let hashes = [format!("0x{:064x}", 1), format!("0x{:064x}", 2)];
    let node = FakeNode::start(|script| {
        script.answers.insert("eth_getBlockReceipts", json!([receipt(&hashes[0], 100)]));
        let mut row = block(100);
        row["transactions"] = json!(hashes);
        script.answers.insert("eth_getBlockByHash", row);
    })
    .await;
    let chain = chain(&[&node]);
    for (code, text) in [(-32000, "too many requests"), (-32603, "internal error"), (-32000, "request timed out")] {
        node.change(|script| script.errors.insert("eth_getBlockTransactionCountByHash", (code, text)));
        assert!(chain.block_receipts(at(100), &|_| true).await.is_err(), "{text}");
    }
    node.change(|script| {
        script.errors.clear();
        script.missing.insert("eth_getBlockTransactionCountByHash");
    });
    assert_eq!(
        chain.block_receipts(at(100), &|_| true).await.unwrap(),
        None,
        "the block itself says that there are two"
    );
    let both = json!([receipt(&hashes[0], 100), receipt(&hashes[1], 100)]);
    node.change(|script| script.answers.insert("eth_getBlockReceipts", both));
    assert_eq!(chain.block_receipts(at(100), &|_| true).await.unwrap().unwrap().len(), 2);
}

#[tokio::test]
async fn what_the_newest_does_not_know_another_may() {
    let behind = FakeNode::start(|script| {
        script.head = 99;
        script.answers.insert("eth_getBlockByHash", block(98));
    })
    .await;
    let newest = FakeNode::start(|script| drop(script.answers.insert("eth_getBlockByHash", json!(null)))).await;
    let chain = chain(&[&behind, &newest]);
    assert_eq!(chain.header(HeaderAt::Hash(at(98).hash)).await.unwrap().unwrap().block, at(98));
    behind.change(|script| script.answers.insert("eth_getBlockByHash", json!(null)));
    assert_eq!(chain.header(HeaderAt::Hash(at(98).hash)).await.unwrap(), None);
}

#[tokio::test]
async fn a_chain_without_finality_has_none() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    chain.head().await.unwrap();
    node.change(|script| script.missing.insert("eth_getBlockByNumber"));
    for tag in [HeaderAt::Finalized, HeaderAt::Safe] {
        assert_eq!(chain.header(tag).await.unwrap(), None);
    }
}

#[tokio::test]
async fn headers_come_in_as_few_requests_as_it_takes() {
    let node = FakeNode::start(|_| {}).await;
    let mut options = options(&[&node]);
    options.batch_max = 4;
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    chain.head().await.unwrap();
    node.change(|script| script.sizes.clear());
    let headers = chain.headers(94..=103).await.unwrap();
    let known: Vec<_> = headers.iter().map(|header| header.map(|header| header.block)).collect();
    let expected: Vec<_> = (94..=103).map(|number| (number <= 100).then(|| at(number))).collect();
    assert_eq!(known, expected);
    let mut sizes = node.change(|script| script.sizes.clone());
    sizes.sort_unstable();
    assert_eq!(sizes, [2, 4, 4]);
    #[expect(clippy::reversed_empty_ranges, reason = "nothing is asked for, and nothing is wrong")]
    let nothing = chain.headers(9..=8).await.unwrap();
    assert_eq!(nothing, []);
    assert!(chain.headers(0..=u64::MAX).await.is_err());
    assert!(chain.headers(0..=EvmChain::MAX_HEADERS).await.is_err());

    // A node that answers with another block than the one asked for has not answered.
    node.change(|script| script.answers.insert("eth_getBlockByNumber", block(100)));
    let headers = chain.headers(99..=100).await.unwrap();
    assert_eq!(headers.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    node.change(|script| script.errors.insert("eth_getBlockByNumber", (-32603, "internal error")));
    assert!(chain.headers(99..=100).await.is_err(), "an error is no missing block");
}

#[tokio::test]
async fn only_the_best_are_sent_to_when_so_many_are_asked_for() {
    let (first, newer) = (FakeNode::start(|_| {}).await, FakeNode::start(|script| script.head = 101).await);
    let mut options = options(&[&first, &newer]);
    options.send_to = SendTo::Best(1);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    chain.head().await.unwrap();
    let tx = signed(&chain, &plan(0)).await;
    assert_eq!(chain.broadcast(&[tx]).await[0].verdict, Verdict::Accepted);
    assert_eq!((first.count("eth_sendRawTransaction"), newer.count("eth_sendRawTransaction")), (0, 1));
}

/// proves X03
#[tokio::test]
async fn no_secret_of_a_url_or_a_key_is_shown_by_a_chain() {
    let node = FakeNode::start(|script| script.http = Some((403, "", "key s3cr3ts3cr3t is not allowed"))).await;
    let chain = chain(&[&node]);
    let error = chain.head().await.unwrap_err();
    let tx = signed(&chain, &plan(0)).await;
    let answer = chain.broadcast(&[tx]).await;
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
