//! Orders about what is on its way: send it again, at this price; and what callers do not want any more at some time.

use std::time::Duration;

use gapless_testbed::Mining;
use gapless_wire::{
    AttemptKindName, AttemptView, Client, FeesPayload, ResubmitRequest, TxExpand, TxQuery, TxRequest, TxStateName,
    TxView,
};
use serde_json::json;

use crate::control::{Tally, blocks_at};
use crate::support::{Chain, Database, Ledger, Node, NodeConfig, create, eventually, transfer, wait_until_done};

const TO: &str = "0x00000000000000000000000000000000000a0141";
const BASE_FEE: u128 = 1_000_000_000;
const WAIT: Option<Duration> = Some(Duration::from_secs(60));
/// Nothing is sent again by itself.
const NEVER: &str = "10m";

struct Scene {
    chain: Chain,
    database: Database,
    node: Node,
}

impl Scene {
    /// One strict submitter, on a chain without blocks.
    async fn on(chain: Chain) -> Self {
        let database = Database::shared().await;
        chain.mine(1).await;
        let config = NodeConfig::new(&database.url, &chain.url(), &[0]).set("resubmit.interval", NEVER);
        Scene { node: Node::start("a", &config).await, chain, database }
    }

    fn client(&self) -> &Client {
        &self.node.client
    }

    async fn tx(&self, tx_id: &str) -> TxView {
        let query = TxQuery { expand: vec![TxExpand::Attempts], ..TxQuery::default() };
        self.client().tx(tx_id, &query).await.unwrap()
    }

    async fn attempts(&self, tx_id: &str) -> Vec<AttemptView> {
        self.tx(tx_id).await.attempts.unwrap()
    }

    /// Handed in, and in the pool.
    async fn in_flight(&self, request: &TxRequest) -> String {
        let tx_id = create(&[self.client()], 0, request).await.tx_id;
        self.has_sent(&tx_id, 0, 1).await;
        tx_id
    }

    /// One attempt of a transaction was sent so often.
    async fn has_sent(&self, tx_id: &str, ordinal: usize, sends: u32) {
        eventually("it is sent", async || (self.attempts(tx_id).await.get(ordinal)?.sends == sends).then_some(()))
            .await;
    }

    /// The bytes of all that was signed, in order.
    async fn signed(&self) -> Vec<Vec<u8>> {
        let query = "SELECT raw FROM tx_attempt ORDER BY nonce, ordinal";
        self.database.raw().await.query(query, &[]).await.unwrap().into_iter().map(|row| row.get(0)).collect()
    }

    async fn tally(&self) -> Tally {
        blocks_at(&self.chain, BASE_FEE, wait_until_done(self.client(), "s0")).await;
        Tally::of(&self.chain, &Ledger::read(self.client(), "s0").await).await
    }

    /// By the database's clock, so long from now.
    async fn time_in(&self, seconds: u32) -> String {
        let time = format!("clock_timestamp() AT TIME ZONE 'UTC' + interval '{seconds} s'");
        let query = format!("SELECT to_char({time}, 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')");
        self.database.raw().await.query_one(&query, &[]).await.unwrap().get(0)
    }
}

fn eip1559(max_fee: u128, tip: u128) -> ResubmitRequest {
    let (max_fee_per_gas, max_priority_fee_per_gas) = (Some(max_fee.to_string()), Some(tip.to_string()));
    ResubmitRequest { fees: Some(FeesPayload { max_fee_per_gas, max_priority_fee_per_gas, ..FeesPayload::default() }) }
}

fn offer(attempt: &AttemptView) -> (u128, u128) {
    let read = |text: &Option<String>| text.as_ref().unwrap().parse().unwrap();
    (read(&attempt.fees.max_fee_per_gas), read(&attempt.fees.max_priority_fee_per_gas))
}

/// proves F08, F01
#[tokio::test(flavor = "multi_thread")]
async fn a_resubmit_sends_the_same_bytes_and_at_a_price_it_sends_others_that_the_dev_chain_takes() {
    resubmits(Chain::dev(Mining::OnDemand).await).await;
}

/// proves F08, F01
#[tokio::test(flavor = "multi_thread")]
async fn a_resubmit_sends_the_same_bytes_and_at_a_price_it_sends_others_that_anvil_takes() {
    resubmits(Chain::start(Mining::OnDemand)).await;
}

/// proves F08, F01
#[tokio::test(flavor = "multi_thread")]
async fn a_resubmit_sends_the_same_bytes_and_at_a_price_it_sends_others_that_hardhat_takes() {
    resubmits(Chain::hardhat(Mining::OnDemand)).await;
}

/// proves S16, S15
#[tokio::test(flavor = "multi_thread")]
async fn what_expires_in_the_queue_fails_and_on_the_dev_chain_it_is_canceled() {
    expires(Chain::dev(Mining::OnDemand).await).await;
}

/// proves S16, S15
#[tokio::test(flavor = "multi_thread")]
async fn what_expires_in_the_queue_fails_and_on_anvil_it_is_canceled() {
    expires(Chain::start(Mining::OnDemand)).await;
}

