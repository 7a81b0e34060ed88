//! A process that ends at any point of a transaction's way: nothing is lost, nothing happens twice.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use gapless_engine::FaultPoint;
use gapless_testbed::Mining;
use gapless_wire::{Client, SubmitterExpand, TxQuery, TxRequest};

use crate::support::{
    Accepted, Chain, Database, Folder, Ledger, Node, NodeConfig, create, eventually, transfer, wait_until_done,
};

const INTENTS: usize = 3;
const SCENES_AT_ONCE: usize = 6;
const BLOCK_TIME: Duration = Duration::from_millis(250);

/// proves S01, S02, S03, S12
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_point_and_a_restart_loses_nothing_and_does_nothing_twice_on_sqlite() {
    let points = FaultPoint::ALL;
    let chain = Chain::with_accounts(Mining::Every(BLOCK_TIME), points.len() as u32);
    let scenes = points.iter().zip(0..).map(|(point, account)| {
        let chain = &chain;
        async move { (*point, restart_on_sqlite(chain, *point, account).await) }
    });
    let reached: Vec<(FaultPoint, bool)> = stream::iter(scenes).buffer_unordered(SCENES_AT_ONCE).collect().await;
    assert_all_were_reached(&reached);
}

/// proves S01, S02, S03, S12
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_point_and_a_takeover_loses_nothing_and_does_nothing_twice_on_postgres() {
    // From the moment that something has been signed: before that there is nothing that could be lost.
    let points: Vec<FaultPoint> =
        FaultPoint::ALL.iter().copied().skip_while(|point| *point != FaultPoint::AfterSign).collect();
    let chain = Chain::with_accounts(Mining::Every(BLOCK_TIME), points.len() as u32);
    let scenes = points.iter().zip(0..).map(|(point, account)| {
        let chain = &chain;
        async move { (*point, takeover_on_postgres(chain, *point, account).await) }
    });
    let reached: Vec<(FaultPoint, bool)> = stream::iter(scenes).buffer_unordered(SCENES_AT_ONCE).collect().await;
    assert_all_were_reached(&reached);
}

/// A point that no process came by proves nothing.
fn assert_all_were_reached(reached: &[(FaultPoint, bool)]) {
    let missed: Vec<&str> = reached.iter().filter(|(_, is)| !is).map(|(point, _)| point.as_str()).collect();
    assert!(missed.is_empty(), "no process came by {missed:?}");
}

/// No transaction's own way comes by these, but the commands of operators do.
fn is_of_commands(point: FaultPoint) -> bool {
    matches!(point, FaultPoint::BeforeOtherCommit | FaultPoint::AfterOtherCommit)
}

/// Whether the point was reached.
async fn restart_on_sqlite(chain: &Chain, point: FaultPoint, account: u32) -> bool {
    let folder = Folder::new("ledger");
    let store = format!("sqlite:{}", folder.path().join("ledger.db").display());
    let config = config(&store, chain, account).abort_at(point.as_str());
    let mut first = Node::start(point.as_str(), &config).await;
    let address = address_of(&first, account).await;
    let answered = hand_in(&first, point, account).await;
    let crashed = until_crash_or_done(&mut first, account).await;
    if crashed && FaultPoint::ALL.iter().take_while(|p| **p != FaultPoint::AfterBroadcast).any(|p| *p == point) {
        assert_eq!(chain.pending_count(&address).await, 0, "{point:?}: something was sent before it was durable");
    }
    drop(first);
    let second = Node::start(point.as_str(), &config.without_faults()).await;
    assert_all_is_well(chain, &second, point, account, &answered).await;
    crashed
}

async fn takeover_on_postgres(chain: &Chain, point: FaultPoint, account: u32) -> bool {
    let database = Database::shared().await;
    let config = config(&database.url, chain, account).short_lease().set("store.postgres.pool_size", "2");
    let mut first = Node::start(&format!("{}-a", point.as_str()), &config.clone().abort_at(point.as_str())).await;
    let answered = hand_in(&first, point, account).await;
    // The second one starts when the first has the lane, and is on its way to the point or already there.
    eventually("the first has had the lane", async || {
        (first.has_aborted() || first.owner_of(&format!("s{account}")).await.is_some()).then_some(())
    })
    .await;
    let second = Node::start(&format!("{}-b", point.as_str()), &config).await;
    let crashed = until_crash_or_done(&mut first, account).await;
    assert_all_is_well(chain, &second, point, account, &answered).await;
    crashed
}

fn config(store: &str, chain: &Chain, account: u32) -> NodeConfig {
    NodeConfig::new(store, &chain.url(), &[account])
        .set("confirmations.required", "2")
        .set("nonce.max_in_flight", if account.is_multiple_of(2) { "1" } else { "2" })
        .set("lane.idle_linger", "100ms")
        .set("lane.resend_first", "500ms")
}

/// Hands in everything, and tells which requests got an answer.
async fn hand_in(node: &Node, point: FaultPoint, account: u32) -> Vec<String> {
    let mut answered = Vec::new();
    if is_of_commands(point) {
        node.client.pause(&format!("s{account}"), None).await.unwrap();
    }
    for n in 0..INTENTS {
        if let Ok((accepted, _)) = node.client.create_tx(&intent(account, n)).await {
            answered.push(accepted.request_id);
        }
    }
    answered
}

async fn address_of(node: &Node, account: u32) -> String {
    let view = node.client.submitter(&format!("s{account}"), &[]).await.unwrap();
    view.submitter.rsplit(':').next().unwrap().to_owned()
}

fn intent(account: u32, n: usize) -> TxRequest {
    transfer(&format!("s{account}"), &format!("r{n}"), &recipient(account))
}

fn recipient(account: u32) -> String {
    format!("0x{:040x}", 0xa_0100 + account)
}

/// Until the process has crashed (true), or has nothing left to come by: all is over and the lane given back.
async fn until_crash_or_done(node: &mut Node, account: u32) -> bool {
    let submitter = format!("s{account}");
    let mut idle = 0;
    eventually("a process crashes, or is done", async || {
        if node.has_aborted() {
            return Some(true);
        }
        let view = node.client.submitter(&submitter, &[SubmitterExpand::Lease]).await.ok()?;
        idle = if view.queued == 0 && view.open == 0 && view.lease.is_none() { idle + 1 } else { 0 };
        (idle > 25).then_some(false)
    })
    .await
}

/// What was answered is there. Then asks for everything once more, as a caller without an answer does, and waits until it is
/// over.
async fn assert_all_is_well(chain: &Chain, node: &Node, point: FaultPoint, account: u32, answered: &[String]) {
    let submitter = format!("s{account}");
    if is_of_commands(point) {
        node.client.resume(&submitter, None).await.unwrap();
    }
    for request_id in answered {
        let found = node.client.tx_by_request(&submitter, request_id, &TxQuery::default()).await;
        assert!(found.is_ok(), "{request_id} was answered, and is lost: {found:?}");
    }
    let clients: Vec<&Client> = vec![&node.client];
    let mut accepted: Vec<Accepted> = Vec::new();
    for n in 0..INTENTS {
        accepted.push(create(&clients, 0, &intent(account, n)).await);
    }
    wait_until_done(&node.client, &submitter).await;
    Ledger::read(&node.client, &submitter).await.assert_exactly_once(chain, &accepted).await;
    assert_eq!(chain.balance(&recipient(account)).await, INTENTS as u64);
}
