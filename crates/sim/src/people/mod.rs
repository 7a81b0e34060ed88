//! The people of a world: callers with their requests, callers that reserve nonces, and operators.

mod caller;
mod operator;
mod reserver;

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{CommandKind, NewCommand, NodeText, SubmitterId};

use crate::dice::Dice;
use crate::stage::{Stage, TaskOwner};
use crate::world::SharedWorld;

/// Starts the tasks of all callers and operators. Each caller begins at a random time.
pub(crate) fn spawn_all(world: &Arc<SharedWorld>) {
    let seed = world.parts.plan.seed;
    for number in 0..world.parts.plan.intents {
        world.caller_begins();
        let dice = Dice::new(seed, &format!("caller {number}"));
        let task = Arc::clone(world);
        world.stage().spawn(TaskOwner::World, async move {
            caller::call(&task, u64::from(number), dice).await;
            task.caller_ends();
        });
    }
    let (task, dice) = (Arc::clone(world), Dice::new(seed, "operator of the chain"));
    world.stage().spawn(TaskOwner::World, async move { operator::watch_chain(&task, dice).await });
    for lane in &world.parts.lanes {
        let dice = Dice::new(seed, &format!("operator of {lane}"));
        let (task, lane) = (Arc::clone(world), lane.clone());
        world.stage().spawn(TaskOwner::World, async move { operator::watch(&task, &lane, dice).await });
    }
}

/// The result of `asked`, or `None` after the time-out.
async fn within<T>(stage: &Stage, span: Duration, asked: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        answer = asked => Some(answer),
        () = stage.sleep(span) => None,
    }
}

/// Writes a command by a random node. The result is ignored.
async fn command(world: &SharedWorld, dice: &mut Dice, lane: &SubmitterId, kind: CommandKind, by: &str) {
    let Some((_, store)) = world.random_node(dice) else { return };
    let command = NewCommand { submitter: lane.clone(), kind, issued_by: NodeText::new(by) };
    let _ = within(world.stage(), PATIENCE, store.put_commands(&[command])).await;
}

/// The time-out of each request of a caller or operator.
const PATIENCE: Duration = Duration::from_secs(8);
