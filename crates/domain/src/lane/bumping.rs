//! Resends and bumps of attempts that wait too long. The claim is committed before anything is sent.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::attempt::MempoolSignal;
use crate::cursor::Cursor;
use crate::event::LaneEventKind;
use crate::lane_commit::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::slot::Claim;
use crate::state::{StateName, StuckReason};
use crate::text::NodeText;
use crate::time::Tick;
use crate::transition::Transition;

use super::Lane;
use super::effect::{DiagnoseRequest, Effect, Step};
use super::open_slot::{BumpReason, NextAttempt, OpenSlot, Sending};
use super::pending_commit::{PendingCommit, apply};

/// Progress of a mempool diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Diagnosis {
    None,
    Requested,
    Known(MempoolSignal),
}

/// A claim in the commit in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingClaim {
    pub(super) nonce: Nonce,
    pub(super) tries: u16,
    pub(super) signal: Option<MempoolSignal>,
    /// True for a bump, false for a resend.
    pub(super) is_bump: bool,
}

impl PendingClaim {
    pub(super) fn claim(self, pause: Duration) -> Claim {
        let PendingClaim { nonce, tries, signal, .. } = self;
        Claim { nonce, pause, tries, signal }
    }
}

impl Lane {
    /// Claims the slots that are due. If the policy asks for it, the mempools are diagnosed first.
    pub(super) fn write_claims(
        &mut self,
        now: Tick,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
        step: &mut Step,
    ) -> Result<(), CommitError> {
        let Some(interval) = self.setup.resubmit_interval() else { return Ok(()) };
        if self.draining {
            return Ok(());
        }
        let mut asked = Vec::new();
        for nonce in self.slots.to_claim(now) {
            let Some(slot) = self.slots.get(nonce) else { continue };
            let signal = match slot.diagnosis {
                Diagnosis::Known(signal) => Some(signal),
                Diagnosis::Requested => continue,
                Diagnosis::None if self.setup.policy.mempool.diagnose => {
                    asked.push(DiagnoseRequest { nonce, hashes: slot.hashes().collect() });
                    continue;
                }
                Diagnosis::None => None,
            };
            if let Some(signal) = signal.filter(|signal| slot.signal != Some(*signal)) {
                let text = NodeText::new(&format!("nonce {nonce}: {}", signal.as_str()));
                commit.lane_event(cursor, LaneEventKind::Diagnosed, text)?;
            }
            let is_try = self.is_try(slot);
            let is_bump = self.may_bump(slot, signal, now);
            let tries = slot.tries.saturating_add(u16::from(is_try));
            let claimed = PendingClaim { nonce, tries, signal, is_bump };
            commit.claim_resubmit(claimed.claim(interval));
            if is_try && tries >= self.setup.policy.stuck.after_tries {
                self.give_up(nonce, commit, pending)?;
            }
            self.slots.update(nonce, |slot| slot.sending = Sending::Claiming);
            pending.claims.push(claimed);
        }
        for request in &asked {
            self.slots.update(request.nonce, |slot| slot.diagnosis = Diagnosis::Requested);
        }
        if !asked.is_empty() {
            step.effects.push(Effect::Diagnose(asked));
        }
        self.slots.next_after(now).into_iter().for_each(|at| step.wake(at));
        Ok(())
    }

    /// True if the resend counts as a try. Only the lowest nonce counts, because the others wait for it. A chain
    /// without new blocks and an account without funds are not counted either.
    fn is_try(&self, slot: &OpenSlot) -> bool {
        let is_lowest = self.slots.unmined().first() == Some(&slot.nonce);
        is_lowest && !slot.short_of_funds && self.blocks_since_sent(slot).is_some_and(|blocks| blocks > 0)
    }

