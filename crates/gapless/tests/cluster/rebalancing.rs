//! Rebalancing: nodes join and leave, and share the lanes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use gapless_testbed::Mining;

use crate::support::{
    AcceptedRequest, NodeClients, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, eventually,
    transfer, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0131";
const LANES: u32 = 24;
/// Lanes that a node may have above its share.
const SLACK: i64 = 2;
/// The interval between the intents of each lane, shorter than `idle_linger`, so that every lane always has an owner.
const EACH: Duration = Duration::from_millis(500);

const LANES_OF_NODES: &str = "
    SELECT split_part(owner_node, '/', 1) AS node, count(*) AS lanes
    FROM submitter_lease WHERE expires_at > clock_timestamp() GROUP BY 1";

/// proves N11
#[tokio::test(flavor = "multi_thread")]
async fn joining_and_leaving_nodes_rebalance_the_lanes() {
    let chain = TestChain::with_accounts(Mining::Every(Duration::from_millis(200)), LANES);
    let database = TestDatabase::shared().await;
    let accounts: Vec<u32> = (0..LANES).collect();
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &accounts)
        .set("nonce.max_in_flight", "8")
        .short_lease()
        .set("dispatch.rebalance_interval", "1s")
        // A gone node counts until its leases would expire. Lanes that move in that time must be free to move again.
        .set("dispatch.returned_pause", "5s")
        .set("dispatch.rebalance_slack", &SLACK.to_string());
    let mut first = NodeProcess::start("a", &config).await;
    let (node_clients, over) = (NodeClients::of(std::slice::from_ref(&first)), AtomicBool::new(false));
    let callers = join_all(accounts.iter().map(|account| create_intents(&node_clients, *account, &over)));
    let joining_and_leaving = async {
        wait_until_shared_by(&database, &["a"]).await;
        let others = join_all(["b", "c"].map(|name| NodeProcess::start(name, &config))).await;
        others.iter().for_each(|node| node_clients.add(node));
        wait_until_shared_by(&database, &["a", "b", "c"]).await;
        for node in others.iter().chain([&first]) {
            // A node has its leases a moment before the lanes are loaded and run.
            eventually(&format!("{} runs lanes", node.name), async || {
                (node.counter("gapless_lanes_running").await > 0.0).then_some(())
            })
            .await;
        }
        first.signal("TERM");
        assert!(first.wait_for_end().await.success(), "the node did not end with success after SIGTERM");
        wait_until_shared_by(&database, &["b", "c"]).await;
        over.store(true, Ordering::SeqCst);
        others
    };
    let (accepted, nodes) = tokio::join!(callers, joining_and_leaving);

    for (account, accepted) in accounts.into_iter().zip(&accepted) {
        let (client, submitter) = (&nodes[0].client, format!("s{account}"));
        wait_until_done(client, &submitter).await;
        let ledger = SubmitterLedger::read(client, &submitter).await;
        ledger.assert_exactly_once(&chain, accepted).await;
        ledger.assert_in_order_of_acceptance(accepted);
    }
    assert_eq!(chain.balance(TO).await, accepted.iter().map(|accepted| accepted.len() as u64).sum::<u64>());
}

async fn create_intents(node_clients: &NodeClients, account: u32, over: &AtomicBool) -> Vec<AcceptedRequest> {
    let mut accepted = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let n = accepted.len();
        accepted.push(node_clients.create(n, &transfer(&format!("s{account}"), &format!("r{n}"), TO)).await);
        tokio::time::sleep(EACH).await;
    }
    accepted
}

/// Waits until these nodes own all lanes, and none has more than its share plus the slack.
async fn wait_until_shared_by(database: &TestDatabase, names: &[&str]) {
    let most = i64::from(LANES) / names.len() as i64 + SLACK;
    eventually(&format!("the lanes are shared by {names:?}"), async || {
        let rows = database.raw().await.query(LANES_OF_NODES, &[]).await.unwrap();
        let lanes: BTreeMap<String, i64> = rows.iter().map(|row| (row.get("node"), row.get("lanes"))).collect();
        let owners: Vec<&str> = lanes.keys().map(String::as_str).collect();
        let all = lanes.values().sum::<i64>() == i64::from(LANES);
        (owners == names && all && lanes.values().all(|lanes| *lanes <= most)).then_some(())
    })
    .await;
}
