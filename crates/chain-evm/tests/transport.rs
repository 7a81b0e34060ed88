//! Transport failures: silent connections, time-outs, refused batches, secrets in errors, missing methods.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use gapless_chain::{ChainReader as _, EndpointHealth, Verdict};
use gapless_chain_evm::{EvmChain, EvmChainOptions};
use gapless_domain::{B256, BlockRef};
use serde_json::{Value, json};
use support::{
    CHAIN, FakeNode, Sending, block, chain, counted, later, options, plan, receipt, send, signed, submitter,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

fn hash(number: u64) -> B256 {
    B256::from(gapless_domain::U256::from(number))
}

/// A node behind a WebSocket. With `refusal` it refuses subscriptions.
async fn serve(mut socket: WebSocketStream<TcpStream>, refusal: Option<&str>) {
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let question: Value = serde_json::from_str(&text).unwrap();
        let mut answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": "x" });
        match question["method"].as_str().unwrap() {
            "eth_subscribe" => {
                if let Some(refusal) = refusal {
                    answer = json!({ "id": question["id"], "error": { "code": -32000, "message": refusal } });
                }
            }
            "eth_chainId" => answer["result"] = json!(format!("{CHAIN:#x}")),
            "eth_blockNumber" => answer["result"] = json!("0x64"),
            "eth_getBlockByNumber" => answer["result"] = block(100),
            _ => {}
        }
        socket.send(Message::text(answer.to_string())).await.unwrap();
    }
}

fn over_websocket(address: SocketAddr) -> EvmChain {
    let url = format!("ws://{address}/v3/s3cr3ts3cr3t");
    let mut options = EvmChainOptions::new(format!("eip155:{CHAIN}").parse().unwrap(), vec![url.parse().unwrap()]);
    options.rpc_timeout = Duration::from_millis(200);
    EvmChain::connect(options).unwrap()
}

/// Outgoing calls do not keep a silent connection open.
#[tokio::test]
async fn silent_websocket_is_closed_despite_outgoing_calls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut nodes = JoinSet::new();
    nodes.spawn(async move {
        // A proxy takes all data, and no answer comes, not even to a ping.
        let (first, _) = listener.accept().await.unwrap();
        let mut first = accept_async(first).await.unwrap().into_inner();
        let mut taken = [0; 4096];
        while first.read(&mut taken).await.unwrap_or(0) > 0 {}
        let (second, _) = listener.accept().await.unwrap();
        serve(accept_async(second).await.unwrap(), None).await;
    });
    let chain = over_websocket(address);
    let mut answered = false;
    for _ in 0..20 {
        answered = answered || chain.head().await.is_ok();
        later(Duration::from_secs(5)).await;
    }
    assert!(answered);
}

#[expect(clippy::disallowed_methods, reason = "the test measures the pauses")]
#[tokio::test]
async fn closed_websocket_reconnects_with_growing_pauses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (connected, mut connections) = mpsc::unbounded_channel();
    let mut nodes = JoinSet::new();
    nodes.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connected.send(()).unwrap();
            drop(accept_async(stream).await);
        }
    });
    let _chain = over_websocket(address);
    connections.recv().await.unwrap();
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        connections.recv().await.unwrap();
        pauses.push(began.elapsed());
    }
    assert!(pauses[2] > Duration::from_millis(700), "{pauses:?}");
}

/// proves X03
#[test]
fn key_in_a_websocket_error_is_not_logged() {
    let logs = support::Logs::default();
    tracing::subscriber::with_default(logs.clone(), || {
        counted(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut nodes = JoinSet::new();
            nodes.spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                let refusal = Some("project s3cr3ts3cr3t has no access to eth_subscribe");
                serve(accept_async(stream).await.unwrap(), refusal).await;
            });
            over_websocket(address).head().await.unwrap();
        })
    });
    assert!(logs.text().contains("has no access") && !logs.text().contains("s3cr3t"), "{}", logs.text());
}

#[tokio::test]
async fn result_that_is_no_hash_is_redacted() {
    let node = FakeNode::start(|script| script.send = Sending::Returns("key s3cr3ts3cr3t is blocked".into())).await;
    let chain = chain(&[&node]);
    let tx = [signed(&chain, &plan(0)).await];
    let answer = send(&chain, &tx).await.remove(0);
    assert!(answer.text.as_str().contains("is blocked") && !answer.text.as_str().contains("s3cr3t"), "{}", answer.text);
}

