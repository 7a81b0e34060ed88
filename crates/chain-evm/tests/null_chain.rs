//! All reads and sends of the chain contract, against the null chain.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use std::time::Duration;

use gapless_chain::{ChainPricer as _, ChainReader as _, HeaderAt, Verdict};
use gapless_chain_evm::{EvmChain, EvmChainOptions};
use gapless_devchain::null::{NullChain, NullOptions};
use gapless_domain::{EvmCall, Fees, Nonce, SignedTx, TxPlan};
use support::{CHAIN, call, plan, send, signed, submitter};
use tokio::task::JoinSet;

async fn start(scheme: &str) -> (EvmChain, JoinSet<()>) {
    let null = NullChain::new(NullOptions { block_time: Duration::from_millis(5), ..NullOptions::default() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("{scheme}://{}", listener.local_addr().unwrap());
    let mut running = JoinSet::new();
    let blocks = null.clone();
    running.spawn(async move { blocks.make_blocks(std::future::pending()).await });
    running.spawn(async move { null.serve(listener, std::future::pending()).await.unwrap() });
    let options = EvmChainOptions::new(format!("eip155:{CHAIN}").parse().unwrap(), vec![url.parse().unwrap()]);
    (EvmChain::connect(options).unwrap(), running)
}

fn to_itself(nonce: u64) -> TxPlan {
    let plan = plan(nonce);
    TxPlan { action: EvmCall { to: submitter(0).evm_address(), ..call() }.into(), ..plan }
}

async fn check_contract(chain: &EvmChain) {
    let genesis = chain.head().await.unwrap();
    assert!(genesis.base_fee.is_some());
    assert!(
        chain.measure(&submitter(0), &[&to_itself(0).action], genesis.block).await[0].as_ref().unwrap().units >= 21_000
    );
    let mut txs: Vec<SignedTx> = Vec::new();
    for nonce in 0..50 {
        txs.push(signed(chain, &to_itself(nonce)).await);
    }
    let answers = send(chain, &txs).await;
    assert!(answers.iter().all(|answer| answer.verdict == Verdict::Accepted), "{answers:?}");
    let hashes: Vec<_> = txs.iter().map(|tx| tx.hash).collect();
    let receipts = loop {
        let receipts: Option<Vec<_>> = chain.receipts(&hashes).await.unwrap().into_iter().collect();
        if let Some(receipts) = receipts {
            break receipts;
        }
    };
    assert!(receipts.iter().all(|receipt| receipt.succeeded));
    let last = receipts.last().unwrap().block;
    let in_block = chain.block_receipts(last, &|hash| hash == hashes[49]).await.unwrap().unwrap();
    assert_eq!(in_block.iter().map(|receipt| receipt.hash).collect::<Vec<_>>(), hashes[49..]);
    // The sent transactions are in the blocks, byte by byte.
    let sent = chain.sent_by(&submitter(0), 0..=last.number).await.unwrap();
    let found: Vec<_> = sent.into_iter().flatten().flat_map(|block| block.sent).map(|plan| plan.signed).collect();
    assert_eq!(found, txs);
    let by_number = chain.header(HeaderAt::Number(last.number)).await.unwrap().unwrap();
    assert_eq!(by_number.block, last);
    let finalized = loop {
        let finalized = chain.header(HeaderAt::Finalized).await.unwrap().unwrap();
        if finalized.block.number >= last.number {
            break finalized;
        }
    };
    let view = chain.accounts(&[submitter(0)], Some(finalized.block)).await.unwrap()[0];
    let fifty = Nonce::new(50).unwrap();
    assert_eq!((view.latest, view.pending, view.finalized), (fifty, fifty, Some(fifty)));
    let again = send(chain, &txs[..1]).await.remove(0);
    assert_eq!(again.verdict, Verdict::NonceTooLow, "{again:?}");
    // A pending transaction is replaced for a tenth more only.
    let waits = signed(chain, &to_itself(60)).await;
    assert_eq!(send(chain, &[waits]).await[0].verdict, Verdict::Accepted);
    let fees = Fees::Eip1559 { max_fee: 21_000_000_000, max_priority_fee: 1_050_000_000 };
    let cheap = signed(chain, &TxPlan { fees, ..to_itself(60) }).await;
    assert_eq!(send(chain, &[cheap]).await[0].verdict, Verdict::ReplacementUnderpriced);
}

#[tokio::test]
async fn null_chain_over_http_answers_everything() {
    let (chain, _running) = start("http").await;
    check_contract(&chain).await;
}

#[tokio::test]
async fn null_chain_over_websocket_answers_everything() {
    let (chain, _running) = start("ws").await;
    check_contract(&chain).await;
}
