//! An owner that falls asleep at the worst moments, and wakes up when its lane has long been another's.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use gapless_engine::FaultPoint;
use gapless_testbed::Mining;
use gapless_wire::TxRequest;

use crate::support::{Chain, Database, Ledger, Node, NodeConfig, create, eventually, transfer, wait_until_done};

const INTENTS: usize = 2;
const SCENES_AT_ONCE: usize = 8;
/// The sleeper is the first owner of its lane.
const FIRST_TOKEN: u64 = 1;
/// Where it holds something that it was about to sign, to write or to send.
const MOMENTS: [FaultPoint; 8] = [
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
async fn an_owner_that_falls_asleep_at_any_moment_signs_writes_and_sends_nothing_when_it_wakes_too_late() {
    let chain = Chain::with_accounts(Mining::Every(Duration::from_millis(250)), MOMENTS.len() as u32);
    let scenes = MOMENTS.into_iter().zip(0..).map(|(moment, account)| sleeps_at(&chain, moment, account));
    stream::iter(scenes).buffer_unordered(SCENES_AT_ONCE).collect::<()>().await;
}

async fn sleeps_at(chain: &Chain, moment: FaultPoint, account: u32) {
    let (database, submitter) = (Database::shared().await, format!("s{account}"));
    let config = NodeConfig::new(&database.url, &chain.url(), &[account])
        .short_lease()
        .set("confirmations.required", "2")
        .set("store.postgres.pool_size", "2");
    let mut sleeper = Node::start(&format!("{}-a", moment.as_str()), &config.clone().stop_at(moment.as_str())).await;
    // It may fall asleep before it has answered.
    let first = intent(account, 0);
    let call = async {
        let _ = sleeper.client.create_tx(&first).await;
        std::future::pending().await
    };
    tokio::select! {
        () = call => {}
        () = eventually("it falls asleep", async || sleeper.has_stopped().then_some(())) => {}
    }

    let successor = Node::start(&format!("{}-b", moment.as_str()), &config).await;
    let mut accepted = Vec::new();
    for n in 0..INTENTS {
        accepted.push(create(&[&successor.client], 0, &intent(account, n)).await);
    }
    wait_until_done(&successor.client, &submitter).await;
    let woken_at = database.now().await;
    sleeper.signal("CONT");
    eventually("it knows that the lane is not its own", async || {
        (sleeper.counter("gapless_lease_lost_total").await >= 1.0).then_some(())
    })
    .await;
    database.assert_nothing_written_since(FIRST_TOKEN, &woken_at).await;
    let sent = sleeper.counter("gapless_tx_submit_total").await;
    assert_eq!(sent, sent_before(moment), "{moment:?}: it has sent something since");
    Ledger::read(&sleeper.client, &submitter).await.assert_exactly_once(chain, &accepted).await;
}

/// What it had sent before it fell asleep: the one that it knew of, if it came that far.
fn sent_before(moment: FaultPoint) -> f64 {
    let comes_first = |point: &FaultPoint| *point == FaultPoint::AfterBroadcast || *point == moment;
    if FaultPoint::ALL.iter().find(|point| comes_first(point)) == Some(&moment) { 0.0 } else { 1.0 }
}

fn intent(account: u32, n: usize) -> TxRequest {
    transfer(&format!("s{account}"), &format!("r{n}"), "0x00000000000000000000000000000000000a0071")
}
