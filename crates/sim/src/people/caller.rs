//! A caller: one request, retried under the same id until it is answered, and random actions after that.

use std::time::Duration;

use gapless_domain::{CommandKind, Fees, Intent, IntentDraft, Limits, Speed, SubmitterId, TxId};
use gapless_engine::IntakeError;
use gapless_store::{Accepted, CancelVerdict};

use super::{PATIENCE, command, reserver, within};
use crate::chain;
use crate::dice::Dice;
use crate::history::Moment;
use crate::world::SharedWorld;

/// The time after the storm at which a caller stops retrying.
const GIVES_UP: Duration = Duration::from_secs(240);

pub(super) async fn call(world: &SharedWorld, number: u64, mut dice: Dice) {
    let plan = &world.parts.plan;
    world.stage().sleep(dice.duration(Duration::ZERO, plan.storm * 4 / 5)).await;
    let Some(lane) = world.parts.lanes.get(dice.index(world.parts.lanes.len())).cloned() else { return };
    let reserves = plan.people && dice.permille(120);
    let Some(intent) = intent(world, &lane, number, reserves, &mut dice) else { return };
    let Some(id) = submit(world, &intent, number, &mut dice).await else { return };
    if !plan.people {
        return;
    }
    if reserves {
        return reserver::use_nonce(world, &lane, id, number, &mut dice).await;
    }
    world.stage().sleep(dice.latency(Duration::from_secs(3))).await;
    match dice.below(20) {
        // A retry, as after a lost answer.
        0..=3 => drop(submit(world, &intent, number, &mut dice).await),
        4..=6 => cancel(world, &lane, id, &mut dice).await,
        7..=9 => replace(world, &lane, id, number, &mut dice).await,
        10..=11 => {
            let fees = dice.permille(500).then(|| named_price(&mut dice));
            command(world, &mut dice, &lane, CommandKind::Resubmit { tx_id: id, fees }, "caller").await;
        }
        _ => {}
    }
}

/// Replaces the payload once or twice. All versions belong to one request, so at most one of them may take effect.
async fn replace(world: &SharedWorld, lane: &SubmitterId, id: TxId, number: u64, dice: &mut Dice) {
    for version in 1..=dice.between(1, 2) as u8 {
        let fees = dice.permille(200).then(|| named_price(dice));
        let payload = chain::version_of(number, version).wishing(fees, None).into();
        command(world, dice, lane, CommandKind::Replace { tx_id: id, payload }, "caller").await;
        world.stage().sleep(dice.latency(Duration::from_secs(5))).await;
    }
    if dice.permille(300) {
        cancel(world, lane, id, dice).await;
    }
}

/// A price that may be sufficient or not.
fn named_price(dice: &mut Dice) -> Fees {
    let billions = |count: u64| u128::from(count) * 1_000_000_000;
    Fees::with_tip(billions(dice.between(1, 60)), billions(1))
}

fn intent(world: &SharedWorld, lane: &SubmitterId, number: u64, reserves: bool, dice: &mut Dice) -> Option<Intent> {
    let expires = world.parts.plan.people && dice.permille(80);
    // Some callers allow too little work, so that no chain node ever accepts the transaction.
    let work = (world.parts.plan.people && dice.permille(40)).then_some(chain::TOO_LITTLE_WORK);
    let life = dice.duration(Duration::from_secs(1), Duration::from_secs(60));
    let draft = IntentDraft {
        submitter: lane.clone(),
        request_id: format!("request-{number}"),
        payload: if reserves { reserver::payload(number) } else { chain::action(number).wishing(None, work).into() },
        speed: dice.pick(Speed::ALL).unwrap_or(Speed::Standard),
        valid_until: expires.then(|| world.parts.database.now().saturating_add(life)),
        metadata: None,
    };
    Intent::new(draft, &Limits::default()).ok()
}

/// Retries with random nodes, until one answers that the request is accepted.
async fn submit(world: &SharedWorld, intent: &Intent, number: u64, dice: &mut Dice) -> Option<TxId> {
    let gives_up = world.parts.plan.storm + GIVES_UP;
    while world.stage().now() < gives_up {
        // The ledger lost the intent, and its effect is on the chain. The operator tells the caller so
        // (docs/nonces.md), and the caller does not retry.
        if world.parts.database.server() > 0 && world.parts.chain.has_effect(number) {
            return None;
        }
        if let Some((intake, _)) = world.random_node(dice) {
            let answer = within(world.stage(), PATIENCE, intake.accept(vec![intent.clone()])).await;
            if let Some(id) = answer.and_then(accepted) {
                let (lane, request) = (intent.submitter().clone(), intent.request_id().clone());
                world.tell(Moment::Acknowledged { id, lane, request });
                return Some(id);
            }
        }
        world.stage().sleep(dice.duration(Duration::from_millis(100), Duration::from_secs(3))).await;
    }
    world.tell(Moment::GaveUp { lane: intent.submitter().clone(), number });
    None
}

fn accepted(answer: Result<Vec<(TxId, Accepted)>, IntakeError>) -> Option<TxId> {
    match answer.ok()?.into_iter().next()? {
        (id, Accepted::New | Accepted::Existing(_)) => Some(id),
        _ => None,
    }
}

/// Cancels as the API does: in the queue if the intent is still there, otherwise by a command.
async fn cancel(world: &SharedWorld, lane: &SubmitterId, id: TxId, dice: &mut Dice) {
    let Some((_, store)) = world.random_node(dice) else { return };
    let verdict = within(world.stage(), PATIENCE, store.cancel_queued(&[id])).await;
    if let Some(Ok(verdicts)) = verdict
        && verdicts == [CancelVerdict::NotQueued]
    {
        command(world, dice, lane, CommandKind::Cancel { tx_id: id }, "caller").await;
    }
}