/// After one time-out no further request is begun, because the time-outs would add up.
#[tokio::test]
async fn time_outs_of_a_series_do_not_add_up() {
    let node = FakeNode::start(|script| script.batch_max = 1).await;
    let mut options = options(&[&node]);
    options.rpc_timeout = Duration::from_millis(300);
    let chain = EvmChain::connect(options).unwrap();
    chain.head().await.unwrap();
    let mut txs = Vec::new();
    for nonce in 0..20 {
        txs.push(signed(&chain, &plan(nonce)).await);
    }
    assert!(send(&chain, &txs).await.iter().all(|answer| answer.verdict == Verdict::Accepted));
    let before = node.count("eth_sendRawTransaction");
    node.change(|script| script.hang.insert("eth_sendRawTransaction"));
    let answers = send(&chain, &txs).await;
    assert_eq!(node.count("eth_sendRawTransaction"), before + 1);
    assert_eq!(answers.len(), 20);
    assert!(answers.iter().all(|answer| answer.verdict == Verdict::Unavailable), "{answers:?}");

    node.change(|script| script.hang = ["eth_getTransactionReceipt"].into());
    assert!(chain.receipts(&(0..100).map(hash).collect::<Vec<_>>()).await.is_err());
    assert!(node.count("eth_getTransactionReceipt") <= 8, "requests that were in flight together");
}

#[tokio::test]
async fn temporary_refusal_does_not_change_the_batch_size() {
    let node = FakeNode::start(|_| {}).await;
    let chain = chain(&[&node]);
    chain.head().await.unwrap();
    node.change(|script| script.http = Some((400, "", "<html>bad gateway deploy</html>")));
    assert!(chain.accounts(&[submitter(0), submitter(1)], None).await.is_err());
    node.change(|script| {
        script.http = None;
        script.sizes.clear();
    });
    chain.accounts(&[submitter(0), submitter(1)], None).await.unwrap();
    assert_eq!(node.change(|script| script.sizes.clone()), [8]);
}

#[tokio::test]
async fn refused_batch_size_is_tried_again_later() {
    let node = FakeNode::start(|script| script.batch_max = 1).await;
    let chain = chain(&[&node]);
    let accounts = [submitter(0), submitter(1)];
    chain.accounts(&accounts, None).await.unwrap();
    node.change(|script| script.batch_max = usize::MAX);
    let mut largest = Vec::new();
    for _ in 0..6 {
        node.change(|script| script.sizes.clear());
        chain.accounts(&accounts, None).await.unwrap();
        largest.push(node.change(|script| script.sizes.iter().max().copied()).unwrap());
        let checks = node.count("eth_chainId");
        later(Duration::from_secs(5 * 60 + 1)).await;
        // The check runs besides the head request.
        while node.count("eth_chainId") == checks {
            chain.head().await.unwrap();
        }
    }
    assert_eq!(largest.first(), Some(&1));
    assert_eq!(largest.last(), Some(&8), "{largest:?}");
}

fn reverted(method: &str, params: &Value) -> Option<Value> {
    let result = match method {
        "eth_getTransactionReceipt" => {
            let mut row = receipt(params[0].as_str().unwrap(), 50);
            row["status"] = json!("0x0");
            row
        }
        "eth_getTransactionByHash" => json!({
            "hash": params[0], "from": "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", "to": null, "input": "0x",
            "value": "0x0", "gas": "0x5208",
        }),
        _ => return None,
    };
    Some(json!({ "jsonrpc": "2.0", "result": result }))
}

#[tokio::test]
async fn hanging_traces_are_awaited_once() {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(
            FakeNode::start(|script| {
                script.custom = Some(reverted);
                script.hang.insert("debug_traceTransaction");
            })
            .await,
        );
    }
    let mut options = options(&nodes.iter().collect::<Vec<_>>());
    options.rpc_timeout = Duration::from_millis(300);
    let chain = EvmChain::connect(options).unwrap();
    chain.head().await.unwrap();
    let hashes: Vec<B256> = (1..=200).map(hash).collect();
    let traces = || nodes.iter().map(|node| node.count("debug_traceTransaction")).collect::<Vec<_>>();
    chain.reverts(&hashes).await.unwrap();
    let once = traces();
    assert!(once.iter().all(|traces| (10..=80).contains(traces)), "traces that were in flight together: {once:?}");
    chain.reverts(&hashes).await.unwrap();
    assert_eq!(traces(), once);
    later(Duration::from_secs(5 * 60 + 1)).await;
    chain.reverts(&hashes[..1]).await.unwrap();
    assert_eq!(
        traces().iter().sum::<usize>(),
        once.iter().sum::<usize>() + 3,
        "traces are tried again after the pause"
    );
}

#[tokio::test]
async fn rate_limit_on_traces_does_not_limit_other_calls() {
    let node = FakeNode::start(|script| {
        script.custom = Some(reverted);
        let limited = (-32005, "daily request count exceeded, request rate limited");
        script.errors.insert("debug_traceTransaction", limited);
    })
    .await;
    let chain = chain(&[&node]);
    chain.head().await.unwrap();
    for _ in 0..2 {
        chain.reverts(&[hash(7)]).await.unwrap();
    }
    assert_eq!(chain.endpoints()[0].health, EndpointHealth::Good);
    assert_eq!(node.count("debug_traceTransaction"), 1, "traces are paused");
}

