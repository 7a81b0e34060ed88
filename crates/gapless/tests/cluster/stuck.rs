//! Stuck intents: the decisions of the webhook, waiting for a lower price, and the diagnosis of mempools.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use futures_util::future::join;
use gapless_testbed::Mining;
use gapless_wire::{AttemptKindName, MempoolSignalName, StuckCaseView, TxExpand, TxQuery, TxStateName, TxView};
use serde_json::json;

use crate::intent_outcomes::{IntentOutcomes, block_at, blocks_at};
use crate::support::{
    NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create, eventually, transfer,
    wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0151";
const NORMAL: u128 = 1_000_000_000;
const SPIKE: u128 = 20 * NORMAL;
const TRIES: u16 = 2;

/// A webhook that decides `wait` at the first call, and then `bump`.
#[derive(Clone, Debug, Default)]
struct TestWebhook(Arc<Mutex<Vec<StuckCaseView>>>);

impl TestWebhook {
    /// Starts the webhook and returns its URL.
    async fn start(&self) -> String {
        let router = Router::new().route("/decide", post(answer)).with_state(self.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}/decide")
    }

    fn cases(&self) -> Vec<StuckCaseView> {
        self.0.lock().unwrap().clone()
    }
}

async fn answer(State(webhook_server): State<TestWebhook>, body: String) -> String {
    let mut cases = webhook_server.0.lock().unwrap();
    cases.push(serde_json::from_str(&body).unwrap());
    let decision = if cases.len() == 1 { "wait" } else { "bump" };
    format!("{{\"decision\": {decision:?}}}")
}

/// One submitter with its own node and database, and one intent in the pool at the normal price.
struct SubmitterSetup {
    database: TestDatabase,
    node: NodeProcess,
    submitter: String,
    tx_id: String,
}

impl SubmitterSetup {
    async fn start(chain: &TestChain, account: u32, webhook: &str) -> Self {
        let (database, submitter) = (TestDatabase::shared().await, format!("s{account}"));
        let config = TestNodeConfig::new(&database.url, &chain.url(), &[account])
            .set("resubmit.interval", "1s")
            .set("lane.account_interval", "250ms")
            .set("stuck.after_tries", &TRIES.to_string())
            .set("stuck.ask_interval", "1s")
            .set("stuck.webhook", webhook)
            .set("mempool.diagnose", "true");
        let node = NodeProcess::start(&submitter, &config).await;
        let tx_id = create(&[&node.client], 0, &transfer(&submitter, "r", TO)).await.tx_id;
        let setup = SubmitterSetup { database, node, submitter, tx_id };
        eventually("the intent is in TRACKING", async || {
            (setup.tx().await.state == TxStateName::Tracking).then_some(())
        })
        .await;
        setup
    }

    async fn tx(&self) -> TxView {
        let expand = vec![TxExpand::Attempts, TxExpand::Events];
        self.node.client.tx(&self.tx_id, &TxQuery { expand, ..TxQuery::default() }).await.unwrap()
    }

    async fn wait_for_signal(&self, signal: MempoolSignalName) {
        eventually(&format!("the signal is {signal}"), async || (self.tx().await.signal == Some(signal)).then_some(()))
            .await;
    }

    async fn wait_until_stuck(&self) -> TxView {
        let stuck = async || Some(self.tx().await).filter(|tx| tx.state == TxStateName::Stuck);
        eventually("the intent is stuck", stuck).await
    }

    async fn wait_until_done(&self) {
        wait_until_done(&self.node.client, &self.submitter).await;
    }

    /// Asserts that the intent was stuck and is CONFIRMED, with this number of attempts and a mined attempt of this
    /// kind.
    async fn assert_confirmed(&self, chain: &TestChain, kind: AttemptKindName, attempts: usize) {
        let ledger = SubmitterLedger::read(&self.node.client, &self.submitter).await;
        assert_eq!(IntentOutcomes::of(chain, &ledger).await.confirmed, 1);
        let tx = self.tx().await;
        assert_eq!((tx.attempts.unwrap().len(), tx.receipt.unwrap().attempt_kind), (attempts, kind));
        assert!(tx.events.unwrap().iter().any(|event| event.state == TxStateName::Stuck));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_intent_is_bumped_by_webhook_and_waits_without_one() {
    let chain = TestChain::dev(Mining::OnDemand).await;
    block_at(&chain, NORMAL).await;
    let webhook_server = TestWebhook::default();
    let webhook = webhook_server.start().await;
    let (asking, waiting) =
        join(SubmitterSetup::start(&chain, 0, &webhook), SubmitterSetup::start(&chain, 1, "")).await;
    let (_, stuck) = blocks_at(&chain, SPIKE, join(asking.wait_until_done(), waiting.wait_until_stuck())).await;

    let cases = webhook_server.cases();
    // The webhook is asked again after `wait`, and once more if the bump is stuck too. Each decision `bump` is one
    // bump.
    assert!(cases.len() >= 2, "{cases:?}");
    asking.assert_confirmed(&chain, AttemptKindName::Bump, cases.len()).await;
    for case in &cases[..2] {
        assert_eq!((case.tx_id.as_str(), case.nonce, case.request_id.as_str()), (asking.tx_id.as_str(), 0, "r"));
        assert_eq!((case.reason.as_str(), case.attempts.len()), ("out_of_tries", 1));
        assert!(case.tries >= TRIES, "{case:?}");
    }
    let decided = "SELECT count(*) FROM audit_log WHERE action = 'decide'";
    assert_eq!(
        (asking.database.count(decided).await, waiting.database.count(decided).await),
        (cases.len() as i64 - 1, 0)
    );

    // Without a webhook the same bytes are sent again.
    assert_eq!(stuck.reason.unwrap().code, "out_of_tries");
    let before = chain.head().await;
    blocks_at(
        &chain,
        SPIKE,
        eventually("20 more blocks are mined", async || (chain.head().await >= before + 20).then_some(())),
    )
    .await;
    let still = waiting.tx().await;
    assert_eq!((still.state, still.attempts.unwrap().len()), (TxStateName::Stuck, 1));
    blocks_at(&chain, NORMAL, waiting.wait_until_done()).await;
    waiting.assert_confirmed(&chain, AttemptKindName::Original, 1).await;
    assert_eq!(chain.balance(TO).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn mempool_signal_is_shown_and_dropped_bytes_are_resent() {
    let chain = TestChain::dev(Mining::OnDemand).await;
    block_at(&chain, NORMAL).await;
    let setup = SubmitterSetup::start(&chain, 0, "").await;
    setup.wait_for_signal(MempoolSignalName::InMempool).await;
    let hash = setup.tx().await.hash.unwrap();
    chain.call("anvil_dropTransaction", json!([hash])).await;
    setup.wait_for_signal(MempoolSignalName::LikelyDropped).await;
    // The signal proves nothing: the same bytes are sent again, and nothing else happens.
    setup.wait_for_signal(MempoolSignalName::InMempool).await;
    let tx = setup.tx().await;
    assert_eq!((tx.state, tx.attempts.unwrap().len()), (TxStateName::Tracking, 1));
    assert_eq!(chain.call("eth_getTransactionByHash", json!([hash])).await["hash"].as_str(), Some(hash.as_str()));
    blocks_at(&chain, NORMAL, setup.wait_until_done()).await;
    let diagnosed = "SELECT count(*) FROM tx_event WHERE kind = 'diagnosed'";
    assert!(setup.database.count(diagnosed).await >= 3, "a change of the signal has no event");
    assert_eq!((setup.tx().await.hash, chain.balance(TO).await), (Some(hash), 1));
}
