//! A rolling restart: three nodes are restarted one after the other, under load on several lanes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use gapless_testbed::Mining;

use crate::support::{
    AcceptedRequest, NodeClients, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, eventually,
    start_three_nodes, transfer, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0095";
const LANES: [u32; 4] = [0, 1, 2, 3];
const BLOCK_TIME: Duration = Duration::from_millis(100);
/// The promise is one second. The limit leaves room for a busy machine, but not for a lane that waits for a sweep or
/// for an expired lease.
const PAUSE_MAX_SECONDS: f64 = 5.0;
const NEVER: &str = "60s";

/// The longest pause of each lane: from the time when the next intent was queued and the one before it was bound, until
/// it was bound.
const LONGEST_PAUSES: &str = "
    SELECT submitter, max(extract(epoch FROM bound_at - greatest(created_at, before)))::float8 AS seconds
    FROM (
        SELECT s.submitter, s.bound_at, t.created_at,
               lag(s.bound_at) OVER (PARTITION BY s.submitter ORDER BY s.nonce) AS before
        FROM slot s JOIN managed_tx t ON t.tx_id = s.tx_id
    ) AS slots
    WHERE before IS NOT NULL GROUP BY submitter";

/// proves O03, N21, N11
#[tokio::test(flavor = "multi_thread")]
async fn rolling_restart_under_load_is_exactly_once_without_pauses() {
    let (database, chain) = (TestDatabase::shared().await, TestChain::dev(Mining::Every(BLOCK_TIME)).await);
    let config = TestNodeConfig::new(&database.url, &chain.ws_url(), &LANES)
        .set("nonce.max_in_flight", "8")
        .set("lease.duration", NEVER)
        .set("dispatch.sweep_interval", NEVER);
    let mut nodes = start_three_nodes(&config).await;
    let (node_clients, over) = (NodeClients::of(&nodes), AtomicBool::new(false));
    let callers = join_all(LANES.map(|account| create_intents(&node_clients, account, &over)));
    let rolling = async {
        wait_for_progress(&database).await;
        for (n, node) in nodes.iter_mut().enumerate() {
            node.signal("TERM");
            assert!(node.wait_for_end().await.success(), "the node did not end with success after SIGTERM");
            *node = NodeProcess::start(&node.name.clone(), &config).await;
            node_clients.replace(n, node);
            wait_for_progress(&database).await;
        }
        over.store(true, Ordering::SeqCst);
    };
    let (accepted, ()) = tokio::join!(callers, rolling);

    for (account, accepted) in LANES.into_iter().zip(&accepted) {
        let (client, submitter) = (&nodes[0].client, format!("s{account}"));
        wait_until_done(client, &submitter).await;
        let ledger = SubmitterLedger::read(client, &submitter).await;
        ledger.assert_exactly_once(&chain, accepted).await;
        ledger.assert_in_order_of_acceptance(accepted);
    }
    assert_eq!(chain.balance(TO).await, accepted.iter().map(|accepted| accepted.len() as u64).sum::<u64>());
    let unmoved = "SELECT count(*) FROM submitter_lease WHERE fencing_token < 2";
    assert_eq!(database.count(unmoved).await, 0, "a lane never changed its owner, so the test proves nothing");
    for row in database.raw().await.query(LONGEST_PAUSES, &[]).await.unwrap() {
        let (lane, seconds): (&str, f64) = (row.get("submitter"), row.get("seconds"));
        assert!(seconds < PAUSE_MAX_SECONDS, "{lane} bound nothing for {seconds} s");
    }
}

/// Creates intents so often that a paused lane always has a queue.
async fn create_intents(node_clients: &NodeClients, account: u32, over: &AtomicBool) -> Vec<AcceptedRequest> {
    let mut accepted = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let n = accepted.len();
        accepted.push(node_clients.create(n, &transfer(&format!("s{account}"), &format!("r{n}"), TO)).await);
        tokio::time::sleep(BLOCK_TIME / 2).await;
    }
    accepted
}

/// Waits until every lane has bound ten more nonces.
async fn wait_for_progress(database: &TestDatabase) {
    let lanes = LANES.len();
    let bound =
        format!("SELECT CASE count(*) WHEN {lanes} THEN min(next_nonce) ELSE 0 END FROM submitter_nonce_cursor");
    let before = database.count(&bound).await;
    eventually("every lane has bound ten more nonces", async || {
        (database.count(&bound).await >= before + 10).then_some(())
    })
    .await;
}
