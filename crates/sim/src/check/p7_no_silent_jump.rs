//! P7: a fact that the ledger cannot explain stops the lane until an operator has decided. No nonce is skipped or
//! adopted without a record.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_domain::{
    Cursor, ExternalNoncePolicy, LaneCommit, LaneEventKind, LaneState, NewSlot, ProtectCode, SlotKind, SubmitterId,
};

use crate::history::Moment;

use super::ledger::settled;
use super::{Check, CheckFailure, WorldView};

/// The time in which a node must notice a fact that the chain has shown. Its endpoints may lag, be down, or have a
/// private fork.
const BLIND: Duration = Duration::from_secs(180);

/// The time in which a node must notice such a fact after the storm.
const BLIND_IN_CALM: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct NoSilentJump {
    /// The store keeps a final block, so that nodes can know what was final.
    final_kept: bool,
    stop_reasons: BTreeMap<SubmitterId, StopReason>,
}

/// The reason for which a lane must stop.
#[derive(Debug)]
struct StopReason {
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

    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        match moment {
            Moment::StoreLost { .. } => {
                view.losing_lanes.iter().for_each(|lane| self.require_stop(lane, Cause::StoreLost, view));
            }
            Moment::FinalKept { .. } => self.final_kept = true,
            // Before a final block is known, a chain with another genesis is a reorg like any other.
            Moment::ChainReset { .. } if !self.final_kept => {}
            Moment::ChainReset { .. } => {
                let relies = |lane: &&SubmitterId| {
                    view.ledger.lane(lane).is_some_and(|lane_ledger| lane_ledger.last_slot().is_some())
                };
                let hurt = view.lanes().iter().filter(relies);
                hurt.for_each(|lane| self.require_stop(lane, Cause::ChainReset, view));
            }
            Moment::Orphaned { .. } => self.check_orphan(view),
            Moment::Final { .. } => self.check_strangers(view),
            // An operator decided that the chain is right.
            Moment::HeadForgotten { .. } => {
                let of_chain = |cause| matches!(cause, Cause::ChainReset | Cause::FinalOrphaned);
                self.stop_reasons.retain(|_, reason| !of_chain(reason.cause));
            }
            Moment::Committed { commit, .. } => {
                let lane = commit.lease().submitter();
                let verdict = no_jump(commit, view)
                    .and_then(|()| adopts_foreign_nonces_only(commit, view))
                    .and_then(|()| left_by_decision(commit, view))
                    .and_then(|()| self.stopped(commit, view));
                return verdict.map_err(|what| CheckFailure::of(lane, what));
            }
            _ => {}
        }
        Ok(())
    }
}

impl NoSilentJump {
    /// A loss of commits is the strongest reason. Another cause does not replace it.
    fn require_stop(&mut self, lane: &SubmitterId, cause: Cause, view: &WorldView) {
        let worse = self
            .stop_reasons
            .get(lane)
            .is_none_or(|reason| reason.cause != Cause::StoreLost || cause == Cause::StoreLost);
        if worse {
            self.stop_reasons.insert(lane.clone(), StopReason { cause, since: view.now, stopped: false });
        }
    }

    /// Nodes may not have known that the block was final. A lane that has ended an intent by it did know.
    fn check_orphan(&mut self, view: &WorldView) {
        for tx in view.final_orphaned.iter().flat_map(|block| &block.txs) {
            let (plan, hash) = (&tx.read.plan, tx.hash());
            let slot =
                view.ledger.lane(&plan.submitter).and_then(|lane_ledger| lane_ledger.slots.get(&plan.nonce.get()));
            let Some(SlotKind::Intent(id)) = slot else { continue };
            let state = view.ledger.intents.get(id).map(|entry| &entry.state);
            if state.and_then(settled).is_some_and(|settled| settled.inclusion.hash == hash) {
                self.require_stop(&plan.submitter, Cause::FinalOrphaned, view);
            }
        }
    }

    /// A lane with the policy to adopt needs no decision. Any transaction at a nonce that was ever reserved is
    /// explained.
    fn check_strangers(&mut self, view: &WorldView) {
        if view.plan.on_external_nonce == ExternalNoncePolicy::Adopt {
            return;
        }
        for hash in &view.newly_final {
            let Some(location) = view.blocks.tx(hash).filter(|location| location.tx.by_stranger) else { continue };
            let plan = &location.tx.read.plan;
            let (lane, nonce) = (&plan.submitter, plan.nonce.get());
            let Some(lane_ledger) = view.ledger.lane(lane).filter(|lane_ledger| lane_ledger.cursor.is_some()) else {
                continue;
            };
            let is_reserved = lane_ledger.slots.get(&nonce) == Some(&SlotKind::Reservation);
            if !is_reserved && !lane_ledger.has_attempt(nonce, hash) {
                self.require_stop(lane, Cause::Stranger(nonce), view);
            }
        }
    }

