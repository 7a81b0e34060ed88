//! Lanes that change hands because somebody let go of them.

use gapless_testbed::Mining;

use crate::support::{
    Chain, Database, Ledger, NodeConfig, create, create_all, eventually, owner, taken_over, three, transfer,
    wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0041";
/// A second is the promise; what is asserted leaves room for a machine that does other things too.
const PAUSE_MAX_SECONDS: f64 = 5.0;

/// proves N21
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_asked_to_end_hands_its_lane_over_under_load() {
    let (database, chain) = (Database::shared().await, Chain::start(Mining::PerTransaction));
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", "4")
        // Nobody can wait for this one to expire.
        .set("lease.duration", "60s");
    let mut nodes = three(&config).await;
    let mut accepted = create_all(&nodes, "s0", "before", TO, 300, 50).await;
    let (leaving, token) = owner(&nodes, "s0", 0).await;
    let asked_at = database.now().await;
    nodes[leaving].signal("TERM");
    taken_over(&nodes, "s0", leaving, token).await;
    assert!(nodes[leaving].wait_for_end().await.success(), "it was asked to end, and ended otherwise");
    // Callers of the others notice nothing.
    nodes.remove(leaving);
    accepted.extend(create_all(&nodes, "s0", "after", TO, 20, 5).await);
    wait_until_done(&nodes[0].client, "s0").await;
    Ledger::read(&nodes[0].client, "s0").await.assert_exactly_once(&chain, &accepted).await;

    let first = format!(
        "SELECT extract(epoch FROM min(bound_at) - '{asked_at}')::float8 FROM slot WHERE fencing_token > {token}"
    );
    let seconds: f64 = database.raw().await.query_one(&first, &[]).await.unwrap().get(0);
    assert!(seconds < PAUSE_MAX_SECONDS, "the lane stood still for {seconds} s");
}

/// proves N20
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_was_given_back_is_taken_up_again_whoever_accepts_the_next_intent() {
    let (database, chain) = (Database::shared().await, Chain::start(Mining::PerTransaction));
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("lane.idle_linger", "100ms")
        // Neither a sweep nor an expiry can be what finds it.
        .set("dispatch.sweep_interval", "10m")
        .set("lease.duration", "60s");
    let nodes = three(&config).await;
    let mut accepted = Vec::new();
    for n in 0..6 {
        let node = &nodes[n % nodes.len()];
        accepted.push(create(&[&node.client], 0, &transfer("s0", &format!("r{n}"), TO)).await);
        wait_until_done(&node.client, "s0").await;
        eventually("the lane is given back", async || {
            let view = node.client.submitter("s0", &[gapless_wire::SubmitterExpand::Lease]).await.ok()?;
            view.lease.is_none().then_some(())
        })
        .await;
    }
    Ledger::read(&nodes[0].client, "s0").await.assert_exactly_once(&chain, &accepted).await;
}
