//! An operator: reads the state of a lane from time to time, and follows the handbook (docs/nonces.md). Every store
//! verb that an operator calls has a route and a command in the product.

use std::time::Duration;

use gapless_domain::{
    CommandKind, IntentRecord, LaneState, LostRule, NodeText, ProtectCode, Protection, StateName, SubmitterId, TxId,
};
use gapless_store::{CancelVerdict, TxFilter};

use super::{PATIENCE, command, within};
use crate::chain::payload_data;
use crate::dice::Dice;
use crate::history::{Moment, effect_of};
use crate::world::SharedWorld;

pub(super) async fn watch(world: &SharedWorld, lane: &SubmitterId, mut dice: Dice) {
    loop {
        world.stage().sleep(dice.duration(Duration::from_secs(5), Duration::from_secs(20))).await;
        if world.is_paused(lane) {
            if cancel_already_mined(world, lane, &mut dice).await {
                command(world, &mut dice, lane, CommandKind::Resume, "operator").await;
            }
        } else if world.parts.plan.people && !world.faults().is_calm() && dice.permille(50) {
            command(world, &mut dice, lane, CommandKind::Pause, "operator").await;
        }
        if let Some(protection) = protection(world, lane, &mut dice).await {
            handle(world, lane, &protection, &mut dice).await;
        }
    }
}

/// Cancels queued intents whose effect is on the chain by a transaction that the database has lost. False if that is
/// not possible: a lane is resumed only after its loss is reconciled.
async fn cancel_already_mined(world: &SharedWorld, lane: &SubmitterId, dice: &mut Dice) -> bool {
    if world.parts.database.server() == 0 {
        return true;
    }
    let Some((_, store)) = world.random_node(dice) else { return false };
    let status = within(world.stage(), PATIENCE, store.lane_status(std::slice::from_ref(lane))).await;
    let Some(Some(status)) = status.and_then(Result::ok).and_then(|lanes| lanes.into_iter().next()) else {
        return false;
    };
    if status.regressed || status.cursor.is_some_and(|cursor| cursor.state.is_store_regressed()) {
        return false;
    }
    let queued =
        TxFilter { submitter: Some(lane.clone()), state: Some(StateName::Queued), limit: 1000, before_seq: None };
    let Some(Ok(queued)) = within(world.stage(), PATIENCE, store.list(&queued)).await else { return false };
    let is_on_chain = |tx: &IntentRecord| {
        let effect = payload_data(tx.intent.payload()).and_then(|data| effect_of(data));
        effect.is_some_and(|effect| world.parts.chain.has_effect(effect))
    };
    let done: Vec<TxId> = queued.iter().filter(|tx| is_on_chain(tx)).map(|tx| tx.id).collect();
    let canceled = within(world.stage(), PATIENCE, store.cancel_queued(&done)).await;
    let is_there = |verdict: &CancelVerdict| matches!(verdict, CancelVerdict::Regressed);
    canceled.and_then(Result::ok).is_some_and(|verdicts| !verdicts.iter().any(is_there))
}

/// Reads the chain status of the nodes. A lane without work stays IDLE when the chain violates finality, so no cursor
/// shows it.
pub(super) async fn watch_chain(world: &SharedWorld, mut dice: Dice) {
    loop {
        world.stage().sleep(dice.duration(Duration::from_secs(20), Duration::from_secs(60))).await;
        if let Some(ProtectCode::ChainRegressed | ProtectCode::DeepReorg) = world.finality_violation() {
            world.tell(Moment::Operator { what: "accepts the chain as it is".to_owned() });
            accept_chain(world, &mut dice).await;
        }
    }
}

async fn accept_chain(world: &SharedWorld, dice: &mut Dice) {
    let Some((_, store)) = world.random_node(dice) else { return };
    let (chain, by) = (world.parts.chain.id(), NodeText::new("operator"));
    let _ = within(world.stage(), PATIENCE, store.forget_head(chain, &by, "the chain is right")).await;
}

async fn protection(world: &SharedWorld, lane: &SubmitterId, dice: &mut Dice) -> Option<Protection> {
    let (_, store) = world.random_node(dice)?;
    let status = within(world.stage(), PATIENCE, store.lane_status(std::slice::from_ref(lane))).await?;
    let status = status.ok()?.into_iter().flatten().next()?;
    // No node runs the lane, or its owner has nothing to write, so its cursor is not in PROTECT yet. The API shows it
    // so too.
    if status.regressed {
        return Some(Protection::store_regressed());
    }
    match status.cursor?.state {
        LaneState::Protect(protection) => Some(protection),
        LaneState::Idle | LaneState::InFlight => None,
    }
}

async fn handle(world: &SharedWorld, lane: &SubmitterId, protection: &Protection, dice: &mut Dice) {
    let resync = CommandKind::Resync { lost: LostRule::Requeue, dry_run: false };
    match protection.code {
        // The ledger does not fit the new chain. The handbook demands a new database.
        ProtectCode::OtherChain => return,
        ProtectCode::ChainRegressed | ProtectCode::DeepReorg => {
            accept_chain(world, dice).await;
        }
        ProtectCode::StoreRegressed => {
            // Transactions that were sent before the loss must be final or dropped first. Under a finality violation no
            // block becomes final, and the resync is refused.
            while world.has_unknown_pending(lane)
                || (!world.is_newest_tx_final(lane) && world.finality_violation().is_none())
            {
                world.stage().sleep(Duration::from_secs(2)).await;
            }
            if let Some((_, store)) = world.random_node(dice) {
                let _ = within(
                    world.stage(),
                    PATIENCE,
                    store.declare_reconciled(&NodeText::new("operator"), "checked by the operator"),
                )
                .await;
            }
        }
        _ => {}
    }
    if dice.permille(300) {
        let look = CommandKind::Resync { lost: LostRule::Requeue, dry_run: true };
        command(world, dice, lane, look, "operator").await;
    }
    world.tell(Moment::Operator { what: format!("{lane} is in PROTECT ({}): resync", protection.code.as_str()) });
    command(world, dice, lane, resync, "operator").await;
    world.stage().sleep(dice.duration(Duration::from_secs(1), Duration::from_secs(5))).await;
    command(world, dice, lane, CommandKind::Unprotect, "operator").await;
}
