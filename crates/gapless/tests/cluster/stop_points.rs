//! An owner that is stopped at a fault point, and continues after another node owns its lane.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use gapless_engine::FaultPoint;
use gapless_testbed::Mining;
use gapless_wire::TxRequest;

use crate::support::{
    NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestNodeConfig, create, eventually, transfer,
    wait_until_done,
};

const INTENTS: usize = 2;
const RUNS_AT_ONCE: usize = 8;
/// The stopped node is the first owner of its lane.
const FIRST_TOKEN: u64 = 1;
/// The points at which the owner is about to sign, to write or to send.
const POINTS: [FaultPoint; 8] = [
    FaultPoint::BeforeSign,
    FaultPoint::AfterSign,
    FaultPoint::BeforeBindCommit,
    FaultPoint::AfterBindCommit,
    FaultPoint::BeforeBroadcast,
    FaultPoint::BeforeAcknowledgeCommit,
    FaultPoint::BeforeMinedCommit,
    FaultPoint::BeforeSettleCommit,
];

/// proves N06, N03
#[tokio::test(flavor = "multi_thread")]
async fn owner_stopped_past_its_lease_neither_writes_nor_sends() {
    let chain = TestChain::with_accounts(Mining::Every(Duration::from_millis(250)), POINTS.len() as u32);
    let runs = POINTS.into_iter().zip(0..).map(|(point, account)| stop_at(&chain, point, account));
    stream::iter(runs).buffer_unordered(RUNS_AT_ONCE).collect::<()>().await;
}

async fn stop_at(chain: &TestChain, point: FaultPoint, account: u32) {
    let (database, submitter) = (TestDatabase::shared().await, format!("s{account}"));
    let config = TestNodeConfig::new(&database.url, &chain.url(), &[account])
        .short_lease()
        .set("confirmations.required", "2")
        .set("store.postgres.pool_size", "2");
    let mut stopped =
        NodeProcess::start(&format!("{}-a", point.as_str()), &config.clone().stop_at(point.as_str())).await;
    // The node may stop before it has answered.
    let first = intent(account, 0);
    let call = async {
        let _ = stopped.client.create_tx(&first).await;
        std::future::pending().await
    };
    tokio::select! {
        () = call => {}
        () = eventually("the node is stopped", async || stopped.has_stopped().then_some(())) => {}
    }

    let successor = NodeProcess::start(&format!("{}-b", point.as_str()), &config).await;
    let mut accepted = Vec::new();
    for n in 0..INTENTS {
        accepted.push(create(&[&successor.client], 0, &intent(account, n)).await);
    }
    wait_until_done(&successor.client, &submitter).await;
    let woken_at = database.now().await;
    stopped.signal("CONT");
    eventually("the old owner knows that it lost the lease", async || {
        (stopped.counter("gapless_lease_lost_total").await >= 1.0).then_some(())
    })
    .await;
    database.assert_nothing_written_since(FIRST_TOKEN, &woken_at).await;
    let sent = stopped.counter("gapless_tx_submit_total").await;
    assert_eq!(sent, sent_before(point), "{point:?}: the old owner sent after it continued");
    SubmitterLedger::read(&stopped.client, &submitter).await.assert_exactly_once(chain, &accepted).await;
}

/// The number of sends before the point: one if the broadcast comes before it.
fn sent_before(point: FaultPoint) -> f64 {
    let is_first = |other: &FaultPoint| *other == FaultPoint::AfterBroadcast || *other == point;
    if FaultPoint::ALL.iter().find(|other| is_first(other)) == Some(&point) { 0.0 } else { 1.0 }
}

fn intent(account: u32, n: usize) -> TxRequest {
    transfer(&format!("s{account}"), &format!("r{n}"), "0x00000000000000000000000000000000000a0071")
}
