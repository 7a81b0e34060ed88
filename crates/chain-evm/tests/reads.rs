//! Reads from nodes, and the differences between their answers.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use std::time::Duration;

use gapless_chain::{ChainReader as _, HeaderAt};
use gapless_chain_evm::EvmChain;
use gapless_domain::{B256, BlockRef};
use serde_json::json;
use support::{FakeNode, block, chain, options, receipt, submitter};

fn at(number: u64) -> BlockRef {
    BlockRef { number, hash: B256::from(gapless_domain::U256::from(number)) }
}

#[tokio::test]
async fn accounts_are_read_in_one_request() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    chain.head().await.unwrap();
    let before = node.change(|script| script.sizes.len());
    let accounts: Vec<_> = (0..20).map(|_| submitter(0)).collect();
    let views = chain.accounts(&accounts, Some(at(90))).await.unwrap();
    assert!(views.iter().all(|view| view.finalized == Some(view.latest)));
    assert_eq!(node.change(|script| script.sizes.split_off(before)), [100]);
}

#[tokio::test]
async fn final_counts_are_read_by_number_if_hashes_fail() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    chain.head().await.unwrap();
    node.change(|script| script.missing.insert("eth_getTransactionCount"));
    assert!(chain.accounts(&[submitter(0)], Some(at(90))).await.is_err(), "the count is needed");
    node.change(|script| script.missing.clear());
    assert!(chain.accounts(&[submitter(0)], Some(at(90))).await.is_ok());
    let last = node.change(|script| script.asked.last().cloned().unwrap());
    assert_eq!(last.1[1], "0x5a", "the missing capability is remembered");
}

#[tokio::test]
async fn missing_final_block_is_not_read_by_number() {
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
async fn block_receipts_are_read_without_their_method() {
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
    assert_eq!(node.count("eth_getBlockReceipts"), 1, "called once, and remembered");
    assert_eq!(chain.block_receipts(at(99), &|_| true).await.unwrap(), None, "another block");
}

#[tokio::test]
async fn only_wanted_receipts_are_read_one_by_one() {
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
    assert_eq!(node.count("eth_getBlockReceipts"), 1, "called once, and remembered");

    // After an outage another node may answer.
    node.change(|script| script.http = Some((502, "", "")));
    while chain.endpoints()[0].is_healthy() {
        chain.head().await.unwrap_err();
    }
    node.change(|script| script.http = None);
    chain.block_receipts(at(100), &wanted).await.unwrap().unwrap();
    assert_eq!(node.count("eth_getBlockReceipts"), 2, "the capability is probed again");
}

/// proves R02
#[tokio::test]
async fn failed_receipt_hides_no_other() {
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

/// The result of each transaction depends on the last digit of its hash.
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
            "hash": hash, "from": "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", "to": null,
            "input": format!("0x0{kind}"), "value": "0x0",
            "gas": if kind == '6' { "0x5208" } else { "0x5209" }, "gasPrice": "0x7", "chainId": "0x1",
        }),
        ("eth_call", _) => {
            assert_eq!(params[1], "0x63", "the replay is on top of the block before");
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
async fn revert_reason_is_found_by_every_available_way() {
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
        // The replay succeeds, so the reason is unknown.
        None,
        Some("out of gas"),
        None,
        None,
    ];
    assert_eq!(reasons.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    assert_eq!(told.iter().map(Option::is_some).collect::<Vec<_>>(), expected.map(|reason| reason.is_some()));
    assert_eq!(node.count("debug_traceTransaction"), 6, "only unexplained failures are traced");
    assert!(chain.reverts(&[hash(9)]).await.is_err());
    assert_eq!(chain.reverts(&[]).await.unwrap(), []);

    // A node without traces is asked once, which does not affect its health.
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
async fn revert_reason_is_found_on_another_endpoint() {
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
async fn failed_traces_do_not_affect_endpoint_health() {
    let node = FakeNode::start(|script| {
        script.custom = Some(|method, params| if method.starts_with("debug") { None } else { failed(method, params) });
        script.hang.insert("debug_traceTransaction");
    })
    .await;
    let mut options = options(&[&node]);
    options.rpc_timeout = Duration::from_millis(200);
    let chain = EvmChain::connect(options).unwrap();
    let hash = B256::from(gapless_domain::U256::from(4));
    for _ in 0..5 {
        assert!(chain.reverts(&[hash]).await.unwrap()[0].is_some());
    }
    assert!(chain.endpoints()[0].is_healthy());
    assert_eq!(chain.endpoints()[0].errors_permille, Some(0));
}

/// An incomplete list, or one of another block, would leave an unnoticed hole (P4).
#[tokio::test]
async fn incomplete_or_foreign_receipts_are_no_answer() {
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
async fn uncounted_receipts_are_no_answer() {
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
async fn block_missing_on_the_newest_is_read_from_another() {
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
async fn chain_without_finality_has_no_final_header() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    chain.head().await.unwrap();
    node.change(|script| script.missing.insert("eth_getBlockByNumber"));
    for tag in [HeaderAt::Finalized, HeaderAt::Safe] {
        assert_eq!(chain.header(tag).await.unwrap(), None);
    }
}

#[tokio::test]
async fn headers_are_read_in_few_requests() {
    let node = FakeNode::start(|_| {}).await;
    let mut options = options(&[&node]);
    options.batch_max = 4;
    let chain = EvmChain::connect(options).unwrap();
    chain.head().await.unwrap();
    node.change(|script| script.sizes.clear());
    let headers = chain.headers(94..=103).await.unwrap();
    let known: Vec<_> = headers.iter().map(|header| header.map(|header| header.block)).collect();
    let expected: Vec<_> = (94..=103).map(|number| (number <= 100).then(|| at(number))).collect();
    assert_eq!(known, expected);
    let mut sizes = node.change(|script| script.sizes.clone());
    sizes.sort_unstable();
    assert_eq!(sizes, [2, 4, 4]);
    #[expect(clippy::reversed_empty_ranges, reason = "an empty range is allowed")]
    let nothing = chain.headers(9..=8).await.unwrap();
    assert_eq!(nothing, []);
    assert!(chain.headers(0..=u64::MAX).await.is_err());
    assert!(chain.headers(0..=EvmChain::MAX_HEADERS).await.is_err());

    // A different block is no answer.
    node.change(|script| script.answers.insert("eth_getBlockByNumber", block(100)));
    let headers = chain.headers(99..=100).await.unwrap();
    assert_eq!(headers.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    node.change(|script| script.errors.insert("eth_getBlockByNumber", (-32603, "internal error")));
    assert!(chain.headers(99..=100).await.is_err(), "an error is not a missing block");
}
