//! Lanes that change their owner because the owner released the lease.

use gapless_testbed::Mining;

use crate::support::{
    SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create, create_all, eventually, owner, start_three_nodes,
    transfer, wait_for_takeover, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0041";
/// The promise is one second; the limit leaves room for a busy machine.
const PAUSE_MAX_SECONDS: f64 = 5.0;

/// proves N21
#[tokio::test(flavor = "multi_thread")]
async fn draining_owner_hands_its_lane_over_under_load() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::start(Mining::PerTransaction));
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", "4")
        // Too long for a takeover by expiry.
        .set("lease.duration", "60s");
    let mut nodes = start_three_nodes(&config).await;
    let mut accepted = create_all(&nodes, "s0", "before", TO, 300, 50).await;
    let (leaving, token) = owner(&nodes, "s0", 0).await;
    let asked_at = database.now().await;
    nodes[leaving].signal("TERM");
    wait_for_takeover(&nodes, "s0", leaving, token).await;
    assert!(nodes[leaving].wait_for_end().await.success(), "the node did not end with success after SIGTERM");
    // The other nodes accept requests as before.
    nodes.remove(leaving);
    accepted.extend(create_all(&nodes, "s0", "after", TO, 20, 5).await);
    wait_until_done(&nodes[0].client, "s0").await;
    SubmitterLedger::read(&nodes[0].client, "s0").await.assert_exactly_once(&chain, &accepted).await;

    let first = format!(
        "SELECT extract(epoch FROM min(bound_at) - '{asked_at}')::float8 FROM slot WHERE fencing_token > {token}"
    );
    let seconds: f64 = database.raw().await.query_one(&first, &[]).await.unwrap().get(0);
    assert!(seconds < PAUSE_MAX_SECONDS, "the lane stood still for {seconds} s");
}

/// proves N20
#[tokio::test(flavor = "multi_thread")]
async fn released_lane_is_owned_again_after_the_next_intent() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::start(Mining::PerTransaction));
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("lane.idle_linger", "100ms")
        // Too long for a sweep or an expiry, so only the wake-up can find the lane.
        .set("dispatch.sweep_interval", "10m")
        .set("lease.duration", "60s");
    let nodes = start_three_nodes(&config).await;
    let mut accepted = Vec::new();
    for n in 0..6 {
        let node = &nodes[n % nodes.len()];
        accepted.push(create(&[&node.client], 0, &transfer("s0", &format!("r{n}"), TO)).await);
        wait_until_done(&node.client, "s0").await;
        eventually("the lease is released", async || {
            let view = node.client.submitter("s0", &[gapless_wire::SubmitterExpand::Lease]).await.ok()?;
            view.lease.is_none().then_some(())
        })
        .await;
    }
    SubmitterLedger::read(&nodes[0].client, "s0").await.assert_exactly_once(&chain, &accepted).await;
}
