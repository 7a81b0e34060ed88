//! A scripted node, recorders of metrics and logs, and test keys.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gapless_chain_evm::{EvmChain, EvmChainOptions, EvmEncoder, GasMargin, LocalSigner, MnemonicOptions, Secret};
use gapless_domain::{Action, Amount, EvmCall, Fees, Nonce, SignedTx, SubmitterId, TxPlan, Work, keccak256};
use gapless_domain::{FencingToken, Lease, LeaseTerms, OwnerId, Permit, Term, Tick};
use gapless_signer::sign_plans;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(crate) const CHAIN: u64 = 31337;

pub(crate) struct Script {
    pub(crate) chain_id: u64,
    pub(crate) head: u64,
    /// The fork of the node. It is part of its block hashes.
    pub(crate) fork: u64,
    /// Custom answers, tried first: `{"result": …}` or `{"error": …}` for a method and its parameters.
    pub(crate) custom: Option<Custom>,
    pub(crate) client: &'static str,
    /// Larger batches are refused.
    pub(crate) batch_max: usize,
    /// The response to a refused batch.
    pub(crate) batch_refusal: Value,
    /// Request ids are returned as texts.
    pub(crate) ids_as_texts: bool,
    pub(crate) missing: BTreeSet<&'static str>,
    /// Methods that return an error.
    pub(crate) errors: BTreeMap<&'static str, (i64, &'static str)>,
    /// The error for a transaction count at a block hash.
    pub(crate) count_by_hash: Option<(i64, &'static str)>,
    pub(crate) send: Sending,
    /// An HTTP status, header and body for every request.
    pub(crate) http: Option<(u16, &'static str, &'static str)>,
    /// Methods that are never answered.
    pub(crate) hang: BTreeSet<&'static str>,
    /// Requests with more gas estimates are never answered.
    pub(crate) estimates_max: usize,
    pub(crate) answers: BTreeMap<&'static str, Value>,
    /// All received calls, and the size of each batch.
    pub(crate) asked: Vec<(String, Value)>,
    pub(crate) sizes: Vec<usize>,
}

pub(crate) type Custom = fn(&str, &Value) -> Option<Value>;

#[derive(Clone)]
pub(crate) enum Sending {
    Accept,
    Returns(String),
    Refuse(i64, &'static str),
}

impl Default for Script {
    fn default() -> Self {
        Script {
            chain_id: CHAIN,
            head: 100,
            fork: 0,
            custom: None,
            client: "Geth/v1.15.0",
            batch_max: usize::MAX,
            batch_refusal: json!({
                "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": "invalid request" }
            }),
            ids_as_texts: false,
            missing: BTreeSet::new(),
            errors: BTreeMap::new(),
            count_by_hash: None,
            send: Sending::Accept,
            http: None,
            hang: BTreeSet::new(),
            estimates_max: usize::MAX,
            answers: BTreeMap::new(),
            asked: Vec::new(),
            sizes: Vec::new(),
        }
    }
}

/// An HTTP server that follows a script.
pub(crate) struct FakeNode {
    pub(crate) url: String,
    script: Arc<Mutex<Script>>,
    task: JoinSet<()>,
}

impl FakeNode {
    pub(crate) async fn start(change: impl FnOnce(&mut Script)) -> Self {
        let mut script = Script::default();
        change(&mut script);
        let script = Arc::new(Mutex::new(script));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v3/s3cr3ts3cr3t", listener.local_addr().unwrap());
        let mut task = JoinSet::new();
        let shared = Arc::clone(&script);
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        FakeNode { url, script, task }
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        change(&mut self.script.lock().unwrap())
    }

    /// Closes the server.
    pub(crate) async fn stop(&mut self) {
        self.task.shutdown().await;
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        self.change(|script| script.asked.iter().filter(|(asked, _)| asked == method).count())
    }
}