    /// True if a bump is due instead of a resend.
    fn may_bump(&self, slot: &OpenSlot, signal: Option<MempoolSignal>, now: Tick) -> bool {
        let policy = &self.setup.policy.bump;
        let is_lowest = self.slots.unmined().first() == Some(&slot.nonce);
        let rested = slot
            .attempts
            .last()
            .is_some_and(|held| held.attempt.created_at.saturating_add(policy.min_interval) <= self.database_now(now));
        let moved = slot
            .newest_sent_at_head
            .is_some_and(|at| self.head().is_some_and(|head| head.saturating_sub(at) >= u64::from(policy.min_blocks)));
        let is_stuck = slot.tx.as_ref().is_some_and(|tx| tx.state.name() == StateName::Stuck);
        policy.enabled
            && (is_lowest || !policy.only_lowest)
            && slot.next_ordinal() <= policy.max_attempts
            && rested
            && moved
            && !is_stuck
            && !slot.short_of_funds
            && !slot.has_own_price()
            && slot.bump_reason.is_none()
            && slot.requested.is_none()
            // An attempt that is in no pool is not too cheap.
            && signal != Some(MempoolSignal::LikelyDropped)
    }

    fn blocks_since_sent(&self, slot: &OpenSlot) -> Option<u64> {
        Some(self.head()?.saturating_sub(slot.sent_at_head?))
    }

    /// Newest block at the last read of the account.
    pub(super) fn head(&self) -> Option<u64> {
        self.funds.account.map(|account| account.head)
    }

    pub(super) fn diagnosed(&mut self, signals: Vec<(Nonce, MempoolSignal)>) {
        for (nonce, signal) in signals {
            self.slots.update(nonce, |slot| slot.diagnosis = Diagnosis::Known(signal));
        }
    }

    /// Marks the intent as stuck after the last try.
    fn give_up(&self, nonce: Nonce, commit: &mut LaneCommit, pending: &mut PendingCommit) -> Result<(), CommitError> {
        let open = |state: StateName| matches!(state, StateName::Allocated | StateName::Tracking);
        if let Some(tx) = self.intent_at(nonce, pending).filter(|tx| open(tx.state.name())) {
            let mut tx = tx.clone();
            apply(&mut tx, Transition::GiveUp(StuckReason::OutOfTries), commit)?;
            pending.changed.insert(nonce, Box::new(tx));
        }
        Ok(())
    }

    /// Applies committed claims. `offered` are nonces that got another attempt in the same commit.
    pub(super) fn apply_claims(&mut self, claims: Vec<PendingClaim>, offered: &BTreeSet<Nonce>, now: Tick) {
        for PendingClaim { nonce, tries, signal, is_bump } in claims {
            self.slots.update(nonce, |slot| {
                slot.tries = tries;
                slot.signal = signal.or(slot.signal);
                slot.diagnosis = Diagnosis::None;
                if slot.sending == Sending::Claiming {
                    slot.sending = Sending::Due { at: now, claim: false };
                }
                if is_bump
                    && !offered.contains(&nonce)
                    && slot.bump_reason.is_none()
                    && slot.next_attempt == NextAttempt::None
                {
                    slot.bump_reason = Some(BumpReason::Overdue);
                }
            });
        }
    }

    /// Notifies consumers when the market price rises above the cap of the policy, and when it falls below it again.
    pub(super) fn write_fee_cap_event(
        &mut self,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        if self.queue.is_known_empty() && self.slots.unmined().is_empty() {
            // No intent waits for a price.
            self.above_cap = None;
        }
        if self.above_cap.is_some() == self.notified_above_cap {
            return Ok(());
        }
        let (kind, text) = match &self.above_cap {
            Some(text) => (LaneEventKind::FeesAboveCap, text.clone()),
            None => (LaneEventKind::FeesBelowCap, "the market price is below the cap again".to_owned()),
        };
        commit.lane_event(cursor, kind, NodeText::new(&text))?;
        pending.notified_above_cap = Some(self.above_cap.is_some());
        Ok(())
    }
}

pub(super) fn above_cap(asked: u128, cap: u128) -> String {
    format!("the market price is {asked} wei per gas, above the cap of {cap}")
}
