//! Accounts without enough funds, which are funded later.

use futures_util::future::join_all;
use gapless_testbed::Mining;
use gapless_wire::{CallPayload, Client, FeesPayload, Quantity, SubStateName, TxRequest, TxStateName};
use serde_json::json;

use crate::support::{
    AcceptedRequest, AccountKey, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create,
    eventually, start_three_nodes, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0111";
const INTENTS: usize = 8;
const GAS: u64 = 21_000;
const GAS_PRICE: u64 = 10_000_000_000;
/// The exact cost of one transaction, because the caller sets its price.
const COST: u64 = GAS * GAS_PRICE + 1;
const ONE_ETHER: u64 = 1_000_000_000_000_000_000;
/// Too long for a periodic read of the balance, so that only reads because of a shortage happen.
const NEVER: &str = "10m";
/// The promise is about two seconds; the limit leaves room for a busy machine.
const SECONDS_MAX: f64 = 15.0;

/// proves S17, S18
#[tokio::test(flavor = "multi_thread")]
async fn unpayable_intents_are_not_bound_until_the_account_is_funded() {
    const PAYABLE: u64 = 3;
    let (database, chain) = (TestDatabase::shared().await, TestChain::start(Mining::OnDemand));
    set_balance(&chain, PAYABLE * COST + COST / 2).await;
    let nodes = start_three_nodes(&config(&database, &chain)).await;
    let accepted = create_intents(&nodes).await;
    for node in &nodes {
        let counts = eventually("every node shows a low balance", async || {
            let view = node.client.submitter("s0", &[]).await.ok()?;
            view.low_balance.then_some((u64::from(view.open), view.queued as usize))
        })
        .await;
        assert_eq!(counts, (PAYABLE, INTENTS - PAYABLE as usize));
    }
    assert_eq!(events(&database, "low_balance").await, 1);
    // The payable transactions are mined, and the rest of the balance is too small for another.
    chain.mine_while(eventually("no intent is open", async || has_open(&nodes[1].client, 0).await)).await;
    chain.mine(5).await;
    assert_eq!(chain.balance(TO).await, PAYABLE);
    assert_eq!(events(&database, "balance_restored").await, 0);

    let funded_at = database.now().await;
    set_balance(&chain, ONE_ETHER).await;
    chain.mine_while(wait_until_done(&nodes[0].client, "s0")).await;
    SubmitterLedger::read(&nodes[2].client, "s0").await.assert_exactly_once(&chain, &accepted).await;
    assert_eq!(chain.balance(TO).await, INTENTS as u64);
    let before = format!("SELECT count(*) FROM slot WHERE bound_at <= '{funded_at}'");
    assert_eq!(database.count(&before).await, PAYABLE as i64, "an unpayable intent was bound");
    assert_balance_events(&nodes[1], &database).await;
    let last = format!("SELECT extract(epoch FROM max(bound_at) - '{funded_at}')::float8 FROM slot");
    let seconds: f64 = database.raw().await.query_one(&last, &[]).await.unwrap().get(0);
    assert!(seconds < SECONDS_MAX, "the lane continued after {seconds} s");
}

/// The pool has dropped the transactions, and the balance is gone when they are sent again.
/// proves S17
#[tokio::test(flavor = "multi_thread")]
async fn bound_unpayable_intents_wait_and_are_not_signed_again() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::start(Mining::OnDemand));
    let config = config(&database, &chain).set("resubmit.interval", "1s");
    let nodes = start_three_nodes(&config).await;
    let accepted = create_intents(&nodes).await;
    let (client, address) = (&nodes[0].client, AccountKey::of(0).address());
    eventually("all transactions are in the pool", async || {
        (chain.pending_count(&address).await == INTENTS as u64).then_some(())
    })
    .await;
    set_balance(&chain, COST / 2).await;
    chain.call("anvil_dropAllTransactions", json!([])).await;
    for node in &nodes {
        let lowest = eventually("every node shows that the lowest intent waits for funds", async || {
            let view = node.client.submitter("s0", &[]).await.ok()?;
            (view.awaiting_funds == Some(true) && view.low_balance).then_some(view.lowest_unmined?)
        })
        .await;
        assert_eq!((lowest.state, lowest.attempts), (Some(TxStateName::Tracking), 1));
        assert_eq!(lowest.sub_state, Some(SubStateName::AwaitingFunds));
    }
    assert_eq!(events(&database, "low_balance").await, 1);
    set_balance(&chain, ONE_ETHER).await;
    chain.mine_while(wait_until_done(client, "s0")).await;
    // Each intent has one attempt, so the sent bytes are the first signed bytes.
    SubmitterLedger::read(client, "s0").await.assert_exactly_once(&chain, &accepted).await;
    assert_eq!(chain.balance(TO).await, INTENTS as u64);
    assert_balance_events(&nodes[1], &database).await;
}

fn config(database: &TestDatabase, chain: &TestChain) -> TestNodeConfig {
    TestNodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", "16")
        .set("lane.account_interval", NEVER)
}

async fn create_intents(nodes: &[NodeProcess]) -> Vec<AcceptedRequest> {
    let clients: Vec<&Client> = nodes.iter().map(|node| &node.client).collect();
    let clients = clients.as_slice();
    join_all((0..INTENTS).map(|n| async move { create(clients, n, &request(n)).await })).await
}

fn request(n: usize) -> TxRequest {
    let fees = FeesPayload { gas_price: Some(GAS_PRICE.to_string()), ..FeesPayload::default() };
    let payload = CallPayload {
        to: Some(TO.to_owned()),
        value: Some("1".to_owned()),
        gas_limit: Some(Quantity::from(GAS)),
        fees: Some(fees),
        ..CallPayload::default()
    };
    TxRequest::new("s0", format!("r{n}"), payload)
}

async fn set_balance(chain: &TestChain, wei: u64) {
    chain.call("anvil_setBalance", json!([AccountKey::of(0).address(), format!("{wei:#x}")])).await;
}

async fn has_open(client: &Client, count: u32) -> Option<()> {
    (client.submitter("s0", &[]).await.ok()?.open == count).then_some(())
}

async fn events(database: &TestDatabase, kind: &str) -> i64 {
    database.count(&format!("SELECT count(*) FROM tx_event WHERE kind = '{kind}'")).await
}

/// Asserts that there is one event for the low balance and one for its end.
async fn assert_balance_events(node: &NodeProcess, database: &TestDatabase) {
    eventually("the balance is not low", async || {
        (!node.client.submitter("s0", &[]).await.ok()?.low_balance).then_some(())
    })
    .await;
    for kind in ["low_balance", "balance_restored"] {
        assert_eq!(events(database, kind).await, 1, "{kind}");
    }
}
