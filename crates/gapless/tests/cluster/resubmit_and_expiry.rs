//! Resubmit commands, and intents with an expiry time.

use std::time::Duration;

use gapless_testbed::Mining;
use gapless_wire::{
    AttemptKindName, AttemptView, Client, FeesPayload, ResubmitRequest, TxExpand, TxQuery, TxRequest, TxStateName,
    TxView,
};
use serde_json::json;

use crate::intent_outcomes::{IntentOutcomes, blocks_at};
use crate::support::{
    NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create, eventually, transfer,
    wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0141";
const BASE_FEE: u128 = 1_000_000_000;
const WAIT: Option<Duration> = Some(Duration::from_secs(60));
/// Too long for an automatic resend.
const NEVER: &str = "10m";

struct OneSubmitter {
    chain: TestChain,
    database: TestDatabase,
    node: NodeProcess,
}

impl OneSubmitter {
    /// Starts one strict submitter on a chain that mines only on demand.
    async fn on(chain: TestChain) -> Self {
        let database = TestDatabase::shared().await;
        chain.mine(1).await;
        let config = TestNodeConfig::new(&database.url, &chain.url(), &[0]).set("resubmit.interval", NEVER);
        OneSubmitter { node: NodeProcess::start("a", &config).await, chain, database }
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

    /// Creates an intent and waits until it is in the pool.
    async fn in_flight(&self, request: &TxRequest) -> String {
        let tx_id = create(&[self.client()], 0, request).await.tx_id;
        self.wait_for_sends(&tx_id, 0, 1).await;
        tx_id
    }

    /// Waits until an attempt was sent this number of times.
    async fn wait_for_sends(&self, tx_id: &str, ordinal: usize, sends: u32) {
        eventually("the attempt is sent", async || {
            (self.attempts(tx_id).await.get(ordinal)?.sends == sends).then_some(())
        })
        .await;
    }

    /// The bytes of all attempts, in order.
    async fn signed(&self) -> Vec<Vec<u8>> {
        let query = "SELECT raw FROM tx_attempt ORDER BY nonce, ordinal";
        self.database.raw().await.query(query, &[]).await.unwrap().into_iter().map(|row| row.get(0)).collect()
    }

    async fn outcomes(&self) -> IntentOutcomes {
        blocks_at(&self.chain, BASE_FEE, wait_until_done(self.client(), "s0")).await;
        IntentOutcomes::of(&self.chain, &SubmitterLedger::read(self.client(), "s0").await).await
    }

    /// A time in the future by the database's clock.
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

fn fees(attempt: &AttemptView) -> (u128, u128) {
    let read = |text: &Option<String>| text.as_ref().unwrap().parse().unwrap();
    (read(&attempt.fees.max_fee_per_gas), read(&attempt.fees.max_priority_fee_per_gas))
}

/// proves F08, F01
#[tokio::test(flavor = "multi_thread")]
async fn resubmit_resends_or_bumps_on_dev_chain() {
    resubmits(TestChain::dev(Mining::OnDemand).await).await;
}

/// proves F08, F01
#[tokio::test(flavor = "multi_thread")]
async fn resubmit_resends_or_bumps_on_anvil() {
    resubmits(TestChain::start(Mining::OnDemand)).await;
}

/// proves F08, F01
#[tokio::test(flavor = "multi_thread")]
async fn resubmit_resends_or_bumps_on_hardhat() {
    resubmits(TestChain::hardhat(Mining::OnDemand)).await;
}

/// proves S16, S15
#[tokio::test(flavor = "multi_thread")]
async fn expired_intent_fails_or_is_canceled_on_dev_chain() {
    expires(TestChain::dev(Mining::OnDemand).await).await;
}

/// proves S16, S15
#[tokio::test(flavor = "multi_thread")]
async fn expired_intent_fails_or_is_canceled_on_anvil() {
    expires(TestChain::start(Mining::OnDemand)).await;
}

/// proves S16, S15
#[tokio::test(flavor = "multi_thread")]
async fn expired_intent_fails_or_is_canceled_on_hardhat() {
    expires(TestChain::hardhat(Mining::OnDemand)).await;
}

async fn resubmits(chain: TestChain) {
    let setup = OneSubmitter::on(chain).await;
    let client = setup.client();
    let tx_id = setup.in_flight(&transfer("s0", "r", TO)).await;
    let signed = setup.signed().await;
    // The pool drops the transaction, so only the same bytes can bring its hash back.
    let first = setup.attempts(&tx_id).await.remove(0);
    setup.chain.call("hardhat_dropTransaction", json!([first.hash])).await;
    client.resubmit_tx(&tx_id, &ResubmitRequest::default(), WAIT).await.unwrap();
    setup.wait_for_sends(&tx_id, 0, 2).await;
    assert_eq!(setup.signed().await, signed);
    let pooled = setup.chain.call("eth_getTransactionByHash", json!([first.hash])).await;
    assert_eq!(pooled["hash"].as_str(), Some(first.hash.as_str()), "the transaction is not in the pool again");

    // One wei below the required step in either field is refused, and the refusal names the required fees.
    let (max_fee, tip) = fees(&first);
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
    assert_eq!(setup.signed().await, signed);
    let taken = client.resubmit_tx(&tx_id, &eip1559(enough.0, enough.1), WAIT).await.unwrap();
    setup.wait_for_sends(&tx_id, 1, 1).await;
    let attempts = setup.attempts(&tx_id).await;
    assert_eq!((attempts.len(), attempts[1].kind, fees(&attempts[1])), (2, AttemptKindName::Bump, enough));
    assert!(taken.result.unwrap().contains(&attempts[1].hash));
    assert_eq!(attempts[1].last_outcome.as_ref().unwrap().code, "accepted", "the chain node has another rule");
    let outcomes = setup.outcomes().await;
    assert_eq!((outcomes.confirmed, setup.tx(&tx_id).await.hash), (1, Some(attempts[1].hash.clone())));
    let refused = client.resubmit_tx(&tx_id, &ResubmitRequest::default(), WAIT).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "already_final");
    assert_eq!(setup.chain.balance(TO).await, 1);
}

/// An expired intent in the queue fails, an expired intent in flight is canceled on chain, and the next intent is
/// confirmed.
async fn expires(chain: TestChain) {
    let setup = OneSubmitter::on(chain).await;
    let until = async |request_id: &str, seconds| {
        let valid_until = Some(setup.time_in(seconds).await);
        TxRequest { valid_until, ..transfer("s0", request_id, TO) }
    };
    let in_flight = setup.in_flight(&until("in_flight", 5).await).await;
    let waiting = create(&[setup.client()], 0, &until("waiting", 3).await).await.tx_id;
    let last = create(&[setup.client()], 0, &until("last", 600).await).await.tx_id;
    let failed = eventually("the queued intent has ended", async || {
        let tx = setup.tx(&waiting).await;
        tx.state.is_terminal().then_some(tx)
    })
    .await;
    assert_eq!((failed.state, failed.reason.unwrap().code.as_str()), (TxStateName::FailedFinal, "expired"));
    assert_eq!((failed.nonce, failed.attempts), (None, Some(vec![])));
    setup.wait_for_sends(&in_flight, 1, 1).await;
    assert_eq!(setup.attempts(&in_flight).await[1].kind, AttemptKindName::Cancel);
    assert!(!setup.tx(&in_flight).await.state.is_terminal(), "the intent ended before the chain decided");
    assert_eq!(setup.tx(&last).await.state, TxStateName::Queued);

    blocks_at(&setup.chain, BASE_FEE, wait_until_done(setup.client(), "s0")).await;
    let (in_flight, last) = (setup.tx(&in_flight).await, setup.tx(&last).await);
    assert_eq!((in_flight.state, in_flight.reason.unwrap().code.as_str()), (TxStateName::Canceled, "expired"));
    assert_eq!((last.state, in_flight.nonce, last.nonce), (TxStateName::Confirmed, Some(0), Some(1)));
    let address = setup.client().submitter("s0", &[]).await.unwrap().submitter;
    let mined = setup.chain.mined_of(address.rsplit(':').next().unwrap()).await;
    assert_eq!(
        mined.into_iter().collect::<Vec<_>>(),
        [(0, vec![in_flight.hash.unwrap()]), (1, vec![last.hash.unwrap()])]
    );
    assert_eq!(setup.chain.balance(TO).await, 1);
}