#[tokio::test]
async fn recorded_reason_is_preferred_to_a_replay() {
    let guesses = FakeNode::start(|script| {
        script.custom = Some(reverted);
        script.head = 101;
        script.errors.insert("eth_call", (3, "execution reverted: a guess"));
    })
    .await;
    let knows = FakeNode::start(|script| {
        script.custom = Some(reverted);
        let trace = json!({ "error": "execution reverted", "output": "0x82b42901" });
        script.answers.insert("debug_traceTransaction", trace);
    })
    .await;
    let chain = chain(&[&guesses, &knows]);
    chain.head().await.unwrap();
    let found = chain.reverts(&[hash(7)]).await.unwrap().remove(0).unwrap();
    assert_eq!(found.reason.unwrap().as_str(), "custom error 0x82b42901");
    assert_eq!(guesses.count("eth_call"), 0);
}

#[tokio::test]
async fn out_of_gas_needs_an_executed_replay() {
    let node = FakeNode::start(|script| script.custom = Some(reverted)).await;
    let chain = chain(&[&node]);
    for (error, reason) in [
        (Some((-32000, "missing trie node")), None),
        (Some((-32603, "internal error")), None),
        (Some((-32000, "invalid opcode: INVALID")), Some("invalid opcode: INVALID")),
        (Some((-32000, "out of gas")), Some("out of gas")),
        (None, Some("out of gas")),
    ] {
        node.change(|script| {
            script.errors.clear();
            script.errors.extend(error.map(|error| ("eth_call", error)));
            script.answers.insert("eth_call", json!("0x"));
        });
        let found = chain.reverts(&[hash(7)]).await.unwrap().remove(0);
        let found = found.and_then(|revert| revert.reason).map(|reason| reason.as_str().to_owned());
        assert_eq!(found.as_deref(), reason, "{error:?}");
    }
}

fn with_an_unreadable_row(method: &str, params: &Value) -> Option<Value> {
    let hashes = [format!("{:?}", hash(0xabc)), format!("{:?}", hash(0xdef))];
    let result = match method {
        "eth_getBlockReceipts" => {
            let mut strange = receipt(&hashes[1], 50);
            strange.as_object_mut().unwrap().remove("gasUsed");
            json!([receipt(&hashes[0], 50), strange])
        }
        "eth_getBlockTransactionCountByHash" => json!("0x2"),
        "eth_getBlockByHash" => {
            let mut row = block(50);
            row["transactions"] = json!(hashes);
            row
        }
        "eth_getTransactionReceipt" => receipt(params[0].as_str().unwrap(), 50),
        _ => return None,
    };
    Some(json!({ "jsonrpc": "2.0", "result": result }))
}

fn with_a_different_count(method: &str, params: &Value) -> Option<Value> {
    match method {
        "eth_getBlockReceipts" => {
            let rows = [0xabc, 0xdef].map(|number| receipt(&format!("{:?}", hash(number)), 50));
            Some(json!({ "jsonrpc": "2.0", "result": rows }))
        }
        "eth_getBlockTransactionCountByHash" => Some(json!({ "jsonrpc": "2.0", "result": "0x1" })),
        _ => with_an_unreadable_row(method, params),
    }
}

fn without_a_hash(method: &str, params: &Value) -> Option<Value> {
    let mut answer = with_an_unreadable_row(method, params)?;
    if method == "eth_getBlockReceipts" {
        answer["result"][1] = json!({ "system": true });
    }
    Some(answer)
}

/// proves R02
#[tokio::test]
async fn unreadable_foreign_receipt_hides_no_wanted_one() {
    for (custom, wanted, singles) in [
        (with_an_unreadable_row as support::Custom, &[0xabc][..], 0),
        (with_an_unreadable_row, &[0xabc, 0xdef], 2),
        (with_a_different_count, &[0xabc], 1),
        (without_a_hash, &[0xabc], 1),
    ] {
        let node = FakeNode::start(|script| script.custom = Some(custom)).await;
        let chain = chain(&[&node]);
        let wanted: Vec<B256> = wanted.iter().copied().map(hash).collect();
        let at = BlockRef { number: 50, hash: hash(50) };
        let receipts = chain.block_receipts(at, &|hash| wanted.contains(&hash)).await.unwrap().unwrap();
        assert_eq!(receipts.iter().map(|receipt| receipt.hash).collect::<Vec<_>>(), wanted);
        assert_eq!(node.count("eth_getTransactionReceipt"), singles);
    }
}
