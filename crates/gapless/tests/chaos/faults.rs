//! The faults, and their order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gapless_sim::Dice;
use serde_json::json;

use crate::callers::LANES;
use crate::cluster::{ChaosCluster, NODES, OwnedLane, REQUIRED};
use crate::operator;
use crate::scan::newest;
use crate::settings::RunSettings;
use crate::support::eventually;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChaosFault {
    /// `kill -9`, and a new process at once or after a takeover.
    Kill,
    /// SIGTERM, and a new process.
    Restart,
    /// SIGSTOP for longer than the lease.
    Sleep,
    /// One node is cut from the database for longer than the lease.
    CutDatabase,
    /// One node is cut from the chain.
    CutChain,
    /// All connections of a node are closed, and new ones are refused for a short time.
    DropConnections,
    /// A hard restart of PostgreSQL.
    CrashDatabase,
    /// Several reorgs.
    Reorg,
    /// An operator pauses a lane and resumes it.
    Pause,
    /// PostgreSQL is lost, and a standby without its last commits replaces it.
    Promote,
}

/// The faults of every round. A promotion is less frequent.
const COMMON: [ChaosFault; 9] = [
    ChaosFault::Kill,
    ChaosFault::Restart,
    ChaosFault::Sleep,
    ChaosFault::CutDatabase,
    ChaosFault::CutChain,
    ChaosFault::DropConnections,
    ChaosFault::CrashDatabase,
    ChaosFault::Reorg,
    ChaosFault::Pause,
];
/// Faults at the same time, each at another node, so that one node is always healthy.
const AT_ONCE: usize = NODES - 1;
/// The time limit for a takeover: an expired lease, the skew and a sweep, on a busy machine.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(12);
/// The minimum time between two promotions. After a promotion all lanes wait for the operator.
const BETWEEN_PROMOTIONS: Duration = Duration::from_secs(110);
/// The counter of promotions.
pub(crate) const PROMOTED: &str = "promotion of a standby that lacks commits";
/// Longer than a lease plus the skew.
const LEASE_OVER: Duration = Duration::from_millis(4500);
const CALM_BETWEEN: Duration = Duration::from_millis(800);
const REORGS: u64 = 4;

/// Injects all faults in a random order, two at a time, the first one at the owner of a lane. Repeats that until the
/// time is over.
pub(crate) async fn inject_all(cluster: &Arc<ChaosCluster>, settings: &RunSettings, mut rng: Dice) {
    let start = Instant::now();
    let has_standby = cluster.servers.make_standby().await;
    if !has_standby {
        println!("chaos: this PostgreSQL has no pg_basebackup, so no standby is promoted");
    }
    let mut promoted: Option<Instant> = None;
    loop {
        let mut round = COMMON.to_vec();
        if has_standby && promoted.is_none_or(|promoted| promoted.elapsed() >= BETWEEN_PROMOTIONS) {
            round.push(ChaosFault::Promote);
            promoted = Some(Instant::now());
        }
        rng.shuffle(&mut round);
        for faults in round.chunks(AT_ONCE) {
            let first =
                cluster.owner_or(rng.below(LANES.len() as u64) as usize, rng.below(NODES as u64) as usize).await;
            let targets = faults.iter().zip(first..);
            join_all(targets.map(|(fault, victim)| inject(cluster, *fault, victim % NODES, rng.fork()))).await;
            if let Some(loss) = cluster.take_loss() {
                operator::reconcile(cluster, settings, loss).await;
                cluster.servers.make_standby().await;
            }
            tokio::time::sleep(rng.up_to(CALM_BETWEEN)).await;
            if settings.span.is_some_and(|span| start.elapsed() >= span) {
                return;
            }
        }
        if settings.span.is_none() {
            return;
        }
    }
}

async fn inject(cluster: &Arc<ChaosCluster>, fault: ChaosFault, victim: usize, mut rng: Dice) {
    match fault {
        ChaosFault::Kill => kill(cluster, victim, &mut rng).await,
        ChaosFault::Restart => restart(cluster, victim).await,
        ChaosFault::Sleep => sleep(cluster, victim, &mut rng).await,
        ChaosFault::CutDatabase => cut_database(cluster, victim, &mut rng).await,
        ChaosFault::CutChain => {
            cluster.proxies(victim).chain.cut();
            wait(Duration::from_secs(1) + rng.up_to(Duration::from_secs(3))).await;
            cluster.proxies(victim).heal();
        }
        ChaosFault::DropConnections => {
            let proxies = cluster.proxies(victim);
            proxies.database.drop_all();
            proxies.chain.drop_all();
            wait(rng.up_to(Duration::from_secs(1))).await;
            proxies.heal();
        }
        ChaosFault::CrashDatabase => cluster.servers.crash(rng.up_to(Duration::from_secs(2))).await,
        ChaosFault::Reorg => reorg(cluster, &mut rng).await,
        ChaosFault::Pause => pause(cluster, victim, &mut rng).await,
        ChaosFault::Promote => cluster.fail_over(rng.up_to(Duration::from_secs(2))).await,
    }
    cluster.statistics().count(match fault {
        ChaosFault::Kill => "kill -9",
        ChaosFault::Restart => "restart (SIGTERM)",
        ChaosFault::Sleep => "pause past the lease (SIGSTOP)",
        ChaosFault::CutDatabase => "cut from the database",
        ChaosFault::CutChain => "cut from the chain",
        ChaosFault::DropConnections => "dropped connections",
        ChaosFault::CrashDatabase => "PostgreSQL crash",
        ChaosFault::Reorg => "round of reorgs",
        ChaosFault::Pause => "lane paused by an operator",
        ChaosFault::Promote => PROMOTED,
    });
}

