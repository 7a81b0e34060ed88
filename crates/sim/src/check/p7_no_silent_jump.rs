//! P7: a fact that the ledger cannot explain stops the lane until an operator has decided. No nonce is skipped or
//! adopted without a record.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_domain::{
    Cursor, ExternalNoncePolicy, LaneCommit, LaneEventKind, LaneState, NewSlot, ProtectCode, SlotKind, SubmitterId,
};

use crate::history::Moment;

use super::ledger::settled;
use super::{Broken, Check, Picture};

/// The time in which a node must notice a fact that the chain has shown. Its endpoints may lag, be down, or have a
/// private fork.
const BLIND: Duration = Duration::from_secs(180);

/// The time in which a node must notice such a fact after the storm.
const BLIND_IN_CALM: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct NoSilentJump {
    /// The store keeps a final block, so that nodes can know what was final.
    final_kept: bool,
    doubts: BTreeMap<SubmitterId, Doubt>,
}

/// The reason for which a lane must stop.
#[derive(Debug)]
struct Doubt {
    cause: Cause,
    since: Duration,
    /// The lane was in PROTECT after `since`.
    stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Every write to the store reports the loss at once.
    StoreLost,
    ChainReset,
    FinalOrphaned,
    Stranger(u64),
}

impl Check for NoSilentJump {
    fn promise(&self) -> &'static str {
        "P7"
    }

    fn see(&mut self, moment: &Moment, picture: &Picture) -> Result<(), Broken> {
        match moment {
            Moment::StoreLost { .. } => {
                picture.lanes_hurt.iter().for_each(|lane| self.doubt(lane, Cause::StoreLost, picture));
            }
            Moment::FinalKept { .. } => self.final_kept = true,
            // Before a final block is known, a chain with another genesis is a reorg like any other.
            Moment::ChainReset { .. } if !self.final_kept => {}
            Moment::ChainReset { .. } => {
                let relies =
                    |lane: &&SubmitterId| picture.ledger.lane(lane).is_some_and(|book| book.last_slot().is_some());
                let hurt = picture.lanes().iter().filter(relies);
                hurt.for_each(|lane| self.doubt(lane, Cause::ChainReset, picture));
            }
            Moment::Orphaned { .. } => self.look_at_orphan(picture),
            Moment::Final { .. } => self.look_for_strangers(picture),
            // An operator decided that the chain is right.
            Moment::HeadForgotten { .. } => {
                let of_chain = |cause| matches!(cause, Cause::ChainReset | Cause::FinalOrphaned);
                self.doubts.retain(|_, doubt| !of_chain(doubt.cause));
            }
            Moment::Committed { commit, .. } => {
                let lane = commit.lease().submitter();
                let verdict = no_jump(commit, picture)
                    .and_then(|()| adopted_rightly(commit, picture))
                    .and_then(|()| left_by_decision(commit, picture))
                    .and_then(|()| self.stopped(commit, picture));
                return verdict.map_err(|what| Broken::of(lane, what));
            }
            _ => {}
        }
        Ok(())
    }
}

impl NoSilentJump {
    /// A loss of commits is the strongest reason. Another cause does not replace it.
    fn doubt(&mut self, lane: &SubmitterId, cause: Cause, picture: &Picture) {
        let worse =
            self.doubts.get(lane).is_none_or(|doubt| doubt.cause != Cause::StoreLost || cause == Cause::StoreLost);
        if worse {
            self.doubts.insert(lane.clone(), Doubt { cause, since: picture.now, stopped: false });
        }
    }

    /// Nodes may not have known that the block was final. A lane that has ended an intent by it did know.
    fn look_at_orphan(&mut self, picture: &Picture) {
        for tx in picture.final_orphaned.iter().flat_map(|block| &block.txs) {
            let (plan, hash) = (&tx.read.plan, tx.hash());
            let slot = picture.ledger.lane(&plan.submitter).and_then(|book| book.slots.get(&plan.nonce.get()));
            let Some(SlotKind::Intent(id)) = slot else { continue };
            let state = picture.ledger.intents.get(id).map(|entry| &entry.state);
            if state.and_then(settled).is_some_and(|settled| settled.inclusion.hash == hash) {
                self.doubt(&plan.submitter, Cause::FinalOrphaned, picture);
            }
        }
    }

    /// A lane with the policy to adopt needs no decision. Any transaction at a nonce that was ever reserved is
    /// explained.
    fn look_for_strangers(&mut self, picture: &Picture) {
        if picture.plan.on_external_nonce == ExternalNoncePolicy::Adopt {
            return;
        }
        for hash in &picture.newly_final {
            let Some(place) = picture.blocks.tx(hash).filter(|place| place.tx.by_stranger) else { continue };
            let plan = &place.tx.read.plan;
            let (lane, nonce) = (&plan.submitter, plan.nonce.get());
            let Some(book) = picture.ledger.lane(lane).filter(|book| book.cursor.is_some()) else { continue };
            let lent = book.slots.get(&nonce) == Some(&SlotKind::Reservation);
            if !lent && !book.has_attempt(nonce, hash) {
                self.doubt(lane, Cause::Stranger(nonce), picture);
            }
        }
    }

