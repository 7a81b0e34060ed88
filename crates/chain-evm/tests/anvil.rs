//! The chain contract against anvil.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use gapless_chain::{ChainPricer as _, ChainReader as _, Header, HeaderAt, Verdict};
use gapless_chain_evm::{EvmChain, EvmChainOptions};
use gapless_devchain::rpc::{Clock, RpcLimits, RpcServer, serve};
use gapless_devchain::{CallFilter, DevChain, Fault, Genesis};
use gapless_domain::{AccessListItem, Address, B256, Bytes, EvmCall, Fees, Speed, TxPlan, U256, Work};
use gapless_testbed::{Anvil, AnvilOptions};
use support::{CHAIN, call, plan, send, signed, submitter};

fn connect(urls: &[String]) -> EvmChain {
    let rpc = urls.iter().map(|url| url.parse().unwrap()).collect();
    EvmChain::connect(EvmChainOptions::new(format!("eip155:{CHAIN}").parse().unwrap(), rpc)).unwrap()
}

/// Reads and sends, over any transport.
async fn read_and_send(chain: &EvmChain) {
    let genesis: Header = chain.head().await.unwrap();
    let first = chain.accounts(&[submitter(0)], Some(genesis.block)).await.unwrap().remove(0);
    let start = first.latest.get();
    assert_eq!((first.pending, first.finalized), (first.latest, Some(first.latest)));

    let fees = chain.quote().await.unwrap().at(Speed::Standard);
    assert!(matches!(fees, Fees::Eip1559 { max_fee, max_priority_fee } if max_fee > max_priority_fee));
    let listed = EvmCall {
        access_list: vec![AccessListItem { address: Address::repeat_byte(9), storage_keys: vec![B256::ZERO] }],
        ..call()
    };
    let legacy = Fees::Legacy { gas_price: 20_000_000_000 };
    let plans = [
        TxPlan { fees, ..plan(start) },
        TxPlan { fees: legacy, ..plan(start + 1) },
        TxPlan { fees: legacy, action: listed.into(), ..plan(start + 2) },
        TxPlan {
            action: EvmCall { to: None, data: "0x60006000fd".parse().unwrap(), ..EvmCall::default() }.into(),
            ..plan(start + 3)
        },
    ];
    let mut txs = Vec::new();
    for plan in &plans {
        txs.push(signed(chain, plan).await);
    }
    let verdicts: Vec<Verdict> = send(chain, &txs).await.iter().map(|answer| answer.verdict).collect();
    assert_eq!(verdicts, [Verdict::Accepted; 4]);
    let again = send(chain, &txs[..1]).await.remove(0);
    assert!(matches!(again.verdict, Verdict::NonceTooLow | Verdict::AlreadyKnown), "{again:?}");

    let hashes: Vec<B256> = txs.iter().map(|tx| tx.hash).chain([B256::repeat_byte(1)]).collect();
    // The node answers a send before it mines the block.
    let mut receipts = chain.receipts(&hashes).await.unwrap();
    while receipts.iter().flatten().count() < txs.len() {
        receipts = chain.receipts(&hashes).await.unwrap();
    }
    assert_eq!(receipts.last(), Some(&None));
    let receipts: Vec<_> = receipts.into_iter().flatten().collect();
    assert_eq!(receipts.iter().map(|receipt| receipt.succeeded).collect::<Vec<_>>(), [true, true, true, false]);
    for (receipt, hash) in receipts.iter().zip(&hashes) {
        assert_eq!(receipt.hash, *hash);
        let of_block = chain.block_receipts(receipt.block, &|_| true).await.unwrap().unwrap();
        assert!(of_block.contains(receipt));
        let header = chain.header(HeaderAt::Number(receipt.block.number)).await.unwrap().unwrap();
        assert_eq!(header.block, receipt.block);
        assert_eq!(chain.header(HeaderAt::Hash(receipt.block.hash)).await.unwrap(), Some(header));
        let around = chain.headers(receipt.block.number - 1..=receipt.block.number).await.unwrap();
        assert_eq!(around[1], Some(header));
        assert_eq!(around[0].unwrap().block.hash, header.parent_hash);
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
async fn anvil_over_http_reads_and_sends() {
    let anvil = Anvil::start(AnvilOptions::default()).unwrap();
    read_and_send(&connect(&[anvil.url()])).await;
}

#[tokio::test]
async fn anvil_over_websocket_reads_and_sends() {
    let anvil = Anvil::start(AnvilOptions::default()).unwrap();
    read_and_send(&connect(&[anvil.ws_url()])).await;
}

#[tokio::test]
async fn estimate_of_a_reverting_call_has_its_data() {
    let anvil = Anvil::start(AnvilOptions::default()).unwrap();
    let chain = connect(&[anvil.url()]);
    let head = chain.head().await.unwrap().block;
    assert_eq!(chain.measure(&submitter(0), &[&plan(0).action], head).await, [Ok(Work::new(25_200))]);
    // PUSH1 8, PUSH1 0, MSTORE8, PUSH1 1, PUSH1 0, REVERT
    let reverts = EvmCall { to: None, data: "0x600860005360016000fd".parse().unwrap(), ..EvmCall::default() };
    let error = chain.measure(&submitter(0), &[&reverts.into()], head).await.remove(0).unwrap_err().classified;
    assert_eq!(
        (error.verdict, error.revert_data.clone()),
        (Verdict::Reverted, Some(Bytes::from_static(&[8]))),
        "{error:?}"
    );
}

/// Initcode that reverts with `data`: CODECOPY of the data behind it, REVERT.
fn reverting(data: &[u8]) -> Bytes {
    const CODE_BYTES: u8 = 15;
    let [high, low] = u16::try_from(data.len()).unwrap().to_be_bytes();
    let code = [0x61, high, low, 0x60, CODE_BYTES, 0x60, 0, 0x39, 0x61, high, low, 0x60, 0, 0xfd, 0];
    [code.as_slice(), data].concat().into()
}

fn error_data(text: &str) -> Vec<u8> {
    let word = |number: usize| U256::from(number).to_be_bytes::<32>();
    let mut data = [&[0x08, 0xc3, 0x79, 0xa0], word(32).as_slice(), &word(text.len()), text.as_bytes()].concat();
    data.resize(4 + (data.len() - 4).next_multiple_of(32), 0);
    data
}

fn panic_data(code: u64) -> Vec<u8> {
    [&[0x4e, 0x48, 0x7b, 0x71], U256::from(code).to_be_bytes::<32>().as_slice()].concat()
}

/// Initcode, the expected reason, and the expected data.
fn reverts() -> Vec<(Bytes, Option<&'static str>, Bytes)> {
    let custom = [&[0x82, 0xb4, 0x29, 0x00], [7; 32].as_slice()].concat();
    let with = |data: Vec<u8>, reason| (reverting(&data), Some(reason), Bytes::from(data));
    vec![
        with(error_data("not enough"), "not enough"),
        with(custom, "custom error 0x82b42900"),
        with(panic_data(0x11), "panic 0x11: arithmetic overflow or underflow"),
        (reverting(&[]), None, Bytes::new()),
        // JUMPDEST, PUSH1 0, JUMP: an endless loop.
        (Bytes::from_static(&[0x5b, 0x60, 0, 0x56]), Some("out of gas"), Bytes::new()),
    ]
}

/// Mines reverting transactions and one that succeeds, and reads the revert reasons.
async fn check_revert_reasons(chain: &EvmChain) {
    let start = chain.accounts(&[submitter(0)], None).await.unwrap()[0].latest.get();
    let mut txs = vec![signed(chain, &plan(start)).await];
    for ((data, _, _), nonce) in reverts().into_iter().zip(start + 1..) {
        let call = EvmCall { to: None, data, ..EvmCall::default() };
        txs.push(signed(chain, &TxPlan { action: call.into(), work: Work::new(200_000), ..plan(nonce) }).await);
    }
    assert!(send(chain, &txs).await.iter().all(|answer| answer.verdict == Verdict::Accepted));
    let hashes: Vec<B256> = txs.iter().map(|tx| tx.hash).chain([B256::repeat_byte(1)]).collect();
    while chain.receipts(&hashes).await.unwrap().iter().flatten().count() < txs.len() {}
    let found = chain.reverts(&hashes).await.unwrap();
    assert_eq!((&found[0], found.last()), (&None, Some(&None)), "the first succeeded, the last is unknown");
    for ((_, reason, data), revert) in reverts().into_iter().zip(&found[1..]) {
        let revert = revert.as_ref().unwrap();
        assert_eq!((revert.reason.as_ref().map(|text| text.as_str()), &revert.data), (reason, &data));
    }
}

#[tokio::test]
async fn revert_reasons_are_read_from_anvil() {
    let anvil = Anvil::start(AnvilOptions::default()).unwrap();
    check_revert_reasons(&connect(&[anvil.url()])).await;
}

/// The dev chain, with and without `debug_traceTransaction`.
#[tokio::test]
async fn revert_reasons_are_read_without_traces() {
    for traces in [true, false] {
        let dev = DevChain::new(Genesis::dev());
        dev.set_automine(true);
        let server = RpcServer::new(dev, Clock::Wall, None, RpcLimits::default());
        let endpoint = server.endpoint("node").unwrap();
        let trace = || CallFilter::Method("debug_traceTransaction".to_owned());
        let missing = "the method debug_traceTransaction does not exist/is not available";
        if !traces {
            endpoint.faults().always(trace(), Fault::Refuse { code: -32601, message: missing.to_owned() });
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/endpoint/node", listener.local_addr().unwrap());
        let mut serving = tokio::task::JoinSet::new();
        serving.spawn(async move { serve(listener, server, std::future::pending()).await.unwrap() });
        let chain = connect(&[url]);
        check_revert_reasons(&chain).await;
        let struck = endpoint.faults().fault_count();
        check_revert_reasons(&chain).await;
        assert_eq!(endpoint.faults().fault_count(), struck, "a missing method is not called again");
        assert_eq!(struck > 0, !traces);
    }
}

/// proves S10
#[tokio::test]
async fn restarted_node_is_used_again() {
    let (first, second) =
        (Anvil::start(AnvilOptions::default()).unwrap(), Anvil::start(AnvilOptions::default()).unwrap());
    let chain = connect(&[first.url(), second.url()]);
    let tx = signed(&chain, &plan(0)).await;
    first.stop().unwrap();
    assert_eq!(send(&chain, std::slice::from_ref(&tx)).await[0].verdict, Verdict::Accepted);
    second.stop().unwrap();
    assert_eq!(send(&chain, std::slice::from_ref(&tx)).await[0].verdict, Verdict::Unavailable);
    first.start_again().unwrap();
    assert_eq!(send(&chain, &[tx]).await[0].verdict, Verdict::Accepted);
    assert!(chain.endpoints()[0].is_healthy() && !chain.endpoints()[1].is_healthy());
}

#[tokio::test]
async fn websocket_notifies_of_new_heads() {
    let anvil = Anvil::start(AnvilOptions::default()).unwrap();
    let chain = connect(&[anvil.url(), anvil.ws_url()]);
    let before = chain.head().await.unwrap();
    // The first notification comes with the subscription.
    chain.head_changed().await;
    let tx = signed(&chain, &plan(0)).await;
    send(&chain, &[tx]).await;
    chain.head_changed().await;
    assert!(chain.head().await.unwrap().block.number > before.block.number);

    // A reconnect reports that heads may have been missed.
    anvil.stop().unwrap();
    anvil.start_again().unwrap();
    chain.head_changed().await;
    assert_eq!(chain.head().await.unwrap().block.number, 0);

    let silent = connect(&[anvil.url()]);
    let waited = futures_util::future::select(Box::pin(silent.head_changed()), Box::pin(silent.head())).await;
    assert!(matches!(waited, futures_util::future::Either::Right(_)), "HTTP has no notifications");
}
