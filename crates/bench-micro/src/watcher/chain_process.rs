//! The dev chain in a process of its own: this program again, controlled by lines on its standard input. The end of the
//! input ends the process.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use gapless_devchain::rpc::{Clock, DEFAULT_ENDPOINT, RpcLimits, RpcServer, serve as serve_rpc};
use gapless_devchain::{DevChain, Genesis, PoolLimits};
use serde_json::{Value, json};

/// The argument that makes this program the chain.
pub(crate) const CHAIN_ARGUMENT: &str = "serve-chain";
/// The chain starts with so many blocks of one second, so that the learned block time is a second.
const PAST_BLOCKS: u64 = 200;
const PARTING: &str = "the chain's process has ended";

pub(crate) struct ChainProcess {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    port: u64,
}

impl ChainProcess {
    pub(crate) fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child =
            command.arg(CHAIN_ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starting a chain");
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child, orders, answers, port: 0 };
        process.port = process.answer().as_u64().unwrap();
        process
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Makes a block without transactions.
    pub(crate) fn mine_empty(&mut self) {
        self.order("mine-empty");
    }

    /// Makes a block from the pool.
    pub(crate) fn mine(&mut self) {
        self.order("mine");
    }

    pub(crate) fn pool(&mut self) -> usize {
        usize::try_from(self.order("pool").as_u64().unwrap()).unwrap()
    }

    pub(crate) fn head(&mut self) -> u64 {
        self.order("head").as_u64().unwrap()
    }

    /// Number of calls so far, by method.
    pub(crate) fn calls(&mut self) -> BTreeMap<String, u64> {
        let answer = self.order("calls");
        answer.as_object().unwrap().iter().map(|(method, count)| (method.clone(), count.as_u64().unwrap())).collect()
    }

    fn order(&mut self, order: &str) -> Value {
        writeln!(self.orders.as_mut().unwrap(), "{order}").expect(PARTING);
        self.answer()
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).expect(PARTING)
    }
}

impl Drop for ChainProcess {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

/// The main loop of the chain process.
pub(crate) fn serve() {
    let mut genesis = Genesis::dev();
    genesis.limits.pool = PoolLimits::for_benchmarks();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    genesis.timestamp = now - PAST_BLOCKS;
    let chain = DevChain::new(genesis);
    chain.mine_many(PAST_BLOCKS, 1).unwrap();
    let server = RpcServer::new(chain.clone(), Clock::Wall, None, RpcLimits::default());
    let counted = server.endpoint(DEFAULT_ENDPOINT).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let orders = std::thread::spawn(move || {
        for order in std::io::stdin().lines().map_while(Result::ok) {
            let answer = match order.as_str() {
                "mine" => json!(chain.mine_now().unwrap().number()),
                "mine-empty" => json!(chain.mine_empty().unwrap().number()),
                "head" => json!(chain.view().head().number()),
                "pool" => json!(chain.view().pool_status().pending),
                "calls" => json!(counted.calls()),
                _ => Value::Null,
            };
            println!("{answer}");
        }
        drop(end);
    });
    let shutdown = async {
        let _ = ended.await;
    };
    runtime.block_on(serve_rpc(listener, server, shutdown)).unwrap();
    orders.join().unwrap();
}
