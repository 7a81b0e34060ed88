//! A thousand callers at once, three nodes, one account.

use gapless_testbed::Mining;

use crate::support::{Chain, Database, Ledger, NodeConfig, create_all, three, wait_until_done};

const TO: &str = "0x00000000000000000000000000000000000a0021";
const CREATES: usize = 1000;

/// proves N07, N11
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_concurrent_creates_of_a_strict_submitter_have_contiguous_nonces_in_order_of_acceptance() {
    a_thousand_creates("1").await;
}

/// proves N07, N11
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_concurrent_creates_of_a_pipelined_submitter_have_contiguous_nonces_in_order_of_acceptance() {
    a_thousand_creates("64").await;
}

async fn a_thousand_creates(window: &str) {
    let (database, chain) = (Database::shared().await, Chain::start(Mining::PerTransaction));
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &[0])
        .set("nonce.max_in_flight", window)
        .set("log.filter", "info");
    let nodes = three(&config).await;
    // Half of them are already waiting when the last are asked, so that there is a before and an after.
    let accepted = create_all(&nodes, "s0", "r", TO, CREATES, CREATES / 2).await;
    wait_until_done(&nodes[0].client, "s0").await;
    let ledger = Ledger::read(&nodes[1].client, "s0").await;
    ledger.assert_exactly_once(&chain, &accepted).await;
    ledger.assert_in_order_of_acceptance(&accepted);
    assert_eq!(chain.balance(TO).await, CREATES as u64);

    // The line that the database has put them in is the order of their nonces.
    let overtaken = "SELECT count(*) FROM (SELECT nonce, row_number() OVER (ORDER BY seq) - 1 AS place FROM managed_tx) t WHERE nonce <> place";
    assert_eq!(database.count(overtaken).await, 0);
}
