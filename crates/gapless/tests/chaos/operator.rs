//! The operator after the database has lost commits: checks, waits, and reconciles one lane after the other
//! (docs/nonces.md).

use std::time::Duration;

use gapless_wire::{Client, ClientError, CommandState, CommandView, ResyncRequest, SubmitterExpand};
use serde_json::json;

use crate::callers::{LANES, LaneLoad, send_again};
use crate::cluster::{ChaosCluster, NODES, REQUIRED};
use crate::scan::{ScannedBlock, newest, request_of};
use crate::servers::LostCommits;
use crate::settings::RunSettings;
use crate::support::eventually;

const WAIT: Option<Duration> = Some(Duration::from_secs(5));
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
const DRY_RUN: ResyncRequest = ResyncRequest { lost: None, dry_run: Some(true) };
const RESYNC: ResyncRequest = ResyncRequest { lost: None, dry_run: None };
const REGRESSED: &str = "store_regressed";
const CHAIN: &str = "eip155:31337";

/// Reconciles all lanes. No other fault is active meanwhile, because a node that cannot be reached may still have
/// transactions to send.
pub(crate) async fn reconcile(cluster: &ChaosCluster, settings: &RunSettings, loss: LostCommits) {
    // Each node that misses its own commits declares the loss again, which undoes earlier decisions.
    let since = cluster.servers.now().await;
    eventually("every node has checked its own commits", async || {
        (cluster.servers.checked_since(since).await == NODES).then_some(())
    })
    .await;
    for lane in &LANES {
        eventually("a lane is in PROTECT because of lost commits", async || is_regressed(cluster, lane).await).await;
    }
    let known = eventually("a node shows a final block", async || final_block(cluster, 0).await).await;
    for lane in &LANES {
        wait_until_all_is_final(cluster, lane, known).await;
    }
    let progress = cluster.servers.lane_progress().await;
    for (submitter, before) in &loss.progress {
        if progress.get(submitter) != Some(before) {
            let now = progress.get(submitter);
            cluster.violations().add("P7", format!("{submitter} changed after lost commits: {before:?}, then {now:?}"));
        }
    }
    for lane in &LANES {
        let lost =
            cluster.answers().declare_lost(&lane.submitter(), &cluster.servers.requests(&lane.submitter()).await);
        cluster.statistics().add("accepted request lost", lost.len());
        resync(cluster, settings, lane).await;
        let gone: Vec<String> = lost.into_iter().filter(|lost| !cluster.answers().is_found_on_chain(lost)).collect();
        cluster.statistics().add("lost request sent again", gone.len());
        send_again(cluster, lane, &gone).await;
    }
    cluster.statistics().add("lost commit", usize::try_from(loss.commits).unwrap_or_default());
}

async fn is_regressed(cluster: &ChaosCluster, lane: &LaneLoad) -> Option<()> {
    for turn in 0..NODES {
        let view = with_timeout(cluster.node_clients().client(turn).submitter(&lane.submitter(), &[])).await?.ok()?;
        if view.protect.is_none_or(|protect| protect.code != REGRESSED) {
            return None;
        }
    }
    Some(())
}

/// Waits until every transaction of a lane is final, or in no pool any more, and the final block is above the one that
/// was known after the loss. A node shows a block as final after it has saved the block, and no node scans without it.
async fn wait_until_all_is_final(cluster: &ChaosCluster, lane: &LaneLoad, known: u64) {
    let mut turn = 0;
    eventually("all transactions of a lane are final", async || {
        turn += 1;
        let client = cluster.node_clients().client(turn);
        let view = with_timeout(client.submitter(&lane.submitter(), &[SubmitterExpand::Nonces])).await?.ok()?;
        let nonces = view.nonces?;
        let address = view.submitter.rsplit(':').next()?;
        let has_tx = |block: &&ScannedBlock| block.transactions.iter().any(|tx| tx.from.eq_ignore_ascii_case(address));
        // Blocks below these are final for a long time.
        let blocks = newest(&cluster.chain, REQUIRED * 8).await;
        let with_tx = blocks.iter().rev().find(has_tx).map_or(0, |block| block.number);
        let finalized = final_block(cluster, turn).await?;
        let is_settled = nonces.settled.is_some() && nonces.settled == nonces.latest;
        (is_settled && nonces.latest == nonces.preconfirmed && finalized > known && finalized >= with_tx).then_some(())
    })
    .await;
}

/// The number of the final block, as a node shows it.
async fn final_block(cluster: &ChaosCluster, turn: usize) -> Option<u64> {
    let view = with_timeout(cluster.node_clients().client(turn).chain(CHAIN)).await?.ok()?;
    view.final_block.map(|block| block.block_number)
}

/// Reads the dry run first. A foreign transaction in it belongs to a lost request, which must not be repeated, so it is
/// recorded before the lane accepts requests again.
async fn resync(cluster: &ChaosCluster, settings: &RunSettings, lane: &LaneLoad) {
    let report = run_command(
        cluster,
        lane,
        async |client, name| client.resync(name, &DRY_RUN, WAIT).await,
        |report| !report.contains("it would be refused now"),
    )
    .await;
    for line in report.lines() {
        // The line is `adopt nonce 7: transaction 0x… in block 9 (…)`. A transaction of an intent has another line:
        // `adopt nonce 7 for intent …`.
        let Some((nonce, evidence)) = line.strip_prefix("adopt nonce ").and_then(|rest| rest.split_once(": ")) else {
            continue;
        };
        let hash = evidence.strip_prefix("transaction ").and_then(|rest| rest.split(' ').next());
        let Some(hash) = hash.filter(|_| nonce.parse::<u64>().is_ok()) else { continue };
        let request = request_of(&cluster.chain.call("eth_getTransactionByHash", json!([hash])).await["input"]);
        cluster.statistics().count("lost request found on chain");
        if settings.resend_blindly {
            continue;
        }
        if !cluster.answers().record_found_on_chain(&request) {
            cluster.violations().add("P7", format!("{hash} has the request id {request:?}, which no caller sent"));
        }
    }
    run_command(cluster, lane, async |client, name| client.resync(name, &RESYNC, WAIT).await, |_| true).await;
    // The database may have kept a pause and lost its end.
    run_command(cluster, lane, async |client, name| client.resume(name, WAIT).await, |_| true).await;
    eventually("a lane is out of PROTECT", async || {
        let view = with_timeout(cluster.node_clients().client(0).submitter(&lane.submitter(), &[])).await?.ok()?;
        view.protect.is_none().then_some(())
    })
    .await;
}

/// Sends a command to one node after the other until the lane has executed it, and returns its result.
async fn run_command(
    cluster: &ChaosCluster,
    lane: &LaneLoad,
    command: impl AsyncFn(&Client, &str) -> Result<CommandView, ClientError>,
    is_enough: impl Fn(&str) -> bool,
) -> String {
    let (name, mut turn) = (lane.submitter(), 0);
    eventually("a lane has executed a command", async || {
        turn += 1;
        let client = cluster.node_clients().client(turn);
        let view = with_timeout(command(&client, &name)).await?.ok()?;
        let result = view.result.filter(|_| view.state == CommandState::Done)?;
        is_enough(&result).then_some(result)
    })
    .await
}

async fn with_timeout<T>(answer: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(ANSWER_TIMEOUT, answer).await.ok()
}
