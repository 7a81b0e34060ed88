//! The three nodes under test, and their connections.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gapless_devchain::rpc::{BlockProducer, Clock, Mining, RpcLimits, RpcServer, serve};
use gapless_devchain::{DevChain, Genesis};
use gapless_testbed::{Anvil, AnvilOptions, HardhatNode, HardhatOptions};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};

use crate::case::NodeKind;

const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// A running node that makes blocks only on demand.
pub(crate) struct Node {
    kind: NodeKind,
    port: u16,
    http: reqwest::blocking::Client,
    next_id: AtomicU64,
    _process: Process,
}

/// The process or thread of the node. It ends when the node is dropped.
enum Process {
    DevChain(#[expect(dead_code, reason = "held only for its Drop")] InProcess),
    Anvil(#[expect(dead_code, reason = "held only for its Drop")] Anvil),
    Hardhat(#[expect(dead_code, reason = "held only for its Drop")] HardhatNode),
}

/// The error of an answer.
#[derive(Clone, Debug)]
pub(crate) struct CallFailure {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl Node {
    pub(crate) fn start(kind: NodeKind) -> Self {
        let (port, process) = match kind {
            NodeKind::DevChain => {
                let server = InProcess::start();
                (server.port, Process::DevChain(server))
            }
            NodeKind::Anvil => {
                let mining = gapless_testbed::Mining::OnDemand;
                // The hard fork of the dev chain, instead of anvil's newest.
                let arguments = vec!["--hardfork".to_owned(), "prague".to_owned()];
                let anvil = Anvil::start(AnvilOptions { mining, arguments, ..AnvilOptions::default() }).unwrap();
                (anvil.port(), Process::Anvil(anvil))
            }
            NodeKind::Hardhat => {
                let mining = gapless_testbed::Mining::OnDemand;
                let hardhat = HardhatNode::start(HardhatOptions { mining, ..HardhatOptions::default() }).unwrap();
                (hardhat.port(), Process::Hardhat(hardhat))
            }
        };
        // With the workspace's TLS features, reqwest needs a TLS provider even for plain http.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::blocking::Client::builder().timeout(ANSWER_LIMIT).build().unwrap();
        Self { kind, port, http, next_id: AtomicU64::new(1), _process: process }
    }

    pub(crate) fn kind(&self) -> NodeKind {
        self.kind
    }

    pub(crate) fn call(&self, method: &str, params: Value) -> Result<Value, CallFailure> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let text = self.post(&request.to_string());
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{method}: no JSON: {text}"));
        assert_eq!(answer["id"], id, "{method}: {answer}");
        outcome(&answer)
    }

    /// Posts a text and returns the text of the answer.
    pub(crate) fn post(&self, body: &str) -> String {
        let url = format!("http://127.0.0.1:{}", self.port);
        let request = self.http.post(url).header("content-type", "application/json").body(body.to_owned());
        request.send().unwrap().text().unwrap()
    }

    pub(crate) fn socket(&self) -> Socket {
        let (socket, _) = tungstenite::connect(format!("ws://127.0.0.1:{}", self.port)).unwrap();
        if let MaybeTlsStream::Plain(stream) = socket.get_ref() {
            stream.set_read_timeout(Some(ANSWER_LIMIT)).unwrap();
        }
        Socket { socket, received: Vec::new() }
    }
}

/// A WebSocket connection. Notifications that arrive before an answer are kept.
pub(crate) struct Socket {
    socket: WebSocket<MaybeTlsStream<std::net::TcpStream>>,
    received: Vec<Value>,
}

impl Socket {
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value, CallFailure> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.socket.send(Message::text(request.to_string())).unwrap();
        loop {
            let message = self.read();
            if message.get("id").is_some() {
                return outcome(&message);
            }
            self.received.push(message);
        }
    }

    /// The next notification of a subscription.
    pub(crate) fn next(&mut self, subscription: &Value) -> Value {
        loop {
            let is_its = |message: &Value| message["params"]["subscription"] == *subscription;
            if let Some(at) = self.received.iter().position(is_its) {
                return self.received.remove(at)["params"]["result"].clone();
            }
            let message = self.read();
            self.received.push(message);
        }
    }

    fn read(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.read().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }
}

fn outcome(answer: &Value) -> Result<Value, CallFailure> {
    match answer.get("error") {
        None => Ok(answer["result"].clone()),
        Some(error) => Err(CallFailure {
            code: error["code"].as_i64().unwrap(),
            message: error["message"].as_str().unwrap().to_owned(),
            data: error.get("data").cloned(),
        }),
    }
}

/// The dev chain's server in its own thread.
struct InProcess {
    port: u16,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl InProcess {
    #[expect(clippy::disallowed_methods, reason = "the cases are synchronous, and the thread is joined")]
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (shutdown, ended) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let chain = DevChain::new(Genesis::dev());
                let producer = BlockProducer::new(chain.clone(), Mining::OnDemand, Clock::Wall);
                let server = RpcServer::new(chain, Clock::Wall, Some(producer.switch()), RpcLimits::default());
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let ended = async move {
                    let _ = ended.await;
                };
                tokio::select! {
                    served = serve(listener, server, ended) => served.unwrap(),
                    made = producer.run(std::future::pending()) => made.unwrap(),
                }
            });
        });
        Self { port, shutdown: Some(shutdown), thread: Some(thread) }
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        drop(self.shutdown.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server thread is ignored, because the test has already failed then.
            let _ = thread.join();
        }
    }
}
