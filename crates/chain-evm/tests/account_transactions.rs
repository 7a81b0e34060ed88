//! The transactions of an account in whole blocks, and its delegation.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use alloy_consensus::{EthereumTxEnvelope, TxEip4844};
use alloy_eips::eip2718::Decodable2718 as _;
use alloy_eips::eip7702;
use gapless_chain::{Chain as _, ChainReader as _, SentInBlock, Verdict};
use gapless_chain_evm::{EvmChain, EvmChainOptions};
use gapless_devchain::rpc::{Clock, RpcLimits, RpcServer, serve};
use gapless_devchain::{DevChain, Genesis, dev_account};
use gapless_domain::{
    AccessListItem, Address, Authorization, B256, EvmCall, EvmRules, Fees, SignedTx, TxPlan, U256, Work,
};
use gapless_testbed::{Anvil, AnvilOptions};
use serde_json::{Value, json};
use support::{CHAIN, FakeNode, block, call, chain, options, plan, signed, signer, submitter};
use tokio::task::JoinSet;

fn connect(url: &str) -> EvmChain {
    let options = EvmChainOptions::new(format!("eip155:{CHAIN}").parse().unwrap(), vec![url.parse().unwrap()]);
    EvmChain::connect(options).unwrap()
}

/// An authorization that delegates account 2.
fn authorization() -> Authorization {
    let inner = eip7702::Authorization { chain_id: U256::from(CHAIN), address: Address::repeat_byte(0xde), nonce: 0 };
    let signed = dev_account(2).unwrap().authorize(inner).unwrap();
    Authorization {
        chain_id: *signed.chain_id(),
        address: *signed.address(),
        nonce: signed.nonce(),
        y_parity: signed.y_parity() == 1,
        r: signed.r(),
        s: signed.s(),
    }
}

/// One transaction of each type.
fn plans() -> [TxPlan; 5] {
    let legacy = Fees::Legacy { gas_price: 20_000_000_000 };
    let item =
        AccessListItem { address: Address::repeat_byte(9), storage_keys: vec![B256::ZERO, B256::repeat_byte(1)] };
    let listed = EvmCall { access_list: vec![item], ..call() };
    let create = EvmCall { to: None, data: "0x60006000fd".parse().unwrap(), ..EvmCall::default() };
    let delegating = EvmCall { authorizations: vec![authorization()], ..listed.clone() };
    [
        TxPlan { fees: legacy, ..plan(0) },
        TxPlan { fees: legacy, action: listed.into(), ..plan(1) },
        plan(2),
        TxPlan { action: create.into(), ..plan(3) },
        TxPlan { action: delegating.into(), work: Work::new(200_000), ..plan(4) },
    ]
}

async fn send(chain: &EvmChain, plan: &TxPlan) -> SignedTx {
    let tx = signed(chain, plan).await;
    let answer = support::send(chain, std::slice::from_ref(&tx)).await.remove(0);
    assert_eq!(answer.verdict, Verdict::Accepted, "{answer:?}");
    while chain.receipts(&[tx.hash]).await.unwrap()[0].is_none() {}
    tx
}

/// Checks that transactions of every type are found in their blocks with the bytes that were sent.
async fn check_sent(chain: &EvmChain) {
    let mut txs = Vec::new();
    for plan in plans() {
        txs.push(send(chain, &plan).await);
        send(chain, &TxPlan { submitter: submitter(1), nonce: plan.nonce, ..plans()[2].clone() }).await;
    }
    let head = chain.head().await.unwrap();
    let blocks = chain.sent_by(&submitter(0), 0..=head.block.number + 1).await.unwrap();
    assert_eq!(blocks.last(), Some(&None), "not mined yet");
    let blocks: Vec<SentInBlock> = blocks.into_iter().flatten().collect();
    assert_eq!(blocks.len() as u64, head.block.number + 1);
    assert_eq!(blocks.last().unwrap().link.block, head.block);
    assert!(blocks.windows(2).all(|two| two[1].link.parent_hash == two[0].link.block.hash));
    let found: Vec<_> = blocks.iter().flat_map(|block| &block.sent).collect();
    assert_eq!(found.iter().map(|tx| &tx.signed).collect::<Vec<_>>(), txs.iter().collect::<Vec<_>>());
    for (found, plan) in found.iter().zip(plans()) {
        assert_eq!(found.plan, plan);
        assert_eq!(&&chain.read_signed(&found.signed.raw).unwrap(), found);
        assert_eq!(chain.outline(&found.signed.raw).map(|outline| outline.cost), Some(plan.worst_cost(&EvmRules)));
    }
    // The authorization has used a nonce of account 2. The account has sent nothing, and is delegated now.
    let views = chain.accounts(&[submitter(0), submitter(2)], None).await.unwrap();
    assert_eq!(views.iter().map(|view| (view.latest.get(), view.narrow)).collect::<Vec<_>>(), [(5, false), (1, true)]);
    let blocks = chain.sent_by(&submitter(2), 0..=head.block.number).await.unwrap();
    let sent: Vec<_> = blocks.into_iter().map(|block| block.unwrap().sent).collect();
    assert_eq!(
        sent,
        vec![Vec::new(); head.block.number as usize + 1],
        "every block is read, and none has a transaction"
    );
}

