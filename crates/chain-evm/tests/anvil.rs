//! Against a real node.

#![allow(clippy::unwrap_used, reason = "all of this is for tests, though not all of it is inside one")]

mod support;

use gapless_chain::{Chain as _, Header, HeaderAt, Verdict};
use gapless_chain_evm::{EvmChain, EvmChainOptions};
use gapless_domain::{AccessListItem, Address, B256, EvmCall, Fees, Speed, TxPlan};
use gapless_testbed::{Anvil, AnvilOptions};
use support::{CHAIN, plan, signed, signer, submitter};

fn connect(urls: &[String]) -> EvmChain {
    let rpc = urls.iter().map(|url| url.parse().unwrap()).collect();
    EvmChain::connect(EvmChainOptions::new(format!("eip155:{CHAIN}").parse().unwrap(), rpc), vec![signer(0)]).unwrap()
}

/// Reads and sends, whichever way the node is reached.
async fn goes_through(chain: &EvmChain) {
    let genesis: Header = chain.head().await.unwrap();
    let first = chain.accounts(&[submitter(0)], Some(genesis.block)).await.unwrap().remove(0);
    let start = first.latest.get();
    assert_eq!((first.pending, first.finalized), (first.latest, Some(first.latest)));

    let fees = chain.quote().await.unwrap().at(Speed::Standard);
    assert!(matches!(fees, Fees::Eip1559 { max_fee, max_priority_fee } if max_fee > max_priority_fee));
    let listed = EvmCall {
        access_list: vec![AccessListItem { address: Address::repeat_byte(9), storage_keys: vec![B256::ZERO] }],
        ..plan(0).call
    };
    let legacy = Fees::Legacy { gas_price: 20_000_000_000 };
    let plans = [
        TxPlan { fees, ..plan(start) },
        TxPlan { fees: legacy, ..plan(start + 1) },
        TxPlan { fees: legacy, call: listed, ..plan(start + 2) },
        TxPlan {
            call: EvmCall { to: None, data: "0x60006000fd".parse().unwrap(), ..EvmCall::default() },
            ..plan(start + 3)
        },
    ];
    let mut txs = Vec::new();
    for plan in &plans {
        txs.push(signed(chain, plan).await);
    }
    let verdicts: Vec<Verdict> = chain.broadcast(&txs).await.iter().map(|answer| answer.verdict).collect();
    assert_eq!(verdicts, [Verdict::Accepted; 4]);
    let again = chain.broadcast(&txs[..1]).await.remove(0);
    assert!(matches!(again.verdict, Verdict::NonceTooLow | Verdict::AlreadyKnown), "{again:?}");

    let hashes: Vec<B256> = txs.iter().map(|tx| tx.hash).chain([B256::repeat_byte(1)]).collect();
    // The node answers a send before it has made the block.
    let mut receipts = chain.receipts(&hashes).await.unwrap();
    while receipts.iter().flatten().count() < txs.len() {
        receipts = chain.receipts(&hashes).await.unwrap();
    }
    assert_eq!(receipts.last(), Some(&None));
    let receipts: Vec<_> = receipts.into_iter().flatten().collect();
    assert_eq!(receipts.iter().map(|receipt| receipt.succeeded).collect::<Vec<_>>(), [true, true, true, false]);
    for (receipt, hash) in receipts.iter().zip(&hashes) {
        assert_eq!((receipt.hash, receipt.from), (*hash, submitter(0).evm_address().unwrap()));
        let of_block = chain.block_receipts(receipt.block, &|_| true).await.unwrap().unwrap();
        assert!(of_block.contains(receipt));
        let header = chain.header(HeaderAt::Number(receipt.block.number)).await.unwrap().unwrap();
        assert_eq!(header.block, receipt.block);
        assert_eq!(chain.header(HeaderAt::Hash(receipt.block.hash)).await.unwrap(), Some(header));
    }
    assert_eq!(chain.header(HeaderAt::Hash(B256::repeat_byte(2))).await.unwrap(), None);
    assert_eq!(chain.header(HeaderAt::Number(1_000_000)).await.unwrap(), None);
    let unknown = gapless_domain::BlockRef { number: 1, hash: B256::repeat_byte(2) };
    assert_eq!(chain.block_receipts(unknown, &|_| true).await.unwrap(), None);

    let after = chain.accounts(&[submitter(0), submitter(1)], Some(genesis.block)).await.unwrap();
    assert_eq!((after[0].latest.get(), after[0].finalized.unwrap().get()), (start + 4, start));
    assert!(after[0].balance < first.balance);
}

