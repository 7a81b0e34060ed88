//! What nodes' pools show of nonces.

#![allow(clippy::unwrap_used, reason = "all of this is for tests, though not all of it is inside one")]

mod support;

use gapless_chain::{Chain as _, Verdict};
use gapless_chain_evm::{EvmChain, EvmChainOptions};
use gapless_devchain::rpc::{Clock, RpcLimits, RpcServer, serve};
use gapless_devchain::{DevChain, Genesis};
use gapless_domain::MempoolSignal::{self, InMempool, LikelyDropped, LikelyReplaced, Unknown};
use gapless_domain::{B256, DiagnoseRequest, Fees, Nonce, TxPlan};
use gapless_testbed::{Anvil, AnvilOptions, Mining};
use serde_json::{Value, json};
use support::{CHAIN, FakeNode, ask_node, chain, options, plan, send, signed, signer, submitter};

fn about(nonce: u64, hashes: &[B256]) -> DiagnoseRequest {
    DiagnoseRequest { nonce: Nonce::new(nonce).unwrap(), hashes: hashes.to_vec() }
}

async fn signals(chain: &EvmChain, asked: &[DiagnoseRequest]) -> Vec<MempoolSignal> {
    chain.diagnose(&submitter(0), asked).await
}

/// A node that mines only when it is told to: what is pooled, dropped, replaced and mined is told apart.
async fn tells_apart(url: &str) {
    let rpc = vec![url.parse().unwrap()];
    let options = EvmChainOptions::new(format!("eip155:{CHAIN}").parse().unwrap(), rpc);
    let chain = EvmChain::connect(options, vec![signer(0)]).unwrap();
    let fees = Fees::Eip1559 { max_fee: 40_000_000_000, max_priority_fee: 2_000_000_000 };
    let (first, second) = (signed(&chain, &plan(0)).await, signed(&chain, &plan(1)).await);
    let better = signed(&chain, &TxPlan { fees, ..plan(0) }).await;
    let asked =
        [about(0, &[first.hash]), about(1, &[second.hash]), about(2, &[]), about(0, &[better.hash, first.hash])];
    let signals = async || signals(&chain, &asked).await;

    assert_eq!(signals().await, [LikelyDropped; 4], "nothing was sent yet");
    let verdicts: Vec<_> = send(&chain, &[first.clone(), second.clone()]).await.iter().map(|it| it.verdict).collect();
    assert_eq!(verdicts, [Verdict::Accepted; 2]);
    assert_eq!(signals().await, [InMempool, InMempool, LikelyDropped, InMempool]);
    ask_node(url, "anvil_dropTransaction", json!([second.hash])).await;
    assert_eq!(signals().await, [InMempool, LikelyDropped, LikelyDropped, InMempool]);
    assert_eq!(send(&chain, std::slice::from_ref(&better)).await[0].verdict, Verdict::Accepted);
    assert_eq!(signals().await, [LikelyReplaced, LikelyDropped, LikelyDropped, InMempool]);
    ask_node(url, "evm_mine", json!([])).await;
    assert_eq!(signals().await, [LikelyReplaced, LikelyDropped, LikelyDropped, InMempool], "mined is known too");
}

#[tokio::test]
async fn on_anvil() {
    let anvil = Anvil::start(AnvilOptions { mining: Mining::OnDemand, ..AnvilOptions::default() }).unwrap();
    tells_apart(&anvil.url()).await;
}

#[tokio::test]
async fn on_the_dev_chain() {
    let server = RpcServer::new(DevChain::new(Genesis::dev()), Clock::Wall, None, RpcLimits::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move { serve(listener, server, std::future::pending()).await.unwrap() });
    tells_apart(&url).await;
}

const OURS: B256 = B256::repeat_byte(7);

/// A node whose pool has nothing; its count is its head, 100.
async fn empty() -> FakeNode {
    FakeNode::start(|script| drop(script.answers.insert("eth_getTransactionByHash", Value::Null))).await
}

