//! Faults that hit processes and the database from outside.

use std::sync::Arc;
use std::time::Duration;

use crate::dice::Dice;
use crate::fault::Fault;
use crate::stage::TaskOwner;
use crate::world::SharedWorld;

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn spawn_all(world: &Arc<SharedWorld>) {
    let seed = world.parts.plan.seed;
    world.stage().spawn(TaskOwner::World, processes(Arc::clone(world), Dice::new(seed, "processes")));
    world.stage().spawn(TaskOwner::World, database_clock(Arc::clone(world), Dice::new(seed, "database clock")));
    if world.faults().has(Fault::Failover) {
        world.stage().spawn(TaskOwner::World, standby(Arc::clone(world), Dice::new(seed, "standby")));
    }
}

/// Starts the node again after a delay, as systemd would.
pub(crate) fn restart_later(world: &Arc<SharedWorld>, node: usize) {
    let (world, seed) = (Arc::clone(world), world.parts.plan.seed);
    let task = Arc::clone(&world);
    world.stage().spawn(TaskOwner::World, async move {
        let now = task.stage().now().as_micros();
        let mut dice = Dice::new(seed ^ u64::try_from(now).unwrap_or(0), "start again");
        task.stage().sleep(dice.duration(SECOND / 10, SECOND * 20)).await;
        if task.is_empty(node) {
            task.start(node);
        }
    });
}

async fn processes(world: Arc<SharedWorld>, mut dice: Dice) {
    while !world.faults().is_calm() {
        // A random period: at whole seconds, periodic work of a node would never be hit.
        world.stage().sleep(dice.duration(SECOND / 2, SECOND * 3 / 2)).await;
        for node in 0..world.node_count() {
            let Some((task_owner, owner)) =
                world.with_process(node, |process| (process.task_owner, process.owner.clone()))
            else {
                continue;
            };
            if world.faults().strikes(Fault::CrashAnywhere) {
                world.strike(Fault::CrashAnywhere, format!("{owner} is killed"));
                world.end(node, "kill -9");
                restart_later(&world, node);
            } else if world.faults().rolls(Fault::Drain) && drain(&world, node, task_owner) {
                world.faults().count(Fault::Drain);
                world.strike(Fault::Drain, format!("{owner} drains"));
            } else if !world.stage().is_paused(task_owner) && world.faults().strikes(Fault::Pause) {
                let span = dice.duration(SECOND, SECOND * 30);
                world.strike(Fault::Pause, format!("{owner} is paused for {:.1} s", span.as_secs_f64()));
                pause(&world, task_owner, span);
            } else if world.faults().strikes(Fault::NodeClockJump) {
                let ahead = dice.duration(SECOND / 10, SECOND * 30);
                world.strike(
                    Fault::NodeClockJump,
                    format!("the clock of {owner} jumps by {:.1} s", ahead.as_secs_f64()),
                );
                world.with_process(node, |process| process.clock.jump(ahead));
            }
        }
    }
}

/// Drains a process, as SIGTERM does: lanes finish their work, leases are released, and another process starts in its
/// place. False if the process drains already.
fn drain(world: &Arc<SharedWorld>, node: usize, task_owner: TaskOwner) -> bool {
    let Some(Some(engine)) = world.with_process(node, |process| process.engine.take()) else { return false };
    let task = Arc::clone(world);
    world.stage().spawn(task_owner, async move {
        engine.drain().await;
        // A task of the world ends the process, because a task of the process cannot drop itself.
        let after = Arc::clone(&task);
        task.stage().spawn(TaskOwner::World, async move {
            if after.with_process(node, |process| process.task_owner) == Some(task_owner) {
                after.end(node, "drained");
                restart_later(&after, node);
            }
        });
    });
    true
}

fn pause(world: &Arc<SharedWorld>, task_owner: TaskOwner, span: Duration) {
    world.stage().pause(task_owner);
    let task = Arc::clone(world);
    world.stage().spawn(TaskOwner::World, async move {
        task.stage().sleep(span).await;
        task.stage().resume(task_owner);
    });
}

async fn database_clock(world: Arc<SharedWorld>, mut dice: Dice) {
    while !world.faults().is_calm() {
        world.stage().sleep(SECOND).await;
        if world.faults().strikes(Fault::DatabaseClockJump) {
            let (by, ahead) = (dice.duration(SECOND / 10, SECOND * 40), dice.permille(500));
            let direction = if ahead { "ahead" } else { "back" };
            world.strike(
                Fault::DatabaseClockJump,
                format!("the database's clock is set {direction} by {:.1} s", by.as_secs_f64()),
            );
            world.parts.database.jump(by, ahead);
        }
    }
}

/// A standby that misses the newest commits, and takes over.
async fn standby(world: Arc<SharedWorld>, mut dice: Dice) {
    while !world.faults().is_calm() {
        let database = &world.parts.database;
        database.replicate();
        world.stage().sleep(dice.duration(SECOND / 10, SECOND * 6)).await;
        if world.faults().rolls(Fault::Failover) && database.fail_over() {
            world.faults().count(Fault::Failover);
            world.strike(Fault::Failover, "a standby that misses commits takes over");
        }
    }
}