/// Waits for the duration of a fault.
async fn wait(span: Duration) {
    tokio::time::sleep(span).await;
}

async fn kill(cluster: &ChaosCluster, victim: usize, rng: &mut Dice) {
    let mut node = cluster.node(victim).await;
    let owned = cluster.owned_by(victim, &node.name).await;
    let since = Instant::now();
    node.signal("KILL");
    node.wait_for_end().await;
    if rng.one_in(2) {
        // A new process with the same name starts while the lease of the killed process still holds.
        cluster.start_again(victim, &mut node).await;
        cluster.wait_for_takeovers(victim, owned, since, TAKEOVER_LIMIT).await;
    } else {
        cluster.wait_for_takeovers(victim, owned, since, TAKEOVER_LIMIT).await;
        cluster.start_again(victim, &mut node).await;
    }
}

/// Restarts a node by SIGTERM. Without a database at that time the drain may fail.
async fn restart(cluster: &ChaosCluster, victim: usize) {
    let mut node = cluster.node(victim).await;
    node.signal("TERM");
    node.wait_for_end().await;
    cluster.start_again(victim, &mut node).await;
}

async fn sleep(cluster: &ChaosCluster, victim: usize, rng: &mut Dice) {
    let mut node = cluster.node(victim).await;
    let owned = cluster.owned_by(victim, &node.name).await;
    let since = Instant::now();
    node.signal("STOP");
    outlast_lease(cluster, victim, owned, since, rng).await;
    node.signal("CONT");
}

async fn cut_database(cluster: &ChaosCluster, victim: usize, rng: &mut Dice) {
    let node = cluster.node(victim).await;
    let owned = cluster.owned_by(victim, &node.name).await;
    let since = Instant::now();
    cluster.proxies(victim).database.cut();
    outlast_lease(cluster, victim, owned, since, rng).await;
    cluster.proxies(victim).heal();
}

async fn outlast_lease(cluster: &ChaosCluster, victim: usize, owned: Vec<OwnedLane>, since: Instant, rng: &mut Dice) {
    cluster.wait_for_takeovers(victim, owned, since, TAKEOVER_LIMIT).await;
    wait(LEASE_OVER.saturating_sub(since.elapsed()) + rng.up_to(Duration::from_secs(1))).await;
}

async fn reorg(cluster: &ChaosCluster, rng: &mut Dice) {
    const WAYS: [&str; 4] = ["same", "toPool", "shuffle", "drop"];
    for _ in 0..REORGS {
        let (head, blocks) = (cluster.chain.head().await, 1 + rng.below(3));
        eventually("the chain has new blocks", async || (cluster.chain.head().await >= head + blocks).then_some(()))
            .await;
        let (depth, way) = (1 + rng.below(REQUIRED - 1), WAYS[rng.below(4) as usize]);
        cluster.record_blocks(newest(&cluster.chain, depth).await);
        cluster.chain.call("gapless_reorg", json!([depth, way])).await;
        cluster.statistics().count("reorg");
        cluster.statistics().add("orphaned block", depth as usize);
    }
}

/// Pauses and resumes a lane. Commands are repeated until there is an answer.
async fn pause(cluster: &ChaosCluster, first: usize, rng: &mut Dice) {
    let submitter = LANES[rng.below(LANES.len() as u64) as usize].submitter();
    let mut turn = first;
    let mut next = || {
        turn += 1;
        cluster.node_clients().client(turn)
    };
    eventually("a lane is paused", async || answer(next().pause(&submitter, None)).await).await;
    wait(rng.up_to(Duration::from_secs(3))).await;
    eventually("a lane is resumed", async || answer(next().resume(&submitter, None)).await).await;
}

async fn answer<T, E>(call: impl Future<Output = Result<T, E>>) -> Option<T> {
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
    tokio::time::timeout(ANSWER_TIMEOUT, call).await.ok()?.ok()
}
