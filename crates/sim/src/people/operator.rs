//! An operator: reads the state of a lane from time to time, and follows the handbook (docs/nonces.md).

use std::time::Duration;

use gapless_domain::{
    CommandKind, IntentRecord, LaneState, LostRule, NodeText, Payload, ProtectCode, Protection, StateName, SubmitterId,
    TxId,
};
use gapless_store::{CancelVerdict, TxFilter};

use super::{PATIENCE, command, within};
use crate::dice::Dice;
use crate::history::{Moment, effect_of};
use crate::world::Scene;

pub(super) async fn watch(scene: &Scene, lane: &SubmitterId, mut dice: Dice) {
    loop {
        scene.stage().sleep(dice.duration(Duration::from_secs(5), Duration::from_secs(20))).await;
        if scene.is_paused(lane) {
            if cancel_what_has_happened(scene, lane, &mut dice).await {
                command(scene, &mut dice, lane, CommandKind::Resume, "operator").await;
            }
        } else if scene.blueprint.plan.people && !scene.faults().is_calm() && dice.permille(50) {
            command(scene, &mut dice, lane, CommandKind::Pause, "operator").await;
        }
        if let Some(protection) = protection(scene, lane, &mut dice).await {
            handle(scene, lane, &protection, &mut dice).await;
        }
    }
}

/// Cancels queued intents whose effect is on the chain by a transaction that the database has lost. False if that is
/// not possible: a lane is resumed only after its loss is reconciled.
async fn cancel_what_has_happened(scene: &Scene, lane: &SubmitterId, dice: &mut Dice) -> bool {
    if scene.blueprint.database.server() == 0 {
        return true;
    }
    let Some((_, store)) = scene.entrance(dice) else { return false };
    let status = within(scene.stage(), PATIENCE, store.lane_status(std::slice::from_ref(lane))).await;
    let Some(Some(status)) = status.and_then(Result::ok).and_then(|lanes| lanes.into_iter().next()) else {
        return false;
    };
    if status.regressed || status.cursor.is_some_and(|cursor| cursor.state.is_store_regressed()) {
        return false;
    }
    let in_line =
        TxFilter { submitter: Some(lane.clone()), state: Some(StateName::Queued), limit: 1000, before_seq: None };
    let Some(Ok(in_line)) = within(scene.stage(), PATIENCE, store.list(&in_line)).await else { return false };
    let has_happened = |tx: &IntentRecord| match tx.intent.payload() {
        Payload::Evm(call) => effect_of(&call.data).is_some_and(|effect| scene.blueprint.chain.has_effect(effect)),
        Payload::Reservation(_) => false,
    };
    let done: Vec<TxId> = in_line.iter().filter(|tx| has_happened(tx)).map(|tx| tx.id).collect();
    let canceled = within(scene.stage(), PATIENCE, store.cancel_queued(&done)).await;
    let is_there = |verdict: &CancelVerdict| matches!(verdict, CancelVerdict::Regressed);
    canceled.and_then(Result::ok).is_some_and(|verdicts| !verdicts.iter().any(is_there))
}

/// Reads the chain status of the nodes. A lane without work stays IDLE when the chain violates finality, so no cursor
/// shows it.
pub(super) async fn watch_chain(scene: &Scene, mut dice: Dice) {
    loop {
        scene.stage().sleep(dice.duration(Duration::from_secs(20), Duration::from_secs(60))).await;
        if let Some(ProtectCode::ChainRegressed | ProtectCode::DeepReorg) = scene.chain_trouble() {
            scene.tell(Moment::Operator { what: "the chain is accepted as it is".to_owned() });
            accept_chain(scene, &mut dice).await;
        }
    }
}

async fn accept_chain(scene: &Scene, dice: &mut Dice) {
    let Some((_, store)) = scene.entrance(dice) else { return };
    let (chain, by) = (scene.blueprint.chain.id(), NodeText::new("operator"));
    let _ = within(scene.stage(), PATIENCE, store.forget_head(chain, &by, "the chain is right")).await;
}

async fn protection(scene: &Scene, lane: &SubmitterId, dice: &mut Dice) -> Option<Protection> {
    let (_, store) = scene.entrance(dice)?;
    let status = within(scene.stage(), PATIENCE, store.lane_status(std::slice::from_ref(lane))).await?;
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

async fn handle(scene: &Scene, lane: &SubmitterId, protection: &Protection, dice: &mut Dice) {
    let resync = CommandKind::Resync { lost: LostRule::Requeue, dry_run: false };
    match protection.code {
        // The ledger does not fit the new chain. The handbook demands a new database.
        ProtectCode::OtherChain => return,
        ProtectCode::ChainRegressed | ProtectCode::DeepReorg => {
            accept_chain(scene, dice).await;
        }
        ProtectCode::StoreRegressed => {
            // Transactions that were sent before the loss must be mined or dropped first.
            while scene.has_unknown_pending(lane) {
                scene.stage().sleep(Duration::from_secs(2)).await;
            }
            if let Some((_, store)) = scene.entrance(dice) {
                let _ = within(scene.stage(), PATIENCE, store.declare_reconciled("looked for")).await;
            }
        }
        _ => {}
    }
    if dice.permille(300) {
        let look = CommandKind::Resync { lost: LostRule::Requeue, dry_run: true };
        command(scene, dice, lane, look, "operator").await;
    }
    scene.tell(Moment::Operator { what: format!("{lane} is in PROTECT ({}): resync", protection.code.as_str()) });
    command(scene, dice, lane, resync, "operator").await;
    scene.stage().sleep(dice.duration(Duration::from_secs(1), Duration::from_secs(5))).await;
    command(scene, dice, lane, CommandKind::Unprotect, "operator").await;
}
