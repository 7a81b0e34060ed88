//! A thousand concurrent requests for one account at three nodes.

use gapless_testbed::Mining;

use crate::support::{
    SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create_all, start_three_nodes, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0021";
const CREATES: usize = 1000;

/// proves N07, N11
#[tokio::test(flavor = "multi_thread")]
async fn strict_lane_binds_nonces_in_order_of_acceptance() {
    creates_are_bound_in_order("1").await;
}

/// proves N07, N11
#[tokio::test(flavor = "multi_thread")]
async fn pipelined_lane_binds_nonces_in_order_of_acceptance() {
    creates_are_bound_in_order("64").await;
}

async fn creates_are_bound_in_order(window: &str) {
    let (database, chain) = (TestDatabase::shared().await, TestChain::start(Mining::PerTransaction));
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", window)
        .set("log.filter", "info");
    let nodes = start_three_nodes(&config).await;
    // Half of the requests are open at a time, so that some are answered before others are sent.
    let accepted = create_all(&nodes, "s0", "r", TO, CREATES, CREATES / 2).await;
    wait_until_done(&nodes[0].client, "s0").await;
    let ledger = SubmitterLedger::read(&nodes[1].client, "s0").await;
    ledger.assert_exactly_once(&chain, &accepted).await;
    ledger.assert_in_order_of_acceptance(&accepted);
    assert_eq!(chain.balance(TO).await, CREATES as u64);

    // The queue order of the database is the order of the nonces.
    let out_of_order = "
        SELECT count(*) FROM (SELECT nonce, row_number() OVER (ORDER BY seq) - 1 AS place FROM managed_tx) t
        WHERE nonce <> place";
    assert_eq!(database.count(out_of_order).await, 0);
}
