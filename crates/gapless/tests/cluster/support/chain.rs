//! The chain of a test: anvil, Hardhat or the dev chain, and its real content.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gapless_testbed::{Anvil, AnvilOptions, HardhatNode, HardhatOptions, Mining};
use gapless_wire::ConfirmationView;
use serde_json::{Value, json};

use super::{ChildProcess, TestFolder};

/// Blocks that one call reads.
const BLOCKS_AT_ONCE: u64 = 200;

#[derive(Debug)]
pub(crate) struct TestChain {
    server: Server,
    port: u16,
    http: reqwest::Client,
}

#[derive(Debug)]
enum Server {
    Anvil(Anvil),
    Hardhat(HardhatNode),
    Dev(ChildProcess),
}

impl TestChain {
    pub(crate) fn start(mining: Mining) -> Self {
        Self::with_accounts(mining, 10)
    }

    pub(crate) fn with_accounts(mining: Mining, accounts: u32) -> Self {
        let anvil = Anvil::start(AnvilOptions { mining, accounts, ..AnvilOptions::default() }).unwrap();
        TestChain { port: anvil.port(), server: Server::Anvil(anvil), http: super::http() }
    }

    /// An anvil with rules from before EIP-1559: its blocks have no base fee.
    pub(crate) fn without_base_fee(mining: Mining) -> Self {
        let arguments = ["--hardfork", "berlin"].map(str::to_owned).to_vec();
        let anvil = Anvil::start(AnvilOptions { mining, arguments, ..AnvilOptions::default() }).unwrap();
        TestChain { port: anvil.port(), server: Server::Anvil(anvil), http: super::http() }
    }

    pub(crate) fn hardhat(mining: Mining) -> Self {
        let hardhat = HardhatNode::start(HardhatOptions { mining, ..HardhatOptions::default() }).unwrap();
        TestChain { port: hardhat.port(), server: Server::Hardhat(hardhat), http: super::http() }
    }

