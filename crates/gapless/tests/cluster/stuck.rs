//! What is not mined: pools are looked into, somebody is asked, or it waits until it is cheap enough.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use futures_util::future::join;
use gapless_testbed::Mining;
use gapless_wire::{AttemptKindName, MempoolSignalName, StuckCaseView, TxExpand, TxQuery, TxStateName, TxView};
use serde_json::json;

use crate::control::{Tally, block_at, blocks_at};
use crate::support::{Chain, Database, Ledger, Node, NodeConfig, create, eventually, transfer, wait_until_done};

const TO: &str = "0x00000000000000000000000000000000000a0151";
const NORMAL: u128 = 1_000_000_000;
const SPIKE: u128 = 20 * NORMAL;
const TRIES: u16 = 2;

/// Who decides: says `wait` when it is asked first, then `bump`.
#[derive(Clone, Debug, Default)]
struct Desk(Arc<Mutex<Vec<StuckCaseView>>>);

impl Desk {
    /// Its address.
    async fn opened(&self) -> String {
        let router = Router::new().route("/decide", post(answer)).with_state(self.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}/decide")
    }

    fn asked(&self) -> Vec<StuckCaseView> {
        self.0.lock().unwrap().clone()
    }
}

async fn answer(State(desk): State<Desk>, body: String) -> String {
    let mut asked = desk.0.lock().unwrap();
    asked.push(serde_json::from_str(&body).unwrap());
    let decision = if asked.len() == 1 { "wait" } else { "bump" };
    format!("{{\"decision\": {decision:?}}}")
}

/// One intent of a submitter with a node and a database of its own, in the pool at the normal price.
struct House {
    database: Database,
    node: Node,
    submitter: String,
    tx_id: String,
}

impl House {
    async fn built(chain: &Chain, account: u32, webhook: &str) -> Self {
        let (database, submitter) = (Database::shared().await, format!("s{account}"));
        let config = NodeConfig::new(&database.url, &chain.url(), &[account])
            .set("resubmit.interval", "1s")
            .set("lane.account_interval", "250ms")
            .set("stuck.after_tries", &TRIES.to_string())
            .set("stuck.ask_interval", "1s")
            .set("stuck.webhook", webhook)
            .set("mempool.diagnose", "true");
        let node = Node::start(&submitter, &config).await;
        let tx_id = create(&[&node.client], 0, &transfer(&submitter, "r", TO)).await.tx_id;
        let house = House { database, node, submitter, tx_id };
        eventually("it is in the pool", async || (house.tx().await.state == TxStateName::Tracking).then_some(())).await;
        house
    }

    async fn tx(&self) -> TxView {
        let expand = vec![TxExpand::Attempts, TxExpand::Events];
        self.node.client.tx(&self.tx_id, &TxQuery { expand, ..TxQuery::default() }).await.unwrap()
    }

    async fn shows(&self, signal: MempoolSignalName) {
        eventually(&format!("pools show {signal}"), async || (self.tx().await.signal == Some(signal)).then_some(()))
            .await;
    }

    async fn is_stuck(&self) -> TxView {
        eventually("it is stuck", async || Some(self.tx().await).filter(|tx| tx.state == TxStateName::Stuck)).await
    }

    async fn is_done(&self) {
        wait_until_done(&self.node.client, &self.submitter).await;
    }

    /// CONFIRMED by the last of so many attempts, after it was stuck.
    async fn assert_confirmed(&self, chain: &Chain, kind: AttemptKindName, attempts: usize) {
        let ledger = Ledger::read(&self.node.client, &self.submitter).await;
        assert_eq!(Tally::of(chain, &ledger).await.confirmed, 1);
        let tx = self.tx().await;
        assert_eq!((tx.attempts.unwrap().len(), tx.receipt.unwrap().attempt_kind), (attempts, kind));
        assert!(tx.events.unwrap().iter().any(|event| event.state == TxStateName::Stuck));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stuck_is_raised_if_somebody_says_so_and_waits_until_the_chain_moves_if_nobody_does() {
    let chain = Chain::dev(Mining::OnDemand).await;
    block_at(&chain, NORMAL).await;
    let desk = Desk::default();
    let webhook = desk.opened().await;
    let (asking, waiting) = join(House::built(&chain, 0, &webhook), House::built(&chain, 1, "")).await;
    let (_, stuck) = blocks_at(&chain, SPIKE, join(asking.is_done(), waiting.is_stuck())).await;

    let asked = desk.asked();
    // It is asked again after it has said `wait`; once more only if the raise, too, has waited for long. Each `bump` is a raise.
    assert!(asked.len() >= 2, "{asked:?}");
    asking.assert_confirmed(&chain, AttemptKindName::Bump, asked.len()).await;
    for case in &asked[..2] {
        assert_eq!((case.tx_id.as_str(), case.nonce, case.request_id.as_str()), (asking.tx_id.as_str(), 0, "r"));
        assert_eq!((case.reason.as_str(), case.attempts.len()), ("out_of_tries", 1));
        assert!(case.tries >= TRIES, "{case:?}");
    }
    let decided = "SELECT count(*) FROM audit_log WHERE action = 'decide'";
    assert_eq!(
        (asking.database.count(decided).await, waiting.database.count(decided).await),
        (asked.len() as i64 - 1, 0)
    );

    // Nobody is asked: it is sent again as it is, and that is all.
    assert_eq!(stuck.reason.unwrap().code, "out_of_tries");
    let before = chain.head().await;
    blocks_at(
        &chain,
        SPIKE,
        eventually("many more blocks", async || (chain.head().await >= before + 20).then_some(())),
    )
    .await;
    let still = waiting.tx().await;
    assert_eq!((still.state, still.attempts.unwrap().len()), (TxStateName::Stuck, 1));
    blocks_at(&chain, NORMAL, waiting.is_done()).await;
    waiting.assert_confirmed(&chain, AttemptKindName::Original, 1).await;
    assert_eq!(chain.balance(TO).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pools_show_is_told_and_what_they_have_forgotten_is_given_to_them_again() {
    let chain = Chain::dev(Mining::OnDemand).await;
    block_at(&chain, NORMAL).await;
    let house = House::built(&chain, 0, "").await;
    house.shows(MempoolSignalName::InMempool).await;
    let hash = house.tx().await.hash.unwrap();
    chain.call("anvil_dropTransaction", json!([hash])).await;
    house.shows(MempoolSignalName::LikelyDropped).await;
    // It proves nothing: the same bytes go to the pools once more, and nothing else is made of it.
    house.shows(MempoolSignalName::InMempool).await;
    let tx = house.tx().await;
    assert_eq!((tx.state, tx.attempts.unwrap().len()), (TxStateName::Tracking, 1));
    assert_eq!(chain.call("eth_getTransactionByHash", json!([hash])).await["hash"].as_str(), Some(hash.as_str()));
    blocks_at(&chain, NORMAL, house.is_done()).await;
    let told = "SELECT count(*) FROM tx_event WHERE kind = 'diagnosed'";
    assert!(house.database.count(told).await >= 3, "each change is told");
    assert_eq!((house.tx().await.hash, chain.balance(TO).await), (Some(hash), 1));
}
