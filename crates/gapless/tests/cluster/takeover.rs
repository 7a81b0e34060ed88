//! An owner that is stopped for longer than its lease, and then continues.

use gapless_testbed::Mining;
use gapless_wire::{ListQuery, TxStateName};

use crate::support::{
    AcceptedRequest, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create_all, eventually,
    owner, start_three_nodes, wait_for_takeover, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0031";
const WINDOW: usize = 4;

/// proves N03, S02
#[tokio::test(flavor = "multi_thread")]
async fn owner_continued_after_its_lease_changes_and_sends_nothing() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::start(Mining::OnDemand));
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .short_lease()
        .set("nonce.max_in_flight", &WINDOW.to_string())
        // A resend is due after the owner is stopped, and before it continues.
        .set("resubmit.interval", "6s");
    let mut nodes = start_three_nodes(&config).await;
    let mut accepted = Vec::new();
    stop_with_a_full_window(&database, &chain, &mut nodes, &mut accepted).await;
    stop_during_work(&database, &chain, &mut nodes, &mut accepted).await;
    SubmitterLedger::read(&nodes[0].client, "s0").await.assert_exactly_once(&chain, &accepted).await;
    assert_eq!(chain.balance(TO).await, accepted.len() as u64);
}

/// Stops the owner when its window is full and no block is mined, so that the next send is a resend.
async fn stop_with_a_full_window(
    database: &TestDatabase,
    chain: &TestChain,
    nodes: &mut [NodeProcess],
    accepted: &mut Vec<AcceptedRequest>,
) {
    accepted.extend(create_all(nodes, "s0", "first", TO, 2 * WINDOW, 2 * WINDOW).await);
    eventually("the window is full", async || {
        (with_state(&nodes[0], TxStateName::Tracking).await == WINDOW).then_some(())
    })
    .await;
    let (stopped, token) = owner(nodes, "s0", 0).await;
    let sends = nodes[stopped].counter("gapless_tx_submit_total").await;
    nodes[stopped].signal("STOP");
    let (successor, _) = wait_for_takeover(nodes, "s0", stopped, token).await;
    // The new owner resends. The old owner would resend too, if it could, as soon as it continues.
    eventually("the new owner has resent the window", async || {
        (nodes[successor].counter("gapless_tx_submit_total").await >= WINDOW as f64).then_some(())
    })
    .await;
    let woken_at = database.now().await;
    nodes[stopped].signal("CONT");
    eventually("the old owner knows that it lost the lease", async || {
        (lost(&nodes[stopped]).await > 0.0).then_some(())
    })
    .await;
    chain.mine_while(wait_until_done(&nodes[stopped].client, "s0")).await;
    assert_eq!(nodes[stopped].counter("gapless_tx_submit_total").await, sends, "the old owner sent");
    database.assert_nothing_written_since(token, &woken_at).await;
}

/// Stops the owner while reads, commits and sends are in flight.
async fn stop_during_work(
    database: &TestDatabase,
    chain: &TestChain,
    nodes: &mut [NodeProcess],
    accepted: &mut Vec<AcceptedRequest>,
) {
    let before = accepted.len();
    accepted.extend(create_all(nodes, "s0", "load", TO, 200, 50).await);
    let (stopped, token) = owner(nodes, "s0", 0).await;
    let lost_before = lost(&nodes[stopped]).await;
    let progress = eventually("three windows are mined", async || {
        (chain.balance(TO).await > (before + 3 * WINDOW) as u64).then_some(())
    });
    chain.mine_while(progress).await;
    nodes[stopped].signal("STOP");
    chain.mine_while(wait_for_takeover(nodes, "s0", stopped, token)).await;
    let woken_at = database.now().await;
    nodes[stopped].signal("CONT");
    chain.mine_while(wait_until_done(&nodes[(stopped + 1) % nodes.len()].client, "s0")).await;
    eventually("the old owner knows that it lost the lease", async || {
        (lost(&nodes[stopped]).await > lost_before).then_some(())
    })
    .await;
    database.assert_nothing_written_since(token, &woken_at).await;
}

async fn with_state(node: &NodeProcess, state: TxStateName) -> usize {
    let query = ListQuery { state: Some(state), ..ListQuery::default() };
    node.client.list_tx(&query).await.unwrap().items.len()
}

async fn lost(node: &NodeProcess) -> f64 {
    node.counter("gapless_lease_lost_total").await
}
