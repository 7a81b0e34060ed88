//! P4: an intent keeps its nonce until a final block consumes it by a transaction that is not one of its hashes.

use gapless_domain::{B256, EventKind, LaneCommit, SlotKind, SubmitterId, TransitionName};

use crate::history::{ChainTx, Moment};

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct StickyNonce;

impl Check for StickyNonce {
    fn promise(&self) -> &'static str {
        "P4"
    }

    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        match moment {
            Moment::Committed { commit, .. } => {
                let lane = commit.lease().submitter();
                loses_consumed_nonces_only(commit, view)
                    .and_then(|()| has_one_slot(commit, view))
                    .map_err(|what| CheckFailure::of(lane, what))
            }
            Moment::Mined { block } => block.txs.iter().try_for_each(|tx| {
                has_effect_of_holder(tx, view).map_err(|what| CheckFailure::of(&tx.read.plan.submitter, what))
            }),
            _ => Ok(()),
        }
    }
}

fn loses_consumed_nonces_only(commit: &LaneCommit, view: &WorldView) -> Result<(), String> {
    let lane = commit.lease().submitter();
    for (change, row) in commit.changes().iter().zip(&view.before.rows) {
        if change.event() != EventKind::Tx(TransitionName::LoseNonce) {
            continue;
        }
        let held = row.as_ref().and_then(|(state, _)| state.bound());
        let Some(nonce) = held.map(|bound| bound.nonce.get()) else {
            return Err(format!("{} loses a nonce, but has none", change.tx_id()));
        };
        is_gone(lane, nonce, view).map_err(|what| format!("{} loses nonce {nonce}, {what}", change.tx_id()))?;
    }
    Ok(())
}

/// A node learns later than the chain that a block is final, and never earlier. So the use must have been final by now.
fn is_gone(lane: &SubmitterId, nonce: u64, view: &WorldView) -> Result<(), String> {
    let ours = |hash: &B256| view.ledger.lane(lane).is_some_and(|lane_ledger| lane_ledger.has_attempt(nonce, hash));
    let mut uses = view.blocks.final_uses(lane, nonce).peekable();
    if uses.peek().is_none() {
        return Err("which no final block has used".to_owned());
    }
    match uses.find(|hash| !ours(hash)) {
        Some(_) => Ok(()),
        None => Err("which its own transaction has used".to_owned()),
    }
}

/// An intent that gets another slot has lost every slot that it had.
fn has_one_slot(commit: &LaneCommit, view: &WorldView) -> Result<(), String> {
    let lane = commit.lease().submitter();
    let Some(lane_ledger) = view.ledger.lane(lane) else { return Ok(()) };
    for slot in commit.slots() {
        let SlotKind::Intent(id) = slot.kind else { continue };
        let given = lane_ledger.given.get(&id).into_iter().flatten();
        for other in given.filter(|other| **other != slot.nonce.get()) {
            let nonce = slot.nonce;
            is_gone(lane, *other, view)
                .map_err(|what| format!("{id} gets nonce {nonce}, but already has {other}, {what}"))?;
        }
    }
    Ok(())
}

/// A transaction that is mined at a nonce has the effect of the nonce's holder, or no effect. After a loss of commits
/// the ledger does not know all holders.
fn has_effect_of_holder(tx: &ChainTx, view: &WorldView) -> Result<(), String> {
    let (Some(effect), 0) = (tx.effect(), view.losses) else { return Ok(()) };
    let plan = &tx.read.plan;
    let slot = view.ledger.lane(&plan.submitter).and_then(|lane_ledger| lane_ledger.slots.get(&plan.nonce.get()));
    let Some(SlotKind::Intent(id)) = slot else { return Ok(()) };
    let Some(entry) = view.ledger.intents.get(id) else { return Ok(()) };
    if entry.effect == Some(effect) || entry.is_over() {
        return Ok(());
    }
    Err(format!("nonce {} is held by {id}, but {} has effect {effect} of another intent", plan.nonce, tx.hash()))
}