    /// `gapless devchain`, which can inject faults of chains and endpoints.
    pub(crate) async fn dev(mining: Mining) -> Self {
        let folder = TestFolder::new("devchain");
        let mut command = Command::new(env!("CARGO_BIN_EXE_gapless"));
        command.args(["devchain", "--json", "--listen", "127.0.0.1:0"]).current_dir(folder.path());
        match mining {
            Mining::PerTransaction => command.arg("--per-transaction"),
            Mining::OnDemand => command.arg("--on-demand"),
            Mining::Every(time) => command.args(["--block-time", &format!("{}ms", time.as_millis())]),
        };
        let mut process = ChildProcess::spawn(command, folder);
        let ready = process.ready().await;
        let port = ready["rpc"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        TestChain { server: Server::Dev(process), port, http: super::http() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn ws_url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }

    /// Another endpoint of the dev chain, with faults of its own.
    pub(crate) fn endpoint(&self, name: &str) -> String {
        format!("{}/endpoint/{name}", self.url())
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sends the signal `STOP` or `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = match &self.server {
            Server::Dev(process) => return process.signal(signal),
            Server::Anvil(anvil) => anvil.pid(),
            Server::Hardhat(hardhat) => hardhat.pid(),
        };
        let pid = pid.unwrap().to_string();
        assert!(Command::new("kill").arg(format!("-{signal}")).arg(pid).status().unwrap().success());
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        self.call_to(&self.url(), method, params).await
    }

    /// Calls another endpoint of the dev chain.
    pub(crate) async fn call_at(&self, endpoint: &str, method: &str, params: Value) -> Value {
        self.call_to(&self.endpoint(endpoint), method, params).await
    }

    async fn call_to(&self, url: &str, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = self.post(url, &body).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn post(&self, url: &str, body: &Value) -> Value {
        let request = self.http.post(url).header("content-type", "application/json").body(body.to_string());
        let text = request.timeout(Duration::from_secs(30)).send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) async fn mine(&self, blocks: u32) {
        for _ in 0..blocks {
            self.call("evm_mine", json!([])).await;
        }
    }

    /// Mines blocks at an interval until a future ends.
    pub(crate) async fn mine_while<T>(&self, until: impl Future<Output = T>) -> T {
        repeat_while(until, async || {
            self.mine(1).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        })
        .await
    }

    pub(crate) async fn balance(&self, address: &str) -> u64 {
        number(&self.call("eth_getBalance", json!([address, "latest"])).await)
    }

    /// The account's nonce with its pending transactions.
    pub(crate) async fn pending_count(&self, address: &str) -> u64 {
        number(&self.call("eth_getTransactionCount", json!([address, "pending"])).await)
    }

    /// Changes the faults of an endpoint of the dev chain, and returns how often they have struck.
    pub(crate) async fn faults(&self, endpoint: &str, changes: Value) -> u64 {
        self.call("gapless_faults", json!([endpoint, changes])).await["struck"].as_u64().unwrap()
    }

    /// Replaces `depth` blocks by empty blocks, and drops their transactions.
    pub(crate) async fn reorg(&self, depth: u64) {
        match self.server {
            Server::Anvil(_) => self.call("anvil_reorg", json!([depth, []])).await,
            Server::Dev(_) => self.call("gapless_reorg", json!([depth, "drop"])).await,
            Server::Hardhat(_) => panic!("Hardhat cannot make a reorg"),
        };
    }

    pub(crate) async fn head(&self) -> u64 {
        number(&self.call("eth_blockNumber", json!([])).await)
    }

    /// Number, hash and parent hash of `count` canonical blocks, beginning with `first`.
    pub(crate) async fn links(&self, first: u64, count: u64) -> Vec<ConfirmationView> {
        let mut links = Vec::new();
        for number in first..first + count {
            let block = self.call("eth_getBlockByNumber", json!([format!("{number:#x}"), false])).await;
            let text = |key: &str| block[key].as_str().unwrap().to_owned();
            links.push(ConfirmationView {
                block_number: number,
                block_hash: text("hash"),
                parent_hash: text("parentHash"),
            });
        }
        links
    }

    /// The mined transactions of an account by nonce, read from the blocks.
    pub(crate) async fn mined_of(&self, address: &str) -> BTreeMap<u64, Vec<String>> {
        let head = self.head().await;
        let mut mined: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for first in (0..=head).step_by(BLOCKS_AT_ONCE as usize) {
            let numbers = first..=head.min(first + BLOCKS_AT_ONCE - 1);
            let calls = numbers.clone().map(|block| {
                let params = json!([format!("{block:#x}"), true]);
                json!({ "jsonrpc": "2.0", "id": block, "method": "eth_getBlockByNumber", "params": params })
            });
            let answers = self.post(&self.url(), &Value::Array(calls.collect())).await;
            let answers = answers.as_array().unwrap();
            assert_eq!(answers.len(), numbers.count());
            for tx in answers.iter().flat_map(|answer| answer["result"]["transactions"].as_array().unwrap()) {
                if tx["from"].as_str().unwrap().eq_ignore_ascii_case(address) {
                    mined.entry(number(&tx["nonce"])).or_default().push(tx["hash"].as_str().unwrap().to_owned());
                }
            }
        }
        mined
    }
}

/// Repeats an action until a future ends. The last action is completed and not dropped, so that no block is mined after
/// the return.
pub(crate) async fn repeat_while<T>(until: impl Future<Output = T>, action: impl AsyncFn()) -> T {
    let is_done = AtomicBool::new(false);
    let until = async {
        let value = until.await;
        is_done.store(true, Ordering::SeqCst);
        value
    };
    let actions = async {
        while !is_done.load(Ordering::SeqCst) {
            action().await;
        }
    };
    tokio::join!(until, actions).0
}

fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}
