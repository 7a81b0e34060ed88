//! The null chain over HTTP and WebSocket: transactions are mined in nonce order and reported to subscribers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure in a test helper fails the test")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use alloy_consensus::{TxEip1559, TxEip2930, TxLegacy};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use gapless_devchain::null::{NullChain, NullOptions};
use gapless_devchain::{DEV_ACCOUNTS, DEV_CHAIN_ID, GWEI};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tungstenite::Message;

/// Much longer than any test takes, so that only a hanging test reaches it.
const LIMIT: Duration = Duration::from_secs(20);
/// Long enough for a test to read the pool before the next block.
const NEVER: Duration = Duration::from_secs(3_600);
const QUICK: Duration = Duration::from_millis(5);

struct ServedNullChain {
    address: SocketAddr,
    http: reqwest::Client,
}

async fn with_chain(block_time: Duration, latency: Duration, test: impl AsyncFnOnce(&ServedNullChain)) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = ServedNullChain { address, http: reqwest::Client::builder().timeout(LIMIT).build().unwrap() };
    let chain = NullChain::new(NullOptions { block_time, latency, ..NullOptions::default() });
    tokio::select! {
        ended = chain.serve(listener, std::future::pending()) => panic!("the server ended: {ended:?}"),
        () = chain.make_blocks(std::future::pending()) => panic!("the blocks ended"),
        () = test(&served) => {}
    }
}

impl ServedNullChain {
    async fn post(&self, body: &Value) -> Value {
        let url = format!("http://{}", self.address);
        let sent = self.http.post(url).header("content-type", "application/json").body(body.to_string()).send();
        serde_json::from_str(&sent.await.unwrap().text().await.unwrap()).unwrap()
    }

    async fn call(&self, method: &str, params: Value) -> Value {
        self.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).await
    }

    async fn ok(&self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn refused(&self, method: &str, params: Value) -> String {
        let answer = self.call(method, params).await;
        answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {answer}")).to_owned()
    }

    async fn count(&self, account: Address, at: Value) -> u64 {
        number(&self.ok("eth_getTransactionCount", json!([account, at])).await)
    }

    async fn receipt(&self, hash: B256) -> Value {
        loop {
            let receipt = self.ok("eth_getTransactionReceipt", json!([hash])).await;
            if !receipt.is_null() {
                return receipt;
            }
        }
    }
}

