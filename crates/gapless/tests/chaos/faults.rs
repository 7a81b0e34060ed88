//! What can go wrong, and in which order it does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gapless_sim::Dice;
use serde_json::json;

use crate::callers::LANES;
use crate::operator;
use crate::rules::Rules;
use crate::scan::newest;
use crate::support::eventually;
use crate::world::{Held, NODES, REQUIRED, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// `kill -9`, and a new process at once or when its lanes are others'.
    Kill,
    /// SIGTERM, and a new process.
    Restart,
    /// SIGSTOP for longer than the lease.
    Sleep,
    /// No byte to or from the database, for longer than the lease.
    CutDatabase,
    /// No byte to or from the chain.
    CutChain,
    /// Every connection of a node ends, and for a moment there is no other.
    DropConnections,
    /// A hard restart of PostgreSQL.
    CrashDatabase,
    /// Blocks are taken back, a few times.
    Reorganise,
    /// An operator pauses a lane, and resumes it.
    Pause,
    /// PostgreSQL dies for good, and the standby that takes its place lacks its last commits.
    Promote,
}

/// These strike again and again; a promotion less often.
const COMMON: [Fault; 9] = [
    Fault::Kill,
    Fault::Restart,
    Fault::Sleep,
    Fault::CutDatabase,
    Fault::CutChain,
    Fault::DropConnections,
    Fault::CrashDatabase,
    Fault::Reorganise,
    Fault::Pause,
];
/// Of these, so many strike at once, each at another node: one node is always well.
const AT_ONCE: usize = NODES - 1;
/// An expired lease, the skew, a sweep; and a machine that is busy.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(12);
/// A failover that loses commits takes an operator, and stops all lanes until that is done.
const BETWEEN_PROMOTIONS: Duration = Duration::from_secs(110);
/// How it is counted.
pub(crate) const PROMOTED: &str = "promotion of a standby that lacks commits";
/// Longer than a lease and the skew.
const LEASE_OVER: Duration = Duration::from_millis(4500);
const CALM_BETWEEN: Duration = Duration::from_millis(800);
const REORGS: u64 = 4;

/// All of them in an order of the dice, two at a time, the first of them at whoever owns some lane, since that hurts most; then
/// again, until the time is over.
pub(crate) async fn strike_all(world: &Arc<World>, rules: &Rules, mut dice: Dice) {
    let start = Instant::now();
    let has_standby = world.servers.make_standby().await;
    if !has_standby {
        println!("chaos: this PostgreSQL comes without pg_basebackup, so no standby is promoted");
    }
    let mut promoted: Option<Instant> = None;
    loop {
        let mut deck = COMMON.to_vec();
        if has_standby && promoted.is_none_or(|promoted| promoted.elapsed() >= BETWEEN_PROMOTIONS) {
            deck.push(Fault::Promote);
            promoted = Some(Instant::now());
        }
        dice.shuffle(&mut deck);
        for faults in deck.chunks(AT_ONCE) {
            let first =
                world.owner_or(dice.below(LANES.len() as u64) as usize, dice.below(NODES as u64) as usize).await;
            let struck = faults.iter().zip(first..);
            join_all(struck.map(|(fault, victim)| strike(world, *fault, victim % NODES, dice.fork()))).await;
            if let Some(loss) = world.take_loss() {
                operator::reconcile(world, rules, loss).await;
                world.servers.make_standby().await;
            }
            tokio::time::sleep(dice.up_to(CALM_BETWEEN)).await;
            if rules.span.is_some_and(|span| start.elapsed() >= span) {
                return;
            }
        }
        if rules.span.is_none() {
            return;
        }
    }
}

