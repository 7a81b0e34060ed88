//! P9: the transaction that ends an intent with a nonce is one of our hashes, in a canonical block that is final.

use gapless_domain::{Change, LaneCommit, Settled, TxState};

use crate::history::Moment;

use super::ledger::{mined_at, settled};
use super::{Broken, Check, Picture};

#[derive(Debug, Default)]
pub(super) struct ChainDecides;

impl Check for ChainDecides {
    fn promise(&self) -> &'static str {
        "P9"
    }

    fn see(&mut self, moment: &Moment, picture: &Picture) -> Result<(), Broken> {
        let Moment::Committed { commit, .. } = moment else { return Ok(()) };
        let lane = commit.lease().submitter();
        commit.changes().iter().try_for_each(|change| {
            decided(commit, change, picture).map_err(|what| {
                Broken::of(lane, format!("{} is {}, {what}", change.tx_id(), change.to().name().as_str()))
            })
        })
    }

    fn end(&mut self, picture: &Picture) -> Result<(), Broken> {
        picture.finding("P9")
    }
}

fn decided(commit: &LaneCommit, change: &Change, picture: &Picture) -> Result<(), String> {
    let lane = commit.lease().submitter();
    if let Some((nonce, hash)) = mined_at(change.to()) {
        let ours = picture.ledger.lane(lane).is_some_and(|book| book.has_attempt(nonce, &hash));
        if !ours {
            return Err(format!("by {hash} at nonce {nonce}, which is none of ours"));
        }
    }
    match settled(change.to()) {
        Some(settled) => is_final(commit, change, settled, picture),
        None => Ok(()),
    }
}

/// A node learns later than the chain that a block is final, and never earlier. A commit that is being written may name
/// a block that was final and is orphaned now (lanes then stop).
fn is_final(commit: &LaneCommit, change: &Change, settled: &Settled, picture: &Picture) -> Result<(), String> {
    let (hash, at) = (settled.inclusion.hash, settled.inclusion.block);
    let Some(place) = picture.blocks.tx(&hash) else { return Err(format!("by {hash}, which no block has")) };
    if !place.was_final.contains(&at) {
        return Err(match place.canonical {
            Some(block) if block == at => format!("by {hash} in block {}, which is not final", at.number),
            Some(block) => format!("by {hash} in block {}, and it is in {}", at.number, block.number),
            None => format!("by {hash} in block {}, which is not canonical", at.number),
        });
    }
    if place.tx.read.plan.submitter != *commit.lease().submitter() || place.tx.read.plan.nonce != settled.nonce {
        return Err(format!("by {hash} at nonce {}, which is for {}", settled.nonce, place.tx.read.plan.nonce));
    }
    let carries = settled.inclusion.kind.carries_payload();
    let fits = match change.to() {
        TxState::Confirmed(_) => carries && place.tx.succeeded,
        TxState::FailedFinal(_) => carries && !place.tx.succeeded,
        _ => !carries,
    };
    if !fits {
        let did = if place.tx.succeeded { "succeeded" } else { "reverted" };
        return Err(format!("by {hash}, a {} that {did}", settled.inclusion.kind.as_str()));
    }
    let (kind, data) = (settled.inclusion.kind, &place.tx.read.plan.call.data);
    match picture.ledger.intents.get(&change.tx_id()) {
        Some(entry) if !entry.may_carry(kind, data) => {
            Err(format!("by {hash}, a {} that does something else", kind.as_str()))
        }
        _ => Ok(()),
    }
}