    fn stopped(&mut self, commit: &LaneCommit, view: &WorldView) -> Result<(), String> {
        let lane = commit.lease().submitter();
        let Some(reason) = self.stop_reasons.get_mut(lane) else { return Ok(()) };
        // A node that had not seen the transaction yet reserved the nonce. The transaction then counts as the caller's.
        let kind_of = |nonce| view.ledger.lane(lane).and_then(|lane_ledger| lane_ledger.slots.get(&nonce));
        if matches!(reason.cause, Cause::Stranger(nonce) if kind_of(nonce) == Some(&SlotKind::Reservation)) {
            self.stop_reasons.remove(lane);
            return Ok(());
        }
        let lost = reason.cause == Cause::StoreLost;
        if lost && commit.ends_an_intent() {
            return Err("an intent ends before the loss of commits is reconciled".to_owned());
        }
        // The lane may have stopped earlier for another reason. A loss of commits needs its own PROTECT.
        reason.stopped |= !lost && view.before.cursor.as_ref().is_some_and(Cursor::is_protected);
        // An operator may also reconcile a lane that did not stop yet.
        let reconciled = !commit.commands_done().is_empty()
            && commit.lane_events().any(|(_, kind, _)| kind == LaneEventKind::Resynced);
        match commit.cursor().map(|change| &change.to().state) {
            Some(LaneState::Protect(protection)) => {
                reason.stopped |= !lost || protection.code == ProtectCode::StoreRegressed;
            }
            // `left_by_decision` checks that a decision ended PROTECT.
            Some(LaneState::Idle | LaneState::InFlight) if reason.stopped || (reconciled && !lost) => {
                self.stop_reasons.remove(lane);
                return Ok(());
            }
            _ => {}
        }
        let Some(slot) = commit.slots().iter().find(|slot| is_bind(slot, lane, view)) else { return Ok(()) };
        let in_calm = view.calm_since.map(|calm| calm.max(reason.since) + BLIND_IN_CALM);
        let known_by = (reason.since + BLIND).min(in_calm.unwrap_or(Duration::MAX));
        if reason.stopped || lost || view.now > known_by {
            let (nonce, since) = (slot.nonce, reason.since);
            return Err(format!("binds nonce {nonce} before a decision about {:?} at {since:?}", reason.cause));
        }
        Ok(())
    }
}

/// True for a new nonce, false for a nonce that the chain has used already.
fn is_bind(slot: &NewSlot, lane: &SubmitterId, view: &WorldView) -> bool {
    slot.kind != SlotKind::Foreign && view.blocks.final_uses(lane, slot.nonce.get()).next().is_none()
}

/// Every nonce below the cursor has a slot. All nonces below the first slot were used before the lane began.
fn no_jump(commit: &LaneCommit, view: &WorldView) -> Result<(), String> {
    let lane = commit.lease().submitter();
    let (Some(change), Some(lane_ledger)) = (commit.cursor(), view.ledger.lane(lane)) else { return Ok(()) };
    let next = change.to().next_nonce.get();
    if let Some(before) = view.before.cursor.as_ref().filter(|before| before.next_nonce.get() > next) {
        return Err(format!("the cursor goes back from {} to {next}", before.next_nonce));
    }
    let began_at = lane_ledger.slots.keys().next().copied().unwrap_or(next);
    if let Some(last) = lane_ledger.last_slot().filter(|last| last.saturating_add(1) != next) {
        return Err(format!("the cursor is at {next}, but the last slot is {last}"));
    }
    // Only when the lane begins: the nonces below its first slot do not change later.
    if view.before.last_slot.is_some() {
        return Ok(());
    }
    match (0..began_at).find(|nonce| view.blocks.final_uses(lane, *nonce).next().is_none()) {
        Some(nonce) => Err(format!("the lane begins at {began_at}, but no final block has used {nonce}")),
        None => Ok(()),
    }
}

/// A nonce is adopted as foreign only if a final block has used it by a transaction that the ledger does not know.
/// Without the policy to adopt, an operator's command is needed.
fn adopts_foreign_nonces_only(commit: &LaneCommit, view: &WorldView) -> Result<(), String> {
    let lane = commit.lease().submitter();
    for slot in commit.slots().iter().filter(|slot| slot.kind == SlotKind::Foreign) {
        let nonce = slot.nonce.get();
        if slot.evidence.is_none() {
            return Err(format!("nonce {nonce} is adopted without evidence"));
        }
        if view.blocks.final_uses(lane, nonce).next().is_none() {
            return Err(format!("nonce {nonce} is adopted, but no final block has used it"));
        }
        if view.plan.on_external_nonce == ExternalNoncePolicy::Protect && commit.commands_done().is_empty() {
            return Err(format!("nonce {nonce} is adopted without a command"));
        }
    }
    Ok(())
}

/// PROTECT ends by a command, or by the policy to adopt if no commits were lost.
fn left_by_decision(commit: &LaneCommit, view: &WorldView) -> Result<(), String> {
    let (Some(before), Some(change)) = (&view.before.cursor, commit.cursor()) else { return Ok(()) };
    let LaneState::Protect(protection) = &before.state else { return Ok(()) };
    let by_policy = view.plan.on_external_nonce == ExternalNoncePolicy::Adopt
        && protection.code != ProtectCode::StoreRegressed
        && !commit.audits().is_empty();
    if change.to().is_protected() || by_policy || !commit.commands_done().is_empty() {
        return Ok(());
    }
    Err(format!("leaves PROTECT ({}) without a decision", protection.code.as_str()))
}
