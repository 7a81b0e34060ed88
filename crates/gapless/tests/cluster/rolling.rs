//! A new version is rolled out: three nodes are restarted, one after the other, while work is handed in for several lanes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use gapless_testbed::Mining;

use crate::support::{
    Accepted, Chain, Database, Doors, Ledger, Node, NodeConfig, eventually, three, transfer, wait_until_done,
};

const TO: &str = "0x00000000000000000000000000000000000a0095";
const LANES: [u32; 4] = [0, 1, 2, 3];
const BLOCK_TIME: Duration = Duration::from_millis(100);
/// A second is the promise. What is asserted leaves room for a machine that does other things too, and none for a lane that has to
/// be found by a sweep, or whose lease has to run out.
const PAUSE_MAX_SECONDS: f64 = 5.0;
const NEVER: &str = "60s";

/// How long each lane stood still: from when the next in line was there and the one before it was bound, until it was bound itself.
const LONGEST_PAUSES: &str = "
    SELECT submitter, max(extract(epoch FROM bound_at - greatest(created_at, before)))::float8 AS seconds
    FROM (
        SELECT s.submitter, s.bound_at, t.created_at, lag(s.bound_at) OVER (PARTITION BY s.submitter ORDER BY s.nonce) AS before
        FROM slot s JOIN managed_tx t ON t.tx_id = s.tx_id
    ) AS slots
    WHERE before IS NOT NULL GROUP BY submitter";

/// proves O03, N21, N11
#[tokio::test(flavor = "multi_thread")]
async fn restarting_all_nodes_one_by_one_under_load_loses_nothing_and_no_lane_stands_still() {
    let (database, chain) = (Database::shared().await, Chain::dev(Mining::Every(BLOCK_TIME)).await);
    let config = NodeConfig::new(&database.url, &chain.ws_url(), &LANES)
        .set("nonce.max_in_flight", "8")
        .set("lease.duration", NEVER)
        .set("dispatch.sweep_interval", NEVER);
    let mut nodes = three(&config).await;
    let (doors, over) = (Doors::of(&nodes), AtomicBool::new(false));
    let callers = join_all(LANES.map(|account| hand_in(&doors, account, &over)));
    let rolling = async {
        every_lane_goes_on(&database).await;
        for (n, node) in nodes.iter_mut().enumerate() {
            node.signal("TERM");
            assert!(node.wait_for_end().await.success(), "it was asked to end, and ended otherwise");
            *node = Node::start(&node.name.clone(), &config).await;
            doors.replace(n, node);
            every_lane_goes_on(&database).await;
        }
        over.store(true, Ordering::SeqCst);
    };
    let (accepted, ()) = tokio::join!(callers, rolling);

    for (account, accepted) in LANES.into_iter().zip(&accepted) {
        let (client, submitter) = (&nodes[0].client, format!("s{account}"));
        wait_until_done(client, &submitter).await;
        let ledger = Ledger::read(client, &submitter).await;
        ledger.assert_exactly_once(&chain, accepted).await;
        ledger.assert_in_order_of_acceptance(accepted);
    }
    assert_eq!(chain.balance(TO).await, accepted.iter().map(|accepted| accepted.len() as u64).sum::<u64>());
    let unmoved = "SELECT count(*) FROM submitter_lease WHERE fencing_token < 2";
    assert_eq!(database.count(unmoved).await, 0, "a lane never changed hands: this has shown nothing");
    for row in database.raw().await.query(LONGEST_PAUSES, &[]).await.unwrap() {
        let (lane, seconds): (&str, f64) = (row.get("submitter"), row.get("seconds"));
        assert!(seconds < PAUSE_MAX_SECONDS, "{lane} stood still for {seconds} s");
    }
}

/// So often that a lane which stands still has something in line.
async fn hand_in(doors: &Doors, account: u32, over: &AtomicBool) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let n = accepted.len();
        accepted.push(doors.create(n, &transfer(&format!("s{account}"), &format!("r{n}"), TO)).await);
        tokio::time::sleep(BLOCK_TIME / 2).await;
    }
    accepted
}

/// Each of them binds some more than it has now.
async fn every_lane_goes_on(database: &Database) {
    let lanes = LANES.len();
    let bound =
        format!("SELECT CASE count(*) WHEN {lanes} THEN min(next_nonce) ELSE 0 END FROM submitter_nonce_cursor");
    let before = database.count(&bound).await;
    eventually("every lane goes on", async || (database.count(&bound).await >= before + 10).then_some(())).await;
}
