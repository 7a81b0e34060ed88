//! A dev chain that is served in process, in the test's runtime.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failure in a test helper fails the test")]
#![allow(dead_code, reason = "each test program uses only a part")]

use std::net::SocketAddr;
use std::time::Duration;

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use gapless_devchain::rpc::{BlockProducer, Clock, Mining, RpcLimits, RpcServer, serve};
use gapless_devchain::{DEV_ACCOUNTS, DEV_CHAIN_ID, DevChain, GWEI, Genesis};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Much longer than any test takes, so that only a hanging test reaches it.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A client of the served chain.
pub(crate) struct ServedDevChain {
    pub(crate) chain: DevChain,
    pub(crate) server: RpcServer,
    pub(crate) address: SocketAddr,
    pub(crate) http: reqwest::Client,
}

/// Serves a new chain while the test runs, and stops the server afterwards.
pub(crate) async fn with_server(mining: Mining, limits: RpcLimits, test: impl AsyncFnOnce(&ServedDevChain)) {
    let chain = DevChain::new(Genesis::dev());
    let producer = BlockProducer::new(chain.clone(), mining, Clock::Wall);
    let server = RpcServer::new(chain.clone(), Clock::Wall, Some(producer.switch()), limits);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let http = http_client().timeout(LIMIT).build().unwrap();
    let served = ServedDevChain { chain, server: server.clone(), address, http };
    let (end, ended) = oneshot::channel::<()>();
    let shutdown = async move {
        let _ = ended.await;
    };
    let run = async move {
        test(&served).await;
        drop(served);
        drop(end);
    };
    tokio::select! {
        (served, ()) = async { tokio::join!(serve(listener, server, shutdown), run) } => served.unwrap(),
        made = producer.run(std::future::pending()) => panic!("the producer ended: {made:?}"),
    }
}

impl ServedDevChain {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn ws_url(&self, path: &str) -> String {
        format!("ws://{}{path}", self.address)
    }

    /// Posts a JSON text.
    pub(crate) async fn post(&self, path: &str, body: String) -> reqwest::Result<reqwest::Response> {
        self.http.post(self.url(path)).header("content-type", "application/json").body(body).send().await
    }

    /// The whole answer to one call.
    pub(crate) async fn call(&self, path: &str, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let text = self.post(path, body).await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{method}: no JSON: {text}"))
    }

    /// The result of a call that must succeed.
    pub(crate) async fn ok(&self, path: &str, method: &str, params: Value) -> Value {
        let answer = self.call(path, method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }
}

/// A payment of the first dev account, and its hash.
pub(crate) fn payment(nonce: u64) -> (Bytes, B256) {
    let tx = TxEip1559 {
        chain_id: DEV_CHAIN_ID,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 100 * GWEI,
        max_priority_fee_per_gas: GWEI,
        to: TxKind::Call(Address::repeat_byte(0xee)),
        value: U256::ONE,
        ..TxEip1559::default()
    };
    let raw = DEV_ACCOUNTS[0].sign(tx).unwrap();
    let hash = keccak256(&raw);
    (raw, hash)
}

/// With the workspace's TLS features, reqwest needs a TLS provider even for plain http.
pub(crate) fn http_client() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}