async fn knowing(hash: B256) -> FakeNode {
    let answer = json!({ "hash": hash, "blockHash": null, "nonce": "0x64" });
    FakeNode::start(|script| drop(script.answers.insert("eth_getTransactionByHash", answer))).await
}

async fn of(nodes: &[&FakeNode], nonce: u64) -> MempoolSignal {
    signals(&chain(nodes), &[about(nonce, &[OURS])]).await.remove(0)
}

#[tokio::test]
async fn whoever_knows_it_is_believed_and_gone_is_said_only_by_all() {
    let (without, with) = (empty().await, knowing(OURS).await);
    assert_eq!(of(&[&without, &with], 100).await, InMempool);
    assert_eq!(of(&[&without], 100).await, LikelyDropped);
    assert_eq!(of(&[&without], 99).await, LikelyReplaced);

    let mute = FakeNode::start(|_| {}).await;
    assert_eq!(of(&[&without, &mute], 100).await, Unknown, "it has no such method");
    assert_eq!(of(&[&mute, &with], 100).await, InMempool);
    let confused = knowing(B256::repeat_byte(8)).await;
    assert_eq!(of(&[&without, &confused], 100).await, Unknown, "another transaction is no answer");
    let uncounted = empty().await;
    let chain = chain(&[&without, &uncounted]);
    chain.head().await.unwrap();
    uncounted.change(|script| script.errors.extend([("eth_getTransactionCount", (-32000, "no pool here"))]));
    assert_eq!(signals(&chain, &[about(100, &[OURS])]).await, [Unknown]);
}

#[tokio::test]
async fn words_for_not_found_are_an_answer() {
    let words = FakeNode::start(|script| {
        script.errors.insert("eth_getTransactionByHash", (-32000, "transaction not found"));
    });
    assert_eq!(of(&[&words.await], 100).await, LikelyDropped);
}

#[tokio::test]
async fn who_is_not_well_is_not_asked_and_of_nobody_nothing_is_known() {
    let (without, foreign) = (empty().await, FakeNode::start(|script| script.chain_id = 7).await);
    assert_eq!(of(&[&without, &foreign], 100).await, LikelyDropped);
    assert_eq!(foreign.count("eth_getTransactionByHash"), 0);
    assert_eq!(of(&[&foreign], 100).await, Unknown);
    let chain = chain(&[&without]);
    let elsewhere = format!("eip155:1:{}", signer(0).address()).parse().unwrap();
    assert_eq!(chain.diagnose(&elsewhere, &[about(100, &[OURS])]).await, [Unknown]);
    assert!(signals(&chain, &[]).await.is_empty());
}

#[tokio::test]
async fn one_that_hangs_makes_it_unknown_in_time() {
    let (without, hangs) = (empty().await, empty().await);
    let chain = chain(&[&without, &hangs]);
    chain.head().await.unwrap();
    hangs.change(|script| script.hang.extend(["eth_getTransactionByHash"]));
    let asked: Vec<_> = (0..900).map(|nonce| about(nonce, &[OURS])).collect();
    let all = signals(&chain, &asked).await;
    assert_eq!(all, vec![Unknown; 900]);
    assert!(hangs.count("eth_getTransactionByHash") < 900, "after one without an answer no more are begun");
}

/// The count is asked for once, batches are as large as the node takes, and too much is not asked for.
#[tokio::test]
async fn many_are_asked_for_in_few_requests() {
    let node = empty().await;
    let mut options = options(&[&node]);
    options.batch_max = 50;
    let chain = EvmChain::connect(options, vec![]).unwrap();
    chain.head().await.unwrap();
    node.change(|script| (script.asked.clear(), script.sizes.clear()));
    let asked: Vec<_> = (0..1_500).map(|nonce| about(nonce, &[OURS])).collect();
    let told = signals(&chain, &asked).await;
    assert_eq!((told[99], told[100], told[999], told[1_000]), (LikelyReplaced, LikelyDropped, LikelyDropped, Unknown));
    assert_eq!((node.count("eth_getTransactionCount"), node.count("eth_getTransactionByHash")), (1, 1_000));
    assert!(node.change(|script| script.sizes.iter().all(|size| *size <= 50)));
}