async fn serve(stream: TcpStream, script: Arc<Mutex<Script>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).await.is_err() {
            return;
        }
        let Some((status, header, body)) = answer(&script, &body) else {
            return std::future::pending().await;
        };
        let text = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n{header}\r\n{body}", body.len());
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn answer(script: &Mutex<Script>, body: &[u8]) -> Option<(u16, &'static str, String)> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let mut script = script.lock().unwrap();
    let calls = body.as_array().cloned().unwrap_or_else(|| vec![body.clone()]);
    script.sizes.push(calls.len());
    for call in &calls {
        script.asked.push((call["method"].as_str().unwrap().to_owned(), call["params"].clone()));
    }
    if let Some((status, header, body)) = script.http {
        return Some((status, header, body.to_owned()));
    }
    if calls.iter().any(|call| script.hang.contains(call["method"].as_str().unwrap())) {
        return None;
    }
    if calls.iter().filter(|call| call["method"] == "eth_estimateGas").count() > script.estimates_max {
        return None;
    }
    if calls.len() > script.batch_max {
        return Some((200, "", script.batch_refusal.to_string()));
    }
    let mut answers: Vec<Value> = calls.iter().map(|call| one(&script, call)).collect();
    let body = if body.is_array() { json!(answers) } else { answers.remove(0) };
    Some((200, "", body.to_string()))
}

fn one(script: &Script, call: &Value) -> Value {
    let id = if script.ids_as_texts { json!(call["id"].to_string()) } else { call["id"].clone() };
    let method = call["method"].as_str().unwrap();
    if let Some(mut answer) = script.custom.and_then(|custom| custom(method, &call["params"])) {
        answer["id"] = id;
        return answer;
    }
    let error =
        |code: i64, message: &str| json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
    if script.missing.contains(method) {
        return error(-32601, "the method does not exist/is not available");
    }
    if let Some((code, message)) = script.errors.get(method) {
        return error(*code, message);
    }
    if let Some((code, message)) = script.count_by_hash.filter(|_| call["params"][1].is_object()) {
        return error(code, message);
    }
    let result = match (script.answers.get(method), method) {
        (Some(answer), _) => answer.clone(),
        (None, "eth_chainId") => json!(format!("{:#x}", script.chain_id)),
        (None, "web3_clientVersion") => json!(script.client),
        (None, "eth_blockNumber") => json!(format!("{:#x}", script.head)),
        (None, "eth_getBlockByNumber") => {
            let number = call["params"][0].as_str().unwrap().strip_prefix("0x");
            let number = number.map_or(script.head, |digits| u64::from_str_radix(digits, 16).unwrap());
            if number <= script.head { block_of(script.fork, number) } else { json!(null) }
        }
        (None, "eth_getTransactionCount" | "eth_getBalance") => json!(format!("{:#x}", script.head)),
        (None, "eth_getCode") => json!("0x"),
        (None, "eth_sendRawTransaction") => match &script.send {
            Sending::Accept => {
                let raw: gapless_domain::Bytes = call["params"][0].as_str().unwrap().parse().unwrap();
                json!(keccak256(raw))
            }
            Sending::Returns(text) => json!(text),
            Sending::Refuse(code, text) => return error(*code, text),
        },
        _ => return error(-32601, "the method does not exist/is not available"),
    };
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub(crate) fn block(number: u64) -> Value {
    block_of(0, number)
}

pub(crate) fn block_of(fork: u64, number: u64) -> Value {
    json!({
        "number": format!("{number:#x}"), "hash": format!("0x{fork:032x}{number:032x}"),
        "parentHash": format!("0x{fork:032x}{:032x}", number.saturating_sub(1)), "timestamp": "0x1",
        "baseFeePerGas": "0x7",
    })
}

pub(crate) fn receipt(hash: &str, block: u64) -> Value {
    json!({
        "transactionHash": hash, "blockHash": format!("0x{block:064x}"), "blockNumber": format!("{block:#x}"),
        "from": "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", "status": "0x1", "gasUsed": "0x5208",
        "effectiveGasPrice": "0x7", "contractAddress": null, "type": "0x7e",
    })
}

pub(crate) fn options(nodes: &[&FakeNode]) -> EvmChainOptions {
    let rpc = nodes.iter().map(|node| node.url.parse().unwrap()).collect();
    let mut options = EvmChainOptions::new(format!("eip155:{CHAIN}").parse().unwrap(), rpc);
    options.rpc_timeout = Duration::from_secs(2);
    options.gas_margin = GasMargin { factor_permille: 1000, constant: 0 };
    options
}

pub(crate) fn chain(nodes: &[&FakeNode]) -> EvmChain {
    EvmChain::connect(options(nodes)).unwrap()
}

/// The signer of a funded account of dev chains.
pub(crate) fn signer(index: u32) -> LocalSigner {
    let junk = "test test test test test test test test test test test junk";
    LocalSigner::from_mnemonic(&MnemonicOptions::account(Secret::new(junk.to_owned()), index)).unwrap()
}

pub(crate) fn submitter(index: u32) -> SubmitterId {
    format!("eip155:{CHAIN}:{}", signer(index).address()).parse().unwrap()
}

pub(crate) fn plan(nonce: u64) -> TxPlan {
    let call = EvmCall { to: submitter(1).evm_address(), value: Amount::from(1_u64), ..EvmCall::default() };
    let fees = Fees::Eip1559 { max_fee: 20_000_000_000, max_priority_fee: 1_000_000_000 };
    TxPlan {
        submitter: submitter(0),
        nonce: Nonce::new(nonce).unwrap(),
        action: call.into(),
        work: Work::new(100_000),
        fees,
    }
}

/// The call of [`plan`].
pub(crate) fn call() -> EvmCall {
    let Action::Evm(call) = plan(0).action;
    call
}

pub(crate) fn permit(submitter: SubmitterId) -> Permit {
    let lease = Lease::granted(submitter, OwnerId::new("test", 1), FencingToken::new(1));
    let start = Tick::since_start(Duration::ZERO);
    Term::begin(lease, start, &LeaseTerms::default()).permit(start).unwrap()
}

/// Signs with the key of account 0 or 1.
pub(crate) async fn signed(chain: &EvmChain, plan: &TxPlan) -> SignedTx {
    signed_by(chain, &[signer(0), signer(1)], plan).await
}

/// Signs with the key of the plan's submitter.
pub(crate) async fn signed_by(chain: &EvmChain, keys: &[LocalSigner], plan: &TxPlan) -> SignedTx {
    use gapless_chain::ChainReader as _;
    let encoder = EvmEncoder::new(chain.id().clone()).unwrap();
    let signer = keys.iter().find(|key| plan.submitter.evm_address() == Some(key.address()));
    let permit = permit(plan.submitter.clone());
    sign_plans(&permit, &encoder, signer.unwrap(), std::slice::from_ref(plan)).await.remove(0).unwrap()
}

/// The combined answer for each transaction.
pub(crate) async fn send(chain: &EvmChain, txs: &[SignedTx]) -> Vec<gapless_chain::Classified> {
    use gapless_chain::ChainSender as _;
    chain.broadcast(txs).await.into_iter().map(|answer| answer.classified).collect()
}

/// One call to a node, without the code under test.
pub(crate) async fn ask_node(url: &str, method: &str, params: Value) -> Value {
    let (host, path) =
        url.strip_prefix("http://").unwrap().split_once('/').unwrap_or((url.trim_start_matches("http://"), ""));
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let head = format!("POST /{path} HTTP/1.0\r\nhost: {host}\r\ncontent-type: application/json\r\n");
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1.trim()).unwrap();
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}

