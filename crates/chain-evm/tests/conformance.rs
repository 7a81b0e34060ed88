//! The conformance suite of the chain contract, on the dev chain, anvil and Hardhat. Each node is behind a proxy, which
//! can cut the connection.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gapless_chain::Chain;
use gapless_chain::conformance::{Ability, Harness, Lack, run_all};
use gapless_chain_evm::{EvmChain, EvmChainOptions, LocalSigner};
use gapless_devchain::rpc::{Clock, RpcLimits, RpcServer, serve};
use gapless_devchain::{DevChain, Genesis};
use gapless_domain::{Action, B256, EvmCall, Fees, Nonce, SignedTx, SubmitterId, TxPlan};
use gapless_testbed::{Anvil, AnvilOptions, FaultProxy, HardhatNode, HardhatOptions, Mining};
use serde_json::json;
use support::{CHAIN, ask_node, plan, signed_by, signer, submitter};
use tokio::task::JoinSet;

/// The accounts of one node. Every case takes its own.
const ACCOUNTS: u32 = 48;
/// 1,000 ether.
const BALANCE: &str = "0x3635c9adc5dea00000";

const NO_REORG: &[(Ability, Lack)] = &[(Ability::Reorg, Lack("Hardhat has no request for a reorg"))];

/// A node that makes blocks on demand.
enum Node {
    DevChain(#[expect(dead_code, reason = "held only for its Drop")] JoinSet<()>),
    Anvil(#[expect(dead_code, reason = "held only for its Drop")] Anvil),
    Hardhat(#[expect(dead_code, reason = "held only for its Drop")] HardhatNode),
}

struct EvmHarness {
    chain: Arc<EvmChain>,
    keys: Vec<LocalSigner>,
    proxy: FaultProxy,
    /// The URL of the node itself, which the proxy does not cut.
    url: String,
    next_account: AtomicU32,
    node: Node,
}

impl EvmHarness {
    fn new(port: u16, node: Node) -> Self {
        let proxy = FaultProxy::start(port).unwrap();
        let url = format!("http://127.0.0.1:{}", proxy.port()).parse().unwrap();
        let mut options = EvmChainOptions::new(format!("eip155:{CHAIN}").parse().unwrap(), vec![url]);
        options.rpc_timeout = Duration::from_secs(10);
        let chain = Arc::new(EvmChain::connect(options).unwrap());
        let keys = (0..ACCOUNTS).map(signer).collect();
        EvmHarness {
            chain,
            keys,
            proxy,
            url: format!("http://127.0.0.1:{port}"),
            next_account: AtomicU32::new(0),
            node,
        }
    }

    async fn on_devchain() -> Self {
        let server = RpcServer::new(DevChain::new(Genesis::dev()), Clock::Wall, None, RpcLimits::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut serving = JoinSet::new();
        serving.spawn(async move { serve(listener, server, std::future::pending()).await.unwrap() });
        EvmHarness::new(port, Node::DevChain(serving))
    }

    fn on_anvil() -> Self {
        let anvil = Anvil::start(AnvilOptions { mining: Mining::OnDemand, ..AnvilOptions::default() }).unwrap();
        EvmHarness::new(anvil.port(), Node::Anvil(anvil))
    }

    fn on_hardhat() -> Self {
        let options = HardhatOptions { mining: Mining::OnDemand, ..HardhatOptions::default() };
        let hardhat = HardhatNode::start(options).unwrap();
        EvmHarness::new(hardhat.port(), Node::Hardhat(hardhat))
    }
}

#[async_trait]
impl Harness for EvmHarness {
    fn chain(&self) -> Arc<dyn Chain> {
        self.chain.clone()
    }

    async fn account(&self) -> SubmitterId {
        let account = submitter(self.next_account.fetch_add(1, Ordering::Relaxed));
        ask_node(&self.url, "hardhat_setBalance", json!([account.evm_address(), BALANCE])).await;
        account
    }

    async fn sign(&self, plan: &TxPlan) -> SignedTx {
        signed_by(&self.chain, &self.keys, plan).await
    }

    async fn send_foreign(&self, from: &SubmitterId, nonce: Nonce) -> B256 {
        let fees = Fees::Eip1559 { max_fee: 30_000_000_000, max_priority_fee: 2_000_000_000 };
        let tx = self.sign(&TxPlan { submitter: from.clone(), nonce, fees, ..plan(0) }).await;
        ask_node(&self.url, "eth_sendRawTransaction", json!([tx.raw])).await;
        tx.hash
    }

    async fn mine(&self) {
        ask_node(&self.url, "evm_mine", json!([])).await;
    }

    async fn reverting_action(&self, _: &SubmitterId) -> Action {
        self.failing_action()
    }

    /// Initcode that reverts: PUSH1 8, PUSH1 0, MSTORE8, PUSH1 1, PUSH1 0, REVERT.
    fn failing_action(&self) -> Action {
        EvmCall { to: None, data: "0x600860005360016000fd".parse().unwrap(), ..EvmCall::default() }.into()
    }

    async fn reorg(&self) -> Result<(), Lack> {
        if let Some((_, lack)) = self.lacks().iter().find(|(ability, _)| *ability == Ability::Reorg) {
            return Err(*lack);
        }
        ask_node(&self.url, "anvil_reorg", json!([1, []])).await;
        Ok(())
    }

    async fn cut(&self) -> Result<(), Lack> {
        self.proxy.drop_all();
        Ok(())
    }

    async fn restore(&self) {
        self.proxy.heal();
    }

    fn lacks(&self) -> &'static [(Ability, Lack)] {
        match self.node {
            Node::DevChain(_) | Node::Anvil(_) => &[],
            Node::Hardhat(_) => NO_REORG,
        }
    }
}

mod on_devchain {
    use super::*;

    gapless_chain::conformance_suite!(EvmHarness::on_devchain().await);
}

#[tokio::test]
async fn anvil_passes_the_conformance_suite() {
    run_all(&EvmHarness::on_anvil()).await;
}

#[tokio::test]
async fn hardhat_passes_the_conformance_suite() {
    run_all(&EvmHarness::on_hardhat()).await;
}
