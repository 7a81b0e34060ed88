//! Faults that hit processes and the database from outside.

use std::sync::Arc;
use std::time::Duration;

use crate::dice::Dice;
use crate::fault::Fault;
use crate::stage::Home;
use crate::world::Scene;

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn begin(scene: &Arc<Scene>) {
    let seed = scene.blueprint.plan.seed;
    scene.stage().spawn(Home::World, processes(Arc::clone(scene), Dice::new(seed, "processes")));
    scene.stage().spawn(Home::World, database_clock(Arc::clone(scene), Dice::new(seed, "database clock")));
    if scene.faults().has(Fault::Failover) {
        scene.stage().spawn(Home::World, standby(Arc::clone(scene), Dice::new(seed, "standby")));
    }
}

/// Starts the node again after a delay, as systemd would.
pub(crate) fn start_again(scene: &Arc<Scene>, node: usize) {
    let (scene, seed) = (Arc::clone(scene), scene.blueprint.plan.seed);
    let task = Arc::clone(&scene);
    scene.stage().spawn(Home::World, async move {
        let now = task.stage().now().as_micros();
        let mut dice = Dice::new(seed ^ u64::try_from(now).unwrap_or(0), "start again");
        task.stage().sleep(dice.duration(SECOND / 10, SECOND * 20)).await;
        if task.is_empty(node) {
            task.start(node);
        }
    });
}

async fn processes(scene: Arc<Scene>, mut dice: Dice) {
    while !scene.faults().is_calm() {
        // A random period: at whole seconds, periodic work of a node would never be hit.
        scene.stage().sleep(dice.duration(SECOND / 2, SECOND * 3 / 2)).await;
        for node in 0..scene.node_count() {
            let Some((home, owner)) = scene.with_process(node, |process| (process.home, process.owner.clone())) else {
                continue;
            };
            if scene.faults().strikes(Fault::CrashAnywhere) {
                scene.strike(Fault::CrashAnywhere, format!("{owner} is killed"));
                scene.end(node, "kill -9");
                start_again(&scene, node);
            } else if scene.faults().rolls(Fault::Drain) && drain(&scene, node, home) {
                scene.faults().count(Fault::Drain);
                scene.strike(Fault::Drain, format!("{owner} is told to stop"));
            } else if !scene.stage().is_paused(home) && scene.faults().strikes(Fault::Pause) {
                let span = dice.duration(SECOND, SECOND * 30);
                scene.strike(Fault::Pause, format!("{owner} stands still for {:.1} s", span.as_secs_f64()));
                pause(&scene, home, span);
            } else if scene.faults().strikes(Fault::NodeClockJump) {
                let ahead = dice.duration(SECOND / 10, SECOND * 30);
                scene.strike(
                    Fault::NodeClockJump,
                    format!("the clock of {owner} jumps by {:.1} s", ahead.as_secs_f64()),
                );
                scene.with_process(node, |process| process.clock.jump(ahead));
            }
        }
    }
}

/// Drains a process, as SIGTERM does: lanes finish their work, leases are released, and another process starts in its
/// place. False if the process drains already.
fn drain(scene: &Arc<Scene>, node: usize, home: Home) -> bool {
    let Some(Some(engine)) = scene.with_process(node, |process| process.engine.take()) else { return false };
    let task = Arc::clone(scene);
    scene.stage().spawn(home, async move {
        engine.drain().await;
        // A task of the world ends the process, because a task of the process cannot drop itself.
        let after = Arc::clone(&task);
        task.stage().spawn(Home::World, async move {
            if after.with_process(node, |process| process.home) == Some(home) {
                after.end(node, "drained");
                start_again(&after, node);
            }
        });
    });
    true
}

fn pause(scene: &Arc<Scene>, home: Home, span: Duration) {
    scene.stage().pause(home);
    let task = Arc::clone(scene);
    scene.stage().spawn(Home::World, async move {
        task.stage().sleep(span).await;
        task.stage().resume(home);
    });
}

async fn database_clock(scene: Arc<Scene>, mut dice: Dice) {
    while !scene.faults().is_calm() {
        scene.stage().sleep(SECOND).await;
        if scene.faults().strikes(Fault::DatabaseClockJump) {
            let (by, ahead) = (dice.duration(SECOND / 10, SECOND * 40), dice.permille(500));
            let words = if ahead { "ahead" } else { "back" };
            scene.strike(
                Fault::DatabaseClockJump,
                format!("the database's clock is set {words} by {:.1} s", by.as_secs_f64()),
            );
            scene.blueprint.database.jump(by, ahead);
        }
    }
}

/// A standby that misses the newest commits, and takes over.
async fn standby(scene: Arc<Scene>, mut dice: Dice) {
    while !scene.faults().is_calm() {
        let database = &scene.blueprint.database;
        database.replicate();
        scene.stage().sleep(dice.duration(SECOND / 10, SECOND * 6)).await;
        if scene.faults().rolls(Fault::Failover) && database.fail_over() {
            scene.faults().count(Fault::Failover);
            scene.strike(Fault::Failover, "a standby that was behind takes over");
        }
    }
}
