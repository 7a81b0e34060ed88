//! An owner that is stopped for longer than its lease, and wakes up late.

use gapless_testbed::Mining;
use gapless_wire::{ListQuery, TxStateName};

use crate::support::{
    Accepted, Chain, Database, Ledger, Node, NodeConfig, create_all, eventually, owner, taken_over, three,
    wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0031";
const WINDOW: usize = 4;

/// proves N03, S02
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_sleeps_longer_than_its_lease_changes_nothing_and_sends_nothing_when_it_wakes() {
    let (database, chain) = (Database::shared().await, Chain::start(Mining::OnDemand));
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .short_lease()
        .set("nonce.max_in_flight", &WINDOW.to_string())
        // Not due before the owner sleeps, and due before it wakes.
        .set("resubmit.interval", "6s");
    let mut nodes = three(&config).await;
    let mut accepted = Vec::new();
    sleeps_with_a_full_window(&database, &chain, &mut nodes, &mut accepted).await;
    sleeps_in_the_middle_of_work(&database, &chain, &mut nodes, &mut accepted).await;
    Ledger::read(&nodes[0].client, "s0").await.assert_exactly_once(&chain, &accepted).await;
    assert_eq!(chain.balance(TO).await, accepted.len() as u64);
}

/// Nothing is mined: everything that may be under way is, and nothing more is to be sent until it is time to send again.
async fn sleeps_with_a_full_window(
    database: &Database,
    chain: &Chain,
    nodes: &mut [Node],
    accepted: &mut Vec<Accepted>,
) {
    accepted.extend(create_all(nodes, "s0", "first", TO, 2 * WINDOW, 2 * WINDOW).await);
    eventually("the window is full", async || {
        (with_state(&nodes[0], TxStateName::Tracking).await == WINDOW).then_some(())
    })
    .await;
    let (sleeper, token) = owner(nodes, "s0", 0).await;
    let sends = nodes[sleeper].counter("gapless_tx_submit_total").await;
    nodes[sleeper].signal("STOP");
    let (successor, _) = taken_over(nodes, "s0", sleeper, token).await;
    // Its successor sends again; so would it, as soon as it wakes.
    eventually("it is time to send again", async || {
        (nodes[successor].counter("gapless_tx_submit_total").await >= WINDOW as f64).then_some(())
    })
    .await;
    let woken_at = database.now().await;
    nodes[sleeper].signal("CONT");
    eventually("the old owner knows that it is not the owner", async || {
        (lost(&nodes[sleeper]).await > 0.0).then_some(())
    })
    .await;
    chain.mine_while(wait_until_done(&nodes[sleeper].client, "s0")).await;
    assert_eq!(nodes[sleeper].counter("gapless_tx_submit_total").await, sends, "it has sent something since");
    database.assert_nothing_written_since(token, &woken_at).await;
}

/// It wakes with reads, commits and sends under way.
async fn sleeps_in_the_middle_of_work(
    database: &Database,
    chain: &Chain,
    nodes: &mut [Node],
    accepted: &mut Vec<Accepted>,
) {
    let before = accepted.len();
    accepted.extend(create_all(nodes, "s0", "load", TO, 200, 50).await);
    let (sleeper, token) = owner(nodes, "s0", 0).await;
    let lost_before = lost(&nodes[sleeper]).await;
    let some_are_done =
        eventually("some are done", async || (chain.balance(TO).await > (before + 3 * WINDOW) as u64).then_some(()));
    chain.mine_while(some_are_done).await;
    nodes[sleeper].signal("STOP");
    chain.mine_while(taken_over(nodes, "s0", sleeper, token)).await;
    let woken_at = database.now().await;
    nodes[sleeper].signal("CONT");
    chain.mine_while(wait_until_done(&nodes[(sleeper + 1) % nodes.len()].client, "s0")).await;
    eventually("the old owner knows that it is not the owner", async || {
        (lost(&nodes[sleeper]).await > lost_before).then_some(())
    })
    .await;
    database.assert_nothing_written_since(token, &woken_at).await;
}

async fn with_state(node: &Node, state: TxStateName) -> usize {
    let query = ListQuery { state: Some(state), ..ListQuery::default() };
    node.client.list_tx(&query).await.unwrap().items.len()
}

async fn lost(node: &Node) -> f64 {
    node.counter("gapless_lease_lost_total").await
}