async fn strike(world: &Arc<World>, fault: Fault, victim: usize, mut dice: Dice) {
    match fault {
        Fault::Kill => kill(world, victim, &mut dice).await,
        Fault::Restart => restart(world, victim).await,
        Fault::Sleep => sleep(world, victim, &mut dice).await,
        Fault::CutDatabase => cut_database(world, victim, &mut dice).await,
        Fault::CutChain => {
            world.roads(victim).chain.cut();
            wait(Duration::from_secs(1) + dice.up_to(Duration::from_secs(3))).await;
            world.roads(victim).heal();
        }
        Fault::DropConnections => {
            let roads = world.roads(victim);
            roads.database.drop_all();
            roads.chain.drop_all();
            wait(dice.up_to(Duration::from_secs(1))).await;
            roads.heal();
        }
        Fault::CrashDatabase => world.servers.crash(dice.up_to(Duration::from_secs(2))).await,
        Fault::Reorganise => reorganise(world, &mut dice).await,
        Fault::Pause => pause(world, victim, &mut dice).await,
        Fault::Promote => world.fail_over(dice.up_to(Duration::from_secs(2))).await,
    }
    world.figures().count(match fault {
        Fault::Kill => "kill -9",
        Fault::Restart => "restart (SIGTERM)",
        Fault::Sleep => "pause past the lease (SIGSTOP)",
        Fault::CutDatabase => "cut from the database",
        Fault::CutChain => "cut from the chain",
        Fault::DropConnections => "dropped connections",
        Fault::CrashDatabase => "PostgreSQL crash",
        Fault::Reorganise => "round of reorganisations",
        Fault::Pause => "lane paused by an operator",
        Fault::Promote => PROMOTED,
    });
}

/// Time that passes is what some faults are made of.
async fn wait(span: Duration) {
    tokio::time::sleep(span).await;
}

async fn kill(world: &World, victim: usize, dice: &mut Dice) {
    let mut node = world.node(victim).await;
    let held = world.held_by(victim, &node.name).await;
    let since = Instant::now();
    node.signal("KILL");
    node.wait_for_end().await;
    if dice.one_in(2) {
        // A new process of the same name, while its zombie's lease still holds.
        world.start_again(victim, &mut node).await;
        world.wait_for_takeovers(victim, held, since, TAKEOVER_LIMIT).await;
    } else {
        world.wait_for_takeovers(victim, held, since, TAKEOVER_LIMIT).await;
        world.start_again(victim, &mut node).await;
    }
}

/// It may be unable to end well, if it has no database just then.
async fn restart(world: &World, victim: usize) {
    let mut node = world.node(victim).await;
    node.signal("TERM");
    node.wait_for_end().await;
    world.start_again(victim, &mut node).await;
}

async fn sleep(world: &World, victim: usize, dice: &mut Dice) {
    let mut node = world.node(victim).await;
    let held = world.held_by(victim, &node.name).await;
    let since = Instant::now();
    node.signal("STOP");
    outlast_lease(world, victim, held, since, dice).await;
    node.signal("CONT");
}

async fn cut_database(world: &World, victim: usize, dice: &mut Dice) {
    let node = world.node(victim).await;
    let held = world.held_by(victim, &node.name).await;
    let since = Instant::now();
    world.roads(victim).database.cut();
    outlast_lease(world, victim, held, since, dice).await;
    world.roads(victim).heal();
}

async fn outlast_lease(world: &World, victim: usize, held: Vec<Held>, since: Instant, dice: &mut Dice) {
    world.wait_for_takeovers(victim, held, since, TAKEOVER_LIMIT).await;
    wait(LEASE_OVER.saturating_sub(since.elapsed()) + dice.up_to(Duration::from_secs(1))).await;
}

async fn reorganise(world: &World, dice: &mut Dice) {
    const WAYS: [&str; 4] = ["same", "toPool", "shuffle", "drop"];
    for _ in 0..REORGS {
        let (head, blocks) = (world.chain.head().await, 1 + dice.below(3));
        eventually("there are new blocks", async || (world.chain.head().await >= head + blocks).then_some(())).await;
        let (depth, way) = (1 + dice.below(REQUIRED - 1), WAYS[dice.below(4) as usize]);
        world.see(newest(&world.chain, depth).await);
        world.chain.call("gapless_reorg", json!([depth, way])).await;
        world.figures().count("reorganisation");
        world.figures().add("block taken back", depth as usize);
    }
}

/// Commands are asked for until they are answered, like everything else.
async fn pause(world: &World, first: usize, dice: &mut Dice) {
    let submitter = LANES[dice.below(LANES.len() as u64) as usize].submitter();
    let mut turn = first;
    let mut next = || {
        turn += 1;
        world.doors().client(turn)
    };
    eventually("a lane is paused", async || answer(next().pause(&submitter, None)).await).await;
    wait(dice.up_to(Duration::from_secs(3))).await;
    eventually("a lane is resumed", async || answer(next().resume(&submitter, None)).await).await;
}

async fn answer<T, E>(asked: impl Future<Output = Result<T, E>>) -> Option<T> {
    const PATIENCE: Duration = Duration::from_secs(2);
    tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()
}
