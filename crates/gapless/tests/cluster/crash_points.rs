//! A node that crashes at each fault point: no accepted intent is lost, and none takes effect twice.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use gapless_engine::FaultPoint;
use gapless_testbed::Mining;
use gapless_wire::{Client, SubmitterExpand, TxQuery, TxRequest};

use crate::support::{
    AcceptedRequest, NodeProcess, SubmitterLedger, TestChain, TestDatabase, TestFolder, TestNodeConfig, create,
    eventually, transfer, wait_until_done,
};

const INTENTS: usize = 3;
const RUNS_AT_ONCE: usize = 6;
const BLOCK_TIME: Duration = Duration::from_millis(250);

/// proves S01, S02, S03, S12
#[tokio::test(flavor = "multi_thread")]
async fn crash_at_each_point_and_restart_on_sqlite_is_exactly_once() {
    let points = FaultPoint::ALL;
    let chain = TestChain::with_accounts(Mining::Every(BLOCK_TIME), points.len() as u32);
    let runs = points.iter().zip(0..).map(|(point, account)| {
        let chain = &chain;
        async move { (*point, restart_on_sqlite(chain, *point, account).await) }
    });
    let reached: Vec<(FaultPoint, bool)> = stream::iter(runs).buffer_unordered(RUNS_AT_ONCE).collect().await;
    assert_all_reached(&reached);
}

/// proves S01, S02, S03, S12
#[tokio::test(flavor = "multi_thread")]
async fn crash_at_each_point_and_takeover_is_exactly_once() {
    // Begins with the first signature, because a crash before it cannot lose a transaction.
    let points: Vec<FaultPoint> =
        FaultPoint::ALL.iter().copied().skip_while(|point| *point != FaultPoint::AfterSign).collect();
    let chain = TestChain::with_accounts(Mining::Every(BLOCK_TIME), points.len() as u32);
    let runs = points.iter().zip(0..).map(|(point, account)| {
        let chain = &chain;
        async move { (*point, takeover_on_postgres(chain, *point, account).await) }
    });
    let reached: Vec<(FaultPoint, bool)> = stream::iter(runs).buffer_unordered(RUNS_AT_ONCE).collect().await;
    assert_all_reached(&reached);
}

/// A fault point that no process reached proves nothing.
fn assert_all_reached(reached: &[(FaultPoint, bool)]) {
    let missed: Vec<&str> = reached.iter().filter(|(_, is)| !is).map(|(point, _)| point.as_str()).collect();
    assert!(missed.is_empty(), "no process reached {missed:?}");
}

/// True for the points that only operator commands reach.
fn is_of_commands(point: FaultPoint) -> bool {
    matches!(point, FaultPoint::BeforeOtherCommit | FaultPoint::AfterOtherCommit)
}

/// Crashes and restarts one node on SQLite. Returns true if the point was reached.
async fn restart_on_sqlite(chain: &TestChain, point: FaultPoint, account: u32) -> bool {
    let folder = TestFolder::new("ledger");
    let store = format!("sqlite:{}", folder.path().join("ledger.db").display());
    let config = config(&store, chain, account).abort_at(point.as_str());
    let mut first = NodeProcess::start(point.as_str(), &config).await;
    let address = address_of(&first, account).await;
    let answered = create_intents(&first, point, account).await;
    let crashed = wait_for_crash_or_idle(&mut first, account).await;
    if crashed && FaultPoint::ALL.iter().take_while(|p| **p != FaultPoint::AfterBroadcast).any(|p| *p == point) {
        assert_eq!(chain.pending_count(&address).await, 0, "{point:?}: a transaction was sent before it was durable");
    }
    drop(first);
    let second = NodeProcess::start(point.as_str(), &config.without_faults()).await;
    assert_exactly_once(chain, &second, point, account, &answered).await;
    crashed
}

/// Crashes one node on PostgreSQL while another one takes over. Returns true if the point was reached.
async fn takeover_on_postgres(chain: &TestChain, point: FaultPoint, account: u32) -> bool {
    let database = TestDatabase::shared().await;
    let config = config(&database.url, chain, account).short_lease().set("store.postgres.pool_size", "2");
    let mut first =
        NodeProcess::start(&format!("{}-a", point.as_str()), &config.clone().abort_at(point.as_str())).await;
    let answered = create_intents(&first, point, account).await;
    // The second node starts after the first node owns the lane, so that the first node reaches the point.
    eventually("the first node owns the lane", async || {
        (first.has_aborted() || first.owner_of(&format!("s{account}")).await.is_some()).then_some(())
    })
    .await;
    let second = NodeProcess::start(&format!("{}-b", point.as_str()), &config).await;
    let crashed = wait_for_crash_or_idle(&mut first, account).await;
    assert_exactly_once(chain, &second, point, account, &answered).await;
    crashed
}

fn config(store: &str, chain: &TestChain, account: u32) -> TestNodeConfig {
    TestNodeConfig::new(store, &chain.url(), &[account])
        .set("confirmations.required", "2")
        .set("nonce.max_in_flight", if account.is_multiple_of(2) { "1" } else { "2" })
        .set("lane.idle_linger", "100ms")
        .set("lane.resend_first", "500ms")
}

/// Sends all requests, and returns the ids of the answered ones.
async fn create_intents(node: &NodeProcess, point: FaultPoint, account: u32) -> Vec<String> {
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

async fn address_of(node: &NodeProcess, account: u32) -> String {
    let view = node.client.submitter(&format!("s{account}"), &[]).await.unwrap();
    view.submitter.rsplit(':').next().unwrap().to_owned()
}

fn intent(account: u32, n: usize) -> TxRequest {
    transfer(&format!("s{account}"), &format!("r{n}"), &recipient(account))
}

fn recipient(account: u32) -> String {
    format!("0x{:040x}", 0xa_0100 + account)
}

/// Waits until the process has crashed (true), or until it is idle and has released the lane (false).
async fn wait_for_crash_or_idle(node: &mut NodeProcess, account: u32) -> bool {
    let submitter = format!("s{account}");
    let mut idle = 0;
    eventually("a process crashes or is idle", async || {
        if node.has_aborted() {
            return Some(true);
        }
        let view = node.client.submitter(&submitter, &[SubmitterExpand::Lease]).await.ok()?;
        idle = if view.queued == 0 && view.open == 0 && view.lease.is_none() { idle + 1 } else { 0 };
        (idle > 25).then_some(false)
    })
    .await
}

/// Asserts that answered requests exist. Then repeats all requests, as a caller without an answer does, and checks that
/// each took effect exactly once.
async fn assert_exactly_once(
    chain: &TestChain,
    node: &NodeProcess,
    point: FaultPoint,
    account: u32,
    answered: &[String],
) {
    let submitter = format!("s{account}");
    if is_of_commands(point) {
        node.client.resume(&submitter, None).await.unwrap();
    }
    for request_id in answered {
        let found = node.client.tx_by_request(&submitter, request_id, &TxQuery::default()).await;
        assert!(found.is_ok(), "{request_id} was answered and is lost: {found:?}");
    }
    let clients: Vec<&Client> = vec![&node.client];
    let mut accepted: Vec<AcceptedRequest> = Vec::new();
    for n in 0..INTENTS {
        accepted.push(create(&clients, 0, &intent(account, n)).await);
    }
    wait_until_done(&node.client, &submitter).await;
    SubmitterLedger::read(&node.client, &submitter).await.assert_exactly_once(chain, &accepted).await;
    assert_eq!(chain.balance(&recipient(account)).await, INTENTS as u64);
}