/// A recorder of counters.
#[derive(Default)]
pub(crate) struct Counts(Mutex<BTreeMap<String, Arc<AtomicU64>>>, Mutex<Vec<Key>>);

impl Counts {
    pub(crate) fn of(&self, name: &str) -> u64 {
        self.0.lock().unwrap().get(name).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// All metric names and labels.
    pub(crate) fn keys(&self) -> String {
        format!("{:?}", self.1.lock().unwrap())
    }
}

/// A recorder of log lines.
#[derive(Clone, Default)]
pub(crate) struct Logs(Arc<Mutex<String>>);

impl Logs {
    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl tracing::Subscriber for Logs {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("gapless")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = self.0.lock().unwrap();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            text.push_str(&format!("{field}={value:?} "));
        });
        text.push('\n');
    }

    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.1.lock().unwrap().push(key.clone());
        Counter::from_arc(Arc::clone(self.0.lock().unwrap().entry(key.name().to_owned()).or_default()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.1.lock().unwrap().push(key.clone());
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.1.lock().unwrap().push(key.clone());
        Histogram::noop()
    }
}

/// Advances the clock of tokio.
pub(crate) async fn later(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Runs a test on one thread with a recorder of counters.
pub(crate) fn counted(test: impl Future<Output = ()>) -> Counts {
    let counts = Counts::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&counts, || runtime.block_on(test));
    counts
}