    fn stopped(&mut self, commit: &LaneCommit, picture: &Picture) -> Result<(), String> {
        let lane = commit.lease().submitter();
        let Some(doubt) = self.doubts.get_mut(lane) else { return Ok(()) };
        // A node that had not seen the transaction yet reserved the nonce. The transaction then counts as the caller's.
        let kind_of = |nonce| picture.ledger.lane(lane).and_then(|book| book.slots.get(&nonce));
        if matches!(doubt.cause, Cause::Stranger(nonce) if kind_of(nonce) == Some(&SlotKind::Reservation)) {
            self.doubts.remove(lane);
            return Ok(());
        }
        let lost = doubt.cause == Cause::StoreLost;
        if lost && commit.ends_an_intent() {
            return Err("an intent ends, and nobody has reconciled what was lost".to_owned());
        }
        // The lane may have stopped earlier for another reason. A loss of commits needs its own PROTECT.
        doubt.stopped |= !lost && picture.before.cursor.as_ref().is_some_and(Cursor::is_protected);
        // An operator may also reconcile a lane that did not stop yet.
        let reconciled = !commit.commands_done().is_empty()
            && commit.lane_events().any(|(_, kind, _)| kind == LaneEventKind::Resynced);
        match commit.cursor().map(|change| &change.to().state) {
            Some(LaneState::Protect(protection)) => {
                doubt.stopped |= !lost || protection.code == ProtectCode::StoreRegressed;
            }
            // `left_by_decision` checks that a decision ended PROTECT.
            Some(LaneState::Idle | LaneState::InFlight) if doubt.stopped || (reconciled && !lost) => {
                self.doubts.remove(lane);
                return Ok(());
            }
            _ => {}
        }
        let Some(slot) = commit.slots().iter().find(|slot| is_bind(slot, lane, picture)) else { return Ok(()) };
        let in_calm = picture.calm_since.map(|calm| calm.max(doubt.since) + BLIND_IN_CALM);
        let known_by = (doubt.since + BLIND).min(in_calm.unwrap_or(Duration::MAX));
        if doubt.stopped || lost || picture.now > known_by {
            let (nonce, since) = (slot.nonce, doubt.since);
            return Err(format!("binds nonce {nonce}, and nobody has decided about {:?} at {since:?}", doubt.cause));
        }
        Ok(())
    }
}

/// True for a new nonce, false for a nonce that the chain has used already.
fn is_bind(slot: &NewSlot, lane: &SubmitterId, picture: &Picture) -> bool {
    slot.kind != SlotKind::Foreign && picture.blocks.final_uses(lane, slot.nonce.get()).next().is_none()
}

/// Every nonce below the cursor has a slot. All nonces below the first slot were used before the lane began.
fn no_jump(commit: &LaneCommit, picture: &Picture) -> Result<(), String> {
    let lane = commit.lease().submitter();
    let (Some(change), Some(book)) = (commit.cursor(), picture.ledger.lane(lane)) else { return Ok(()) };
    let next = change.to().next_nonce.get();
    if let Some(before) = picture.before.cursor.as_ref().filter(|before| before.next_nonce.get() > next) {
        return Err(format!("the cursor goes back from {} to {next}", before.next_nonce));
    }
    let began_at = book.slots.keys().next().copied().unwrap_or(next);
    if let Some(last) = book.last_slot().filter(|last| last.saturating_add(1) != next) {
        return Err(format!("the cursor stands at {next}, and the last slot is {last}"));
    }
    // Only when the lane begins: the nonces below its first slot do not change later.
    if picture.before.last_slot.is_some() {
        return Ok(());
    }
    match (0..began_at).find(|nonce| picture.blocks.final_uses(lane, *nonce).next().is_none()) {
        Some(nonce) => Err(format!("the lane begins at {began_at}, and nothing has used {nonce}, finally")),
        None => Ok(()),
    }
}

/// A nonce is adopted as foreign only if a final block has used it by a transaction that the ledger does not know.
/// Without the policy to adopt, an operator's command is needed.
fn adopted_rightly(commit: &LaneCommit, picture: &Picture) -> Result<(), String> {
    let lane = commit.lease().submitter();
    for slot in commit.slots().iter().filter(|slot| slot.kind == SlotKind::Foreign) {
        let nonce = slot.nonce.get();
        if slot.evidence.is_none() {
            return Err(format!("nonce {nonce} is adopted without evidence"));
        }
        if picture.blocks.final_uses(lane, nonce).next().is_none() {
            return Err(format!("nonce {nonce} is adopted, and nothing has used it, finally"));
        }
        if picture.plan.on_external_nonce == ExternalNoncePolicy::Protect && commit.commands_done().is_empty() {
            return Err(format!("nonce {nonce} is adopted, and nobody has said so"));
        }
    }
    Ok(())
}

/// PROTECT ends by a command, or by the policy to adopt if no commits were lost.
fn left_by_decision(commit: &LaneCommit, picture: &Picture) -> Result<(), String> {
    let (Some(before), Some(change)) = (&picture.before.cursor, commit.cursor()) else { return Ok(()) };
    let LaneState::Protect(protection) = &before.state else { return Ok(()) };
    let by_policy = picture.plan.on_external_nonce == ExternalNoncePolicy::Adopt
        && protection.code != ProtectCode::StoreRegressed
        && !commit.audits().is_empty();
    if change.to().is_protected() || by_policy || !commit.commands_done().is_empty() {
        return Ok(());
    }
    Err(format!("leaves PROTECT ({}), and nobody has decided that", protection.code.as_str()))
}
