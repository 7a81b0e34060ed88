//! The people of a world: callers with their requests, callers that reserve nonces, and operators.

mod borrower;
mod caller;
mod operator;

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{CommandKind, NewCommand, NodeText, SubmitterId};

use crate::dice::Dice;
use crate::stage::{Home, Stage};
use crate::world::Scene;

/// Starts the tasks of all callers and operators. Each caller begins at a random time.
pub(crate) fn arrive(scene: &Arc<Scene>) {
    let seed = scene.blueprint.plan.seed;
    for number in 0..scene.blueprint.plan.intents {
        scene.caller_begins();
        let dice = Dice::new(seed, &format!("caller {number}"));
        let task = Arc::clone(scene);
        scene.stage().spawn(Home::World, async move {
            caller::call(&task, u64::from(number), dice).await;
            task.caller_ends();
        });
    }
    let (task, dice) = (Arc::clone(scene), Dice::new(seed, "operator of the chain"));
    scene.stage().spawn(Home::World, async move { operator::watch_chain(&task, dice).await });
    for lane in &scene.blueprint.lanes {
        let dice = Dice::new(seed, &format!("operator of {lane}"));
        let (task, lane) = (Arc::clone(scene), lane.clone());
        scene.stage().spawn(Home::World, async move { operator::watch(&task, &lane, dice).await });
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
async fn command(scene: &Scene, dice: &mut Dice, lane: &SubmitterId, kind: CommandKind, by: &str) {
    let Some((_, store)) = scene.entrance(dice) else { return };
    let command = NewCommand { submitter: lane.clone(), kind, issued_by: NodeText::new(by) };
    let _ = within(scene.stage(), PATIENCE, store.put_commands(&[command])).await;
}

/// The time-out of each request of a caller or operator.
const PATIENCE: Duration = Duration::from_secs(8);