#[tokio::test]
async fn over_http() {
    let anvil = Anvil::start(AnvilOptions::default()).unwrap();
    goes_through(&connect(&[anvil.url()])).await;
}

#[tokio::test]
async fn over_a_websocket() {
    let anvil = Anvil::start(AnvilOptions::default()).unwrap();
    goes_through(&connect(&[anvil.ws_url()])).await;
}

#[tokio::test]
async fn estimates_and_reverts() {
    let anvil = Anvil::start(AnvilOptions::default()).unwrap();
    let chain = connect(&[anvil.url()]);
    let head = chain.head().await.unwrap().block;
    assert_eq!(chain.estimate_gas(&submitter(0), &plan(0).call, head).await.unwrap(), 21_000);
    // PUSH1 8, PUSH1 0, MSTORE8, PUSH1 1, PUSH1 0, REVERT
    let reverts = EvmCall { to: None, data: "0x600860005360016000fd".parse().unwrap(), ..EvmCall::default() };
    let error = chain.estimate_gas(&submitter(0), &reverts, head).await.unwrap_err().classified;
    assert_eq!(
        (error.verdict, error.revert_data.clone()),
        (Verdict::Reverted, Some(gapless_domain::Bytes::from_static(&[8]))),
        "{error:?}"
    );
}

/// proves S10
#[tokio::test]
async fn a_node_that_dies_and_comes_back_is_found_again() {
    let (first, second) =
        (Anvil::start(AnvilOptions::default()).unwrap(), Anvil::start(AnvilOptions::default()).unwrap());
    let chain = connect(&[first.url(), second.url()]);
    let tx = signed(&chain, &plan(0)).await;
    first.stop().unwrap();
    assert_eq!(chain.broadcast(std::slice::from_ref(&tx)).await[0].verdict, Verdict::Accepted);
    second.stop().unwrap();
    assert_eq!(chain.broadcast(std::slice::from_ref(&tx)).await[0].verdict, Verdict::Unavailable);
    first.start_again().unwrap();
    assert_eq!(chain.broadcast(&[tx]).await[0].verdict, Verdict::Accepted);
    assert!(chain.endpoints()[0].is_healthy() && !chain.endpoints()[1].is_healthy());
}

#[tokio::test]
async fn new_heads_are_told_where_there_is_a_websocket() {
    let anvil = Anvil::start(AnvilOptions::default()).unwrap();
    let chain = connect(&[anvil.url(), anvil.ws_url()]);
    let before = chain.head().await.unwrap();
    // The first word comes when the subscription stands.
    chain.head_changed().await;
    let tx = signed(&chain, &plan(0)).await;
    chain.broadcast(&[tx]).await;
    chain.head_changed().await;
    assert!(chain.head().await.unwrap().block.number > before.block.number);

    // A broken line is made again, and says that something may have been missed.
    anvil.stop().unwrap();
    anvil.start_again().unwrap();
    chain.head_changed().await;
    assert_eq!(chain.head().await.unwrap().block.number, 0);

    let silent = connect(&[anvil.url()]);
    let waited = futures_util::future::select(Box::pin(silent.head_changed()), Box::pin(silent.head())).await;
    assert!(matches!(waited, futures_util::future::Either::Right(_)), "nobody tells it");
}