#[tokio::test]
async fn sent_transactions_are_found_on_anvil() {
    let anvil = Anvil::start(AnvilOptions::default()).unwrap();
    check_sent(&connect(&anvil.url())).await;
}

#[tokio::test]
async fn sent_transactions_are_found_on_the_dev_chain() {
    let dev = DevChain::new(Genesis::dev());
    dev.set_automine(true);
    let server = RpcServer::new(dev, Clock::Wall, None, RpcLimits::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut serving = JoinSet::new();
    serving.spawn(async move { serve(listener, server, std::future::pending()).await.unwrap() });
    check_sent(&connect(&url)).await;
}

/// A foreign transaction of an unknown type.
fn foreign_tx() -> Value {
    json!({ "from": Address::repeat_byte(7), "hash": B256::repeat_byte(7), "type": "0x7e", "sourceHash": "?" })
}

/// The JSON of a transaction as nodes return it.
fn shown(tx: &SignedTx) -> Value {
    let envelope = EthereumTxEnvelope::<TxEip4844>::decode_2718_exact(&tx.raw).unwrap();
    let mut shown = serde_json::to_value(envelope).unwrap();
    shown["from"] = json!(signer(0).address());
    shown
}

async fn node_with(transactions: Value, root: B256) -> FakeNode {
    let mut row = block(100);
    row["transactions"] = transactions;
    row["transactionsRoot"] = json!(root);
    FakeNode::start(|script| drop(script.answers.insert("eth_getBlockByNumber", row))).await
}

#[tokio::test]
async fn foreign_transaction_may_be_unreadable_but_not_ours() {
    let anybody = FakeNode::start(|_| {}).await;
    let tx = signed(&chain(&[&anybody]), &plan(0)).await;
    let good = shown(&tx);
    let node = node_with(json!([foreign_tx(), good]), B256::repeat_byte(1)).await;
    let found = chain(&[&node]).sent_by(&submitter(0), 100..=100).await.unwrap().remove(0).unwrap();
    assert_eq!(found.sent.iter().map(|found| &found.signed).collect::<Vec<_>>(), [&tx]);

    let bent = |field: &str, value: Value| {
        let mut bent = good.clone();
        bent[field] = value;
        bent
    };
    let mut odd_kind = foreign_tx();
    odd_kind["from"] = json!(signer(0).address());
    for transactions in [
        json!([bent("nonce", json!("0x1"))]),
        json!([bent("hash", json!(B256::repeat_byte(3)))]),
        json!([bent("value", json!("0x2"))]),
        json!([bent("type", json!("0x33"))]),
        // The sender is forged.
        json!([odd_kind]),
        // Hashes instead of transactions.
        json!([tx.hash]),
        // The header has transactions that are missing.
        json!([]),
    ] {
        let node = node_with(transactions.clone(), B256::repeat_byte(1)).await;
        assert!(chain(&[&node]).sent_by(&submitter(0), 100..=100).await.is_err(), "{transactions}");
    }
}

#[tokio::test]
async fn blocks_are_read_in_small_batches() {
    let row = |method: &str, params: &Value| {
        let number = params[0].as_str().filter(|_| method == "eth_getBlockByNumber" && params[1] == true)?;
        let mut row = block(u64::from_str_radix(number.strip_prefix("0x").unwrap(), 16).unwrap());
        row["transactions"] = json!([]);
        Some(json!({ "jsonrpc": "2.0", "result": row }))
    };
    let node = FakeNode::start(|script| script.custom = Some(row)).await;
    let mut options = options(&[&node]);
    options.blocks_max = 3;
    let chain = EvmChain::connect(options).unwrap();
    chain.head().await.unwrap();
    let before = node.change(|script| script.sizes.len());
    let blocks = chain.sent_by(&submitter(0), 1..=8).await.unwrap();
    assert_eq!(
        blocks.iter().flatten().map(|block| block.link.block.number).collect::<Vec<_>>(),
        (1..=8).collect::<Vec<_>>()
    );
    let mut sizes = node.change(|script| script.sizes.split_off(before));
    sizes.sort_unstable();
    assert_eq!(sizes, [2, 3, 3]);
    assert!(chain.sent_by(&submitter(0), 0..=EvmChain::MAX_BLOCKS).await.is_err());
    #[expect(clippy::reversed_empty_ranges, reason = "the test uses an empty range")]
    let nothing = chain.sent_by(&submitter(0), 8..=7).await.unwrap();
    assert_eq!(nothing, []);
}

#[tokio::test]
async fn only_a_delegation_designator_is_a_delegation() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    let pointer = format!("0xef0100{}", "de".repeat(20));
    for (code, delegated) in
        [("0x", false), (pointer.as_str(), true), (&pointer[..44], false), ("0x6000", false), ("0xef0100", false)]
    {
        node.change(|script| script.answers.insert("eth_getCode", json!(code)));
        let view = chain.accounts(&[submitter(0)], None).await.unwrap()[0];
        assert_eq!(view.narrow, delegated, "{code}");
    }
}

#[tokio::test]
async fn missing_get_code_is_not_called_again() {
    let node = FakeNode::start(|script| script.missing = ["eth_getCode"].into()).await;
    let chain = chain(&[&node]);
    for _ in 0..3 {
        assert!(!chain.accounts(&[submitter(0), submitter(1)], None).await.unwrap()[0].narrow);
    }
    assert_eq!(node.count("eth_getCode"), 2);
}