/// proves S16, S15
#[tokio::test(flavor = "multi_thread")]
async fn what_expires_in_the_queue_fails_and_on_hardhat_it_is_canceled() {
    expires(Chain::hardhat(Mining::OnDemand)).await;
}

async fn resubmits(chain: Chain) {
    let scene = Scene::on(chain).await;
    let client = scene.client();
    let tx_id = scene.in_flight(&transfer("s0", "r", TO)).await;
    let signed = scene.signed().await;
    // The pool forgets it: that it is there again can only come from the same bytes.
    let first = scene.attempts(&tx_id).await.remove(0);
    scene.chain.call("hardhat_dropTransaction", json!([first.hash])).await;
    client.resubmit_tx(&tx_id, &ResubmitRequest::default(), WAIT).await.unwrap();
    scene.has_sent(&tx_id, 0, 2).await;
    assert_eq!(scene.signed().await, signed);
    let pooled = scene.chain.call("eth_getTransactionByHash", json!([first.hash])).await;
    assert_eq!(pooled["hash"].as_str(), Some(first.hash.as_str()), "it is not there again");

    // One wei less than what nodes want in either field is refused, and the refusal says how much it has to be.
    let (max_fee, tip) = offer(&first);
    let enough = ((max_fee * 1125).div_ceil(1000), (tip * 1125).div_ceil(1000).max(tip + 1));
    for little in [eip1559(enough.0 - 1, enough.1), eip1559(enough.0, enough.1 - 1)] {
        let refused = client.resubmit_tx(&tx_id, &little, WAIT).await.unwrap_err();
        let problem = refused.problem().unwrap();
        let detail = problem.detail.as_deref().unwrap();
        assert_eq!(problem.code, "refused");
        for least in [enough.0, enough.1] {
            assert!(detail.contains(&least.to_string()), "{least} is not in {detail:?}");
        }
    }
    assert_eq!(scene.signed().await, signed);
    let taken = client.resubmit_tx(&tx_id, &eip1559(enough.0, enough.1), WAIT).await.unwrap();
    scene.has_sent(&tx_id, 1, 1).await;
    let attempts = scene.attempts(&tx_id).await;
    assert_eq!((attempts.len(), attempts[1].kind, offer(&attempts[1])), (2, AttemptKindName::Bump, enough));
    assert!(taken.result.unwrap().contains(&attempts[1].hash));
    assert_eq!(attempts[1].last_outcome.as_ref().unwrap().code, "accepted", "the node's rule is another");
    let tally = scene.tally().await;
    assert_eq!((tally.confirmed, scene.tx(&tx_id).await.hash), (1, Some(attempts[1].hash.clone())));
    let refused = client.resubmit_tx(&tx_id, &ResubmitRequest::default(), WAIT).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "already_final");
    assert_eq!(scene.chain.balance(TO).await, 1);
}

/// What waits in line fails by itself, what is in flight is canceled by the chain, and the one behind them goes on.
async fn expires(chain: Chain) {
    let scene = Scene::on(chain).await;
    let until = async |request_id: &str, seconds| {
        let valid_until = Some(scene.time_in(seconds).await);
        TxRequest { valid_until, ..transfer("s0", request_id, TO) }
    };
    let flying = scene.in_flight(&until("flying", 5).await).await;
    let waiting = create(&[scene.client()], 0, &until("waiting", 3).await).await.tx_id;
    let last = create(&[scene.client()], 0, &until("last", 600).await).await.tx_id;
    let failed = eventually("it fails in the queue", async || {
        let tx = scene.tx(&waiting).await;
        tx.state.is_terminal().then_some(tx)
    })
    .await;
    assert_eq!((failed.state, failed.reason.unwrap().code.as_str()), (TxStateName::FailedFinal, "expired"));
    assert_eq!((failed.nonce, failed.attempts), (None, Some(vec![])));
    scene.has_sent(&flying, 1, 1).await;
    assert_eq!(scene.attempts(&flying).await[1].kind, AttemptKindName::Cancel);
    assert!(!scene.tx(&flying).await.state.is_terminal(), "the chain has not decided");
    assert_eq!(scene.tx(&last).await.state, TxStateName::Queued);

    blocks_at(&scene.chain, BASE_FEE, wait_until_done(scene.client(), "s0")).await;
    let (flying, last) = (scene.tx(&flying).await, scene.tx(&last).await);
    assert_eq!((flying.state, flying.reason.unwrap().code.as_str()), (TxStateName::Canceled, "expired"));
    assert_eq!((last.state, flying.nonce, last.nonce), (TxStateName::Confirmed, Some(0), Some(1)));
    let address = scene.client().submitter("s0", &[]).await.unwrap().submitter;
    let mined = scene.chain.mined_of(address.rsplit(':').next().unwrap()).await;
    assert_eq!(mined.into_iter().collect::<Vec<_>>(), [(0, vec![flying.hash.unwrap()]), (1, vec![last.hash.unwrap()])]);
    assert_eq!(scene.chain.balance(TO).await, 1);
}