fn number(text: &Value) -> u64 {
    u64::from_str_radix(text.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
}

fn account(index: usize) -> Address {
    DEV_ACCOUNTS[index].address
}

fn unsigned(index: usize, nonce: u64) -> TxEip1559 {
    TxEip1559 {
        chain_id: DEV_CHAIN_ID,
        nonce,
        gas_limit: 100_000,
        max_fee_per_gas: 20 * GWEI,
        max_priority_fee_per_gas: 2 * GWEI,
        to: TxKind::Call(account(index)),
        value: U256::ONE,
        ..TxEip1559::default()
    }
}

/// A transaction from an account to itself.
fn signed(index: usize, nonce: u64) -> (Bytes, B256) {
    let raw = DEV_ACCOUNTS[index].sign(unsigned(index, nonce)).unwrap();
    (raw.clone(), keccak256(&raw))
}

#[tokio::test]
async fn sent_transaction_is_mined_with_receipt() {
    with_chain(QUICK, Duration::ZERO, async |served| {
        let (raw, hash) = signed(0, 0);
        assert_eq!(served.ok("eth_sendRawTransaction", json!([raw])).await, json!(hash));
        let receipt = served.receipt(hash).await;
        assert_eq!(receipt["transactionHash"], json!(hash));
        assert_eq!((number(&receipt["status"]), number(&receipt["gasUsed"])), (1, 21_000));
        assert_eq!(number(&receipt["effectiveGasPrice"]), 3_000_000_000);
        let block = served.ok("eth_getBlockByHash", json!([receipt["blockHash"], false])).await;
        assert_eq!((&block["number"], &block["transactions"]), (&receipt["blockNumber"], &json!([hash])));
        let all = served.ok("eth_getBlockReceipts", json!([receipt["blockHash"]])).await;
        assert_eq!(all, json!([receipt]));
        assert_eq!(served.ok("eth_getBlockTransactionCountByHash", json!([receipt["blockHash"]])).await, json!("0x1"));
        // The transaction in alloy's type, with the exact bytes that were sent.
        let whole: alloy_rpc_types_eth::Block =
            serde_json::from_value(served.ok("eth_getBlockByNumber", json!([block["number"], true])).await).unwrap();
        let shown = whole.transactions.as_transactions().unwrap();
        assert_eq!(alloy_eips::eip2718::Encodable2718::encoded_2718(&shown[0].inner.clone().into_inner()), raw);
        let _: Vec<alloy_rpc_types_eth::TransactionReceipt> = serde_json::from_value(all).unwrap();
        let found = served.ok("eth_getTransactionByHash", json!([hash])).await;
        assert_eq!((&found["hash"], &found["blockHash"]), (&json!(hash), &receipt["blockHash"]));
        assert_eq!(
            served.refused("eth_sendRawTransaction", json!([raw])).await,
            "nonce too low: next nonce 1, tx nonce 0"
        );
    })
    .await;
}

#[tokio::test]
async fn every_transaction_type_is_decoded() {
    with_chain(QUICK, Duration::ZERO, async |served| {
        let (to, gas_limit, gas_price) = (TxKind::Call(account(0)), 100_000, 5 * GWEI);
        let input = Bytes::from(vec![7; 100]);
        let legacy = TxLegacy { chain_id: Some(DEV_CHAIN_ID), to, gas_limit, gas_price, ..TxLegacy::default() };
        let listed =
            TxEip2930 { chain_id: DEV_CHAIN_ID, nonce: 1, to, gas_limit, gas_price, input, ..TxEip2930::default() };
        for (raw, ty, gas) in [
            (DEV_ACCOUNTS[0].sign(legacy).unwrap(), 0, 21_000),
            (DEV_ACCOUNTS[0].sign(listed).unwrap(), 1, 25_000),
            (signed(0, 2).0, 2, 21_000),
        ] {
            served.ok("eth_sendRawTransaction", json!([raw])).await;
            let receipt = served.receipt(keccak256(&raw)).await;
            assert_eq!((number(&receipt["type"]), number(&receipt["gasUsed"])), (ty, gas));
            assert_eq!(receipt["from"], json!(account(0)));
        }
    })
    .await;
}

#[tokio::test]
async fn unminable_transaction_is_refused_with_geth_text() {
    with_chain(QUICK, Duration::ZERO, async |served| {
        let sign = |tx: TxEip1559| DEV_ACCOUNTS[0].sign(tx).unwrap();
        let mut long = signed(0, 0).0.to_vec();
        long.push(0);
        for (raw, words) in [
            (Bytes::new(), "typed transaction too short"),
            (Bytes::from(vec![3, 0xc0]), "transaction type not supported"),
            (Bytes::from(vec![2, 0xc1]), "rlp: "),
            (long.into(), "rlp: input contains more than one value"),
            (sign(TxEip1559 { chain_id: 1, ..unsigned(0, 0) }), "invalid sender: invalid chain id"),
            (sign(TxEip1559 { to: TxKind::Create, ..unsigned(0, 0) }), "contract creation is not possible"),
            (sign(TxEip1559 { gas_limit: 20_999, ..unsigned(0, 0) }), "intrinsic gas too low"),
            (
                sign(TxEip1559 { max_priority_fee_per_gas: 21 * GWEI, ..unsigned(0, 0) }),
                "max priority fee per gas higher",
            ),
            (
                sign(TxEip1559 { max_fee_per_gas: 1, max_priority_fee_per_gas: 1, ..unsigned(0, 0) }),
                "max fee per gas less than block base fee",
            ),
        ] {
            let said = served.refused("eth_sendRawTransaction", json!([raw])).await;
            assert!(said.starts_with(words), "{said}");
        }
        assert_eq!(served.ok("null_stats", json!([])).await["accepted"], 0);
    })
    .await;
}

#[tokio::test]
async fn nonce_gap_delays_later_nonces() {
    with_chain(QUICK, Duration::ZERO, async |served| {
        let batch: Vec<Value> = [2, 0, 3]
            .iter()
            .map(|nonce| {
                let params = [signed(0, *nonce).0];
                json!({ "jsonrpc": "2.0", "id": nonce, "method": "eth_sendRawTransaction", "params": params })
            })
            .collect();
        let answers = served.post(&json!(batch)).await;
        assert_eq!(answers.as_array().unwrap().len(), 3);
        for (answer, nonce) in answers.as_array().unwrap().iter().zip([2, 0, 3]) {
            assert_eq!((&answer["id"], &answer["result"]), (&json!(nonce), &json!(signed(0, nonce).1)));
        }
        let first = served.receipt(signed(0, 0).1).await;
        let latest = served.count(account(0), json!("latest")).await;
        let pending = served.count(account(0), json!("pending")).await;
        assert_eq!((latest, pending), (1, 1));
        assert_eq!(served.refused("eth_sendRawTransaction", json!([signed(0, 3).0])).await, "already known");
        let waiting = served.ok("eth_getTransactionByHash", json!([signed(0, 3).1])).await;
        assert_eq!((&waiting["blockHash"], &waiting["nonce"]), (&Value::Null, &json!("0x3")));
        served.ok("eth_sendRawTransaction", json!([signed(0, 1).0])).await;
        let last = served.receipt(signed(0, 3).1).await;
        let others = [served.receipt(signed(0, 1).1).await, served.receipt(signed(0, 2).1).await];
        assert!(others.iter().all(|other| other["blockHash"] == last["blockHash"]));
        assert_eq!(number(&last["transactionIndex"]), 2);
        assert_eq!(number(&last["cumulativeGasUsed"]), 63_000);
        // The count at an earlier block is available as long as the block is kept.
        let then = json!({ "blockHash": first["blockHash"], "requireCanonical": true });
        assert_eq!(served.count(account(0), then).await, 1);
        assert_eq!(served.count(account(0), last["blockNumber"].clone()).await, 4);
        let beyond = served.refused("eth_getTransactionCount", json!([account(0), "0xffffff"])).await;
        assert_eq!(beyond, "header not found");
    })
    .await;
}

#[tokio::test]
async fn replacement_needs_ten_percent_bump() {
    with_chain(NEVER, Duration::ZERO, async |served| {
        let with = |max_fee_per_gas: u128, max_priority_fee_per_gas: u128| {
            DEV_ACCOUNTS[0].sign(TxEip1559 { max_fee_per_gas, max_priority_fee_per_gas, ..unsigned(0, 0) }).unwrap()
        };
        let send = async |raw: &Bytes| served.call("eth_sendRawTransaction", json!([raw])).await;
        let first = with(1_000 * GWEI, 100 * GWEI);
        assert!(send(&first).await.get("error").is_none());
        assert_eq!(send(&first).await["error"]["message"], "already known");
        for raw in [with(1_099 * GWEI, 110 * GWEI), with(1_100 * GWEI, 109 * GWEI), with(900 * GWEI, 90 * GWEI)] {
            assert_eq!(send(&raw).await["error"]["message"], "replacement transaction underpriced");
        }
        let second = with(1_100 * GWEI, 110 * GWEI);
        assert_eq!(send(&second).await["result"], json!(keccak256(&second)));
        assert!(served.ok("eth_getTransactionByHash", json!([keccak256(&first)])).await.is_null());
        let stats = served.ok("null_stats", json!([])).await;
        assert_eq!((&stats["waiting"], &stats["accepted"], &stats["mined"]), (&json!(1), &json!(2), &json!(0)));
    })
    .await;
}

type Socket = tungstenite::WebSocket<std::net::TcpStream>;

fn open_socket(address: SocketAddr) -> Socket {
    let stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    tungstenite::client(format!("ws://{address}"), stream).unwrap().0
}

fn send_call(socket: &mut Socket, id: u64, method: &str, params: Value) {
    let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    socket.send(Message::text(call.to_string())).unwrap();
}

fn receive(socket: &mut Socket) -> Value {
    let Message::Text(text) = socket.read().unwrap() else { panic!("no text") };
    serde_json::from_str(&text).unwrap()
}

/// The next head that the subscriber gets.
fn next_head(socket: &mut Socket) -> Value {
    receive(socket)["params"]["result"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriber_gets_every_head_until_finality() {
    with_chain(QUICK, Duration::ZERO, async |served| {
        let address = served.address;
        let socket = tokio::task::spawn_blocking(move || {
            let mut socket = open_socket(address);
            send_call(&mut socket, 1, "eth_subscribe", json!(["newHeads"]));
            assert_eq!(receive(&mut socket)["result"], "0x1");
            socket
        });
        let mut socket = socket.await.unwrap();
        let (raw, hash) = signed(0, 0);
        served.ok("eth_sendRawTransaction", json!([raw])).await;
        let mined = served.receipt(hash).await;
        let heads = tokio::task::spawn_blocking(move || {
            let mut heads = vec![next_head(&mut socket)];
            while heads.last().unwrap()["hash"] != mined["blockHash"] {
                heads.push(next_head(&mut socket));
            }
            heads.extend((0..3).map(|_| next_head(&mut socket)));
            heads
        });
        let heads = heads.await.unwrap();
        assert!(heads.windows(2).all(|two| two[1]["parentHash"] == two[0]["hash"]));
        let [mined, .., third] = &heads[heads.len() - 4..] else { panic!("{heads:?}") };
        let took = third["madeAtMicros"].as_u64().unwrap() - mined["madeAtMicros"].as_u64().unwrap();
        assert!(took < 2_900_000, "{took} µs: the empty blocks came by heartbeat, not by block time");
        let finalized = served.ok("eth_getBlockByNumber", json!(["finalized", false])).await;
        assert!(number(&finalized["number"]) > number(&mined["number"]));
        assert_eq!(served.count(account(0), json!("finalized")).await, 1);
    })
    .await;
}

/// Long enough to detect early answers, and answers that wait one after the other.
const LATENCY: Duration = Duration::from_millis(300);

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test measures elapsed time")]
async fn answers_wait_concurrently() {
    with_chain(QUICK, LATENCY, async |served| {
        let began = Instant::now();
        let calls = (0..20).map(|_| served.ok("eth_chainId", json!([])));
        let answers = futures_util::future::join_all(calls).await;
        assert_eq!(answers.len(), 20);
        assert!(began.elapsed() >= LATENCY);
        assert!(began.elapsed() < LATENCY * 10, "{:?}: the answers waited one after the other", began.elapsed());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "the test measures elapsed time")]
async fn socket_answers_wait_concurrently_in_order() {
    with_chain(NEVER, LATENCY, async |served| {
        let address = served.address;
        let asking = tokio::task::spawn_blocking(move || {
            let mut socket = open_socket(address);
            let began = Instant::now();
            (0..20).for_each(|id| send_call(&mut socket, id, "eth_chainId", json!([])));
            let ids: Vec<Value> = (0..20).map(|_| receive(&mut socket)["id"].clone()).collect();
            (ids, began.elapsed())
        });
        let (ids, took) = asking.await.unwrap();
        assert_eq!(ids, (0..20).map(Value::from).collect::<Vec<_>>());
        assert!((LATENCY..LATENCY * 10).contains(&took), "{took:?}");
    })
    .await;
}

#[tokio::test]
async fn stats_count_calls_and_arrivals() {
    with_chain(QUICK, Duration::ZERO, async |served| {
        for nonce in 0..3 {
            served.ok("eth_sendRawTransaction", json!([signed(1, nonce).0])).await;
        }
        served.receipt(signed(1, 2).1).await;
        let stats = served.ok("null_stats", json!([])).await;
        assert_eq!(stats["calls"]["eth_sendRawTransaction"], 3);
        assert_eq!((&stats["accepted"], &stats["mined"], &stats["waiting"]), (&json!(3), &json!(3), &json!(0)));
        let arrivals = served.ok("null_arrivals", json!([2])).await;
        let hashes: Vec<&Value> = arrivals.as_array().unwrap().iter().map(|arrival| &arrival[0]).collect();
        assert_eq!(hashes, [&json!(signed(1, 1).1), &json!(signed(1, 2).1)]);
        assert!(arrivals[0][1].as_u64().unwrap() <= arrivals[1][1].as_u64().unwrap());
        assert_eq!(served.ok("null_arrivals", json!([])).await.as_array().unwrap().len(), 3);
        let mined = served.receipt(signed(1, 2).1).await;
        let block = served.ok("eth_getBlockByHash", json!([mined["blockHash"], false])).await;
        assert!(block["madeAtMicros"].as_u64().unwrap() >= arrivals[1][1].as_u64().unwrap());
    })
    .await;
}
