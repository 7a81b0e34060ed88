//! P9: the transaction that ends an intent with a nonce is one of our hashes, in a canonical block that is final.

use gapless_domain::{Change, LaneCommit, Settled, TxState};

use crate::chain::data_of;
use crate::history::Moment;

use super::ledger::{mined_at, settled};
use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct ChainDecides;

impl Check for ChainDecides {
    fn promise(&self) -> &'static str {
        "P9"
    }

    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        let Moment::Committed { commit, .. } = moment else { return Ok(()) };
        let lane = commit.lease().submitter();
        commit.changes().iter().try_for_each(|change| {
            decided(commit, change, view).map_err(|what| {
                CheckFailure::of(lane, format!("{} is {}, {what}", change.tx_id(), change.to().name().as_str()))
            })
        })
    }

    fn end(&mut self, view: &WorldView) -> Result<(), CheckFailure> {
        view.finding("P9")
    }
}

fn decided(commit: &LaneCommit, change: &Change, view: &WorldView) -> Result<(), String> {
    let lane = commit.lease().submitter();
    if let Some((nonce, hash)) = mined_at(change.to()) {
        let ours = view.ledger.lane(lane).is_some_and(|lane_ledger| lane_ledger.has_attempt(nonce, &hash));
        if !ours {
            return Err(format!("by {hash} at nonce {nonce}, which is not one of our attempts"));
        }
    }
    match settled(change.to()) {
        Some(settled) => is_final(commit, change, settled, view),
        None => Ok(()),
    }
}

/// A node learns later than the chain that a block is final, and never earlier. A commit that is being written may name
/// a block that was final and is orphaned now (lanes then stop).
fn is_final(commit: &LaneCommit, change: &Change, settled: &Settled, view: &WorldView) -> Result<(), String> {
    let (hash, at) = (settled.inclusion.hash, settled.inclusion.block);
    let Some(location) = view.blocks.tx(&hash) else { return Err(format!("by {hash}, which no block has")) };
    if !location.was_final.contains(&at) {
        return Err(match location.canonical {
            Some(block) if block == at => format!("by {hash} in block {}, which is not final", at.number),
            Some(block) => format!("by {hash} in block {}, but the transaction is in {}", at.number, block.number),
            None => format!("by {hash} in block {}, which is not canonical", at.number),
        });
    }
    if location.tx.read.plan.submitter != *commit.lease().submitter() || location.tx.read.plan.nonce != settled.nonce {
        return Err(format!("by {hash} at nonce {}, which is for {}", settled.nonce, location.tx.read.plan.nonce));
    }
    let carries = settled.inclusion.kind.carries_payload();
    let fits = match change.to() {
        TxState::Confirmed(_) => carries && location.tx.succeeded,
        TxState::FailedFinal(_) => carries && !location.tx.succeeded,
        _ => !carries,
    };
    if !fits {
        let did = if location.tx.succeeded { "succeeded" } else { "reverted" };
        return Err(format!("by {hash}, a {} that {did}", settled.inclusion.kind.as_str()));
    }
    let (kind, data) = (settled.inclusion.kind, data_of(&location.tx.read.plan.action));
    match view.ledger.intents.get(&change.tx_id()) {
        Some(entry) if !entry.may_carry(kind, data) => {
            Err(format!("by {hash}, a {} with another effect", kind.as_str()))
        }
        _ => Ok(()),
    }
}
