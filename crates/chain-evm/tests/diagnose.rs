//! Mempool signals of nonces.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use gapless_chain::{ChainReader as _, ChainSender as _, Verdict};
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

/// Distinguishes pooled, dropped, replaced and mined transactions on a node with manual mining.
async fn check_signals(url: &str) {
    let rpc = vec![url.parse().unwrap()];
    let options = EvmChainOptions::new(format!("eip155:{CHAIN}").parse().unwrap(), rpc);
    let chain = EvmChain::connect(options).unwrap();
    let fees = Fees::Eip1559 { max_fee: 40_000_000_000, max_priority_fee: 2_000_000_000 };
    let (first, second) = (signed(&chain, &plan(0)).await, signed(&chain, &plan(1)).await);
    let better = signed(&chain, &TxPlan { fees, ..plan(0) }).await;
    let asked =
        [about(0, &[first.hash]), about(1, &[second.hash]), about(2, &[]), about(0, &[better.hash, first.hash])];
    let signals = async || signals(&chain, &asked).await;

    assert_eq!(signals().await, [LikelyDropped; 4], "no transaction was sent yet");
    let verdicts: Vec<_> = send(&chain, &[first.clone(), second.clone()]).await.iter().map(|it| it.verdict).collect();
    assert_eq!(verdicts, [Verdict::Accepted; 2]);
    assert_eq!(signals().await, [InMempool, InMempool, LikelyDropped, InMempool]);
    ask_node(url, "anvil_dropTransaction", json!([second.hash])).await;
    assert_eq!(signals().await, [InMempool, LikelyDropped, LikelyDropped, InMempool]);
    assert_eq!(send(&chain, std::slice::from_ref(&better)).await[0].verdict, Verdict::Accepted);
    assert_eq!(signals().await, [LikelyReplaced, LikelyDropped, LikelyDropped, InMempool]);
    ask_node(url, "evm_mine", json!([])).await;
    assert_eq!(
        signals().await,
        [LikelyReplaced, LikelyDropped, LikelyDropped, InMempool],
        "a mined transaction counts as known"
    );
}

#[tokio::test]
async fn signals_of_anvil_are_correct() {
    let anvil = Anvil::start(AnvilOptions { mining: Mining::OnDemand, ..AnvilOptions::default() }).unwrap();
    check_signals(&anvil.url()).await;
}

#[tokio::test]
async fn signals_of_the_dev_chain_are_correct() {
    let server = RpcServer::new(DevChain::new(Genesis::dev()), Clock::Wall, None, RpcLimits::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move { serve(listener, server, std::future::pending()).await.unwrap() });
    check_signals(&url).await;
}

const OURS: B256 = B256::repeat_byte(7);

/// A node with an empty mempool. Its pending count is its head, 100.
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
async fn one_endpoint_proves_known_and_all_prove_gone() {
    let (without, with) = (empty().await, knowing(OURS).await);
    assert_eq!(of(&[&without, &with], 100).await, InMempool);
    assert_eq!(of(&[&without], 100).await, LikelyDropped);
    assert_eq!(of(&[&without], 99).await, LikelyReplaced);

    let mute = FakeNode::start(|_| {}).await;
    assert_eq!(of(&[&without, &mute], 100).await, Unknown, "the method is missing");
    assert_eq!(of(&[&mute, &with], 100).await, InMempool);
    let confused = knowing(B256::repeat_byte(8)).await;
    assert_eq!(of(&[&without, &confused], 100).await, Unknown, "a different transaction is no answer");
    let uncounted = empty().await;
    let chain = chain(&[&without, &uncounted]);
    chain.head().await.unwrap();
    uncounted.change(|script| script.errors.extend([("eth_getTransactionCount", (-32000, "no pool here"))]));
    assert_eq!(signals(&chain, &[about(100, &[OURS])]).await, [Unknown]);
}

#[tokio::test]
async fn not_found_errors_are_an_answer() {
    let words = FakeNode::start(|script| {
        script.errors.insert("eth_getTransactionByHash", (-32000, "transaction not found"));
    });
    assert_eq!(of(&[&words.await], 100).await, LikelyDropped);
}

#[tokio::test]
async fn unhealthy_endpoint_is_not_asked() {
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
async fn hanging_endpoint_makes_the_signal_unknown_in_time() {
    let (without, hangs) = (empty().await, empty().await);
    let chain = chain(&[&without, &hangs]);
    chain.head().await.unwrap();
    hangs.change(|script| script.hang.extend(["eth_getTransactionByHash"]));
    let asked: Vec<_> = (0..900).map(|nonce| about(nonce, &[OURS])).collect();
    let all = signals(&chain, &asked).await;
    assert_eq!(all, vec![Unknown; 900]);
    assert!(hangs.count("eth_getTransactionByHash") < 900, "no request is begun after one without an answer");
}

/// The count is read once, batches have the size that the node takes, and the number of hashes is bounded.
#[tokio::test]
async fn many_hashes_are_looked_up_in_few_requests() {
    let node = empty().await;
    let mut options = options(&[&node]);
    options.batch_max = 50;
    let chain = EvmChain::connect(options).unwrap();
    chain.head().await.unwrap();
    node.change(|script| (script.asked.clear(), script.sizes.clear()));
    let asked: Vec<_> = (0..1_500).map(|nonce| about(nonce, &[OURS])).collect();
    let told = signals(&chain, &asked).await;
    assert_eq!((told[99], told[100], told[999], told[1_000]), (LikelyReplaced, LikelyDropped, LikelyDropped, Unknown));
    assert_eq!((node.count("eth_getTransactionCount"), node.count("eth_getTransactionByHash")), (1, 1_000));
    assert!(node.change(|script| script.sizes.iter().all(|size| *size <= 50)));
}
