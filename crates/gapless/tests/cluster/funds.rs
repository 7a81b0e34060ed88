//! Accounts that cannot pay, and that can again.

use futures_util::future::join_all;
use gapless_testbed::Mining;
use gapless_wire::{CallPayload, Client, FeesPayload, Quantity, SubStateName, TxRequest, TxStateName};
use serde_json::json;

use crate::support::{
    Accepted, Chain, Database, Key, Ledger, Node, NodeConfig, create, eventually, three, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0111";
const INTENTS: usize = 8;
const GAS: u64 = 21_000;
const GAS_PRICE: u64 = 10_000_000_000;
/// What one of them costs, at the worst and in fact: its price is its own, and not that of the market.
const COST: u64 = GAS * GAS_PRICE + 1;
const ONE_ETHER: u64 = 1_000_000_000_000_000_000;
/// No look at the balance but those that a shortage leads to.
const NEVER: &str = "10m";
/// A second or two is the promise; what is asserted leaves room for a machine that does other things too.
const SECONDS_MAX: f64 = 15.0;

/// proves S17, S18
#[tokio::test(flavor = "multi_thread")]
async fn what_an_account_cannot_pay_for_is_not_bound_and_goes_on_by_itself_when_it_is_funded() {
    const PAYABLE: u64 = 3;
    let (database, chain) = (Database::shared().await, Chain::start(Mining::OnDemand));
    set_balance(&chain, PAYABLE * COST + COST / 2).await;
    let nodes = three(&config(&database, &chain)).await;
    let accepted = hand_in(&nodes).await;
    for node in &nodes {
        let counts = eventually("every node says that the balance is low", async || {
            let view = node.client.submitter("s0", &[]).await.ok()?;
            view.low_balance.then_some((u64::from(view.open), view.queued as usize))
        })
        .await;
        assert_eq!(counts, (PAYABLE, INTENTS - PAYABLE as usize));
    }
    assert_eq!(events(&database, "low_balance").await, 1);
    // What it could pay for happens, and leaves too little for another.
    chain.mine_while(eventually("the rest waits", async || has_open(&nodes[1].client, 0).await)).await;
    chain.mine(5).await;
    assert_eq!(chain.balance(TO).await, PAYABLE);
    assert_eq!(events(&database, "balance_restored").await, 0);

    let funded_at = database.now().await;
    set_balance(&chain, ONE_ETHER).await;
    chain.mine_while(wait_until_done(&nodes[0].client, "s0")).await;
    Ledger::read(&nodes[2].client, "s0").await.assert_exactly_once(&chain, &accepted).await;
    assert_eq!(chain.balance(TO).await, INTENTS as u64);
    let before = format!("SELECT count(*) FROM slot WHERE bound_at <= '{funded_at}'");
    assert_eq!(database.count(&before).await, PAYABLE as i64, "something was bound that could not be paid for");
    assert_told_once(&nodes[1], &database).await;
    let last = format!("SELECT extract(epoch FROM max(bound_at) - '{funded_at}')::float8 FROM slot");
    let seconds: f64 = database.raw().await.query_one(&last, &[]).await.unwrap().get(0);
    assert!(seconds < SECONDS_MAX, "it went on after {seconds} s");
}

/// The node has forgotten them, and somebody has taken the money away when they are sent again.
/// proves S17
#[tokio::test(flavor = "multi_thread")]
async fn what_has_a_nonce_and_cannot_be_paid_waits_with_it_and_is_not_signed_again() {
    let (database, chain) = (Database::shared().await, Chain::start(Mining::OnDemand));
    let config = config(&database, &chain).set("resubmit.interval", "1s");
    let nodes = three(&config).await;
    let accepted = hand_in(&nodes).await;
    let (client, address) = (&nodes[0].client, Key::of(0).address());
    eventually("all of them are in the pool", async || {
        (chain.pending_count(&address).await == INTENTS as u64).then_some(())
    })
    .await;
    set_balance(&chain, COST / 2).await;
    chain.call("anvil_dropAllTransactions", json!([])).await;
    for node in &nodes {
        let lowest = eventually("the first one waits for funds, as every node says", async || {
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
    // One attempt each: what was sent in the end is what was signed in the beginning.
    Ledger::read(client, "s0").await.assert_exactly_once(&chain, &accepted).await;
    assert_eq!(chain.balance(TO).await, INTENTS as u64);
    assert_told_once(&nodes[1], &database).await;
}

fn config(database: &Database, chain: &Chain) -> NodeConfig {
    NodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", "16")
        .set("lane.account_interval", NEVER)
}

async fn hand_in(nodes: &[Node]) -> Vec<Accepted> {
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

async fn set_balance(chain: &Chain, wei: u64) {
    chain.call("anvil_setBalance", json!([Key::of(0).address(), format!("{wei:#x}")])).await;
}

async fn has_open(client: &Client, count: u32) -> Option<()> {
    (client.submitter("s0", &[]).await.ok()?.open == count).then_some(())
}

async fn events(database: &Database, kind: &str) -> i64 {
    database.count(&format!("SELECT count(*) FROM tx_event WHERE kind = '{kind}'")).await
}

/// That it was low, and that it is not any more.
async fn assert_told_once(node: &Node, database: &Database) {
    eventually("the balance is not low", async || {
        (!node.client.submitter("s0", &[]).await.ok()?.low_balance).then_some(())
    })
    .await;
    for kind in ["low_balance", "balance_restored"] {
        assert_eq!(events(database, kind).await, 1, "{kind}");
    }
}
