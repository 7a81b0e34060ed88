//! Sending again, or for more, what waits too long: the claim first, then the send.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::attempt::MempoolSignal;
use crate::cursor::Cursor;
use crate::event::LaneEventKind;
use crate::ledger::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::slot::Claim;
use crate::state::{StateName, StuckReason};
use crate::text::NodeText;
use crate::time::Tick;
use crate::transition::Transition;

use super::Lane;
use super::effect::{DiagnoseRequest, Effect, Step};
use super::open_slot::{OpenSlot, Pressure, Remedy, Sending};
use super::writing::{Writing, apply};

/// Are nodes' pools being looked into?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Diagnosis {
    None,
    Asked,
    Told(MempoolSignal),
}

/// A claim that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimed {
    pub(super) nonce: Nonce,
    pub(super) tries: u16,
    pub(super) signal: Option<MempoolSignal>,
    /// More is to be offered, not the same again.
    pub(super) raises: bool,
}

impl Claimed {
    pub(super) fn claim(self, pause: Duration) -> Claim {
        let Claimed { nonce, tries, signal, .. } = self;
        Claim { nonce, pause, tries, signal }
    }
}

impl Lane {
    /// Claims what is to be sent again. With pools to be looked into, that comes first.
    pub(super) fn write_claims(
        &mut self,
        now: Tick,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        writing: &mut Writing,
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
                Diagnosis::Told(signal) => Some(signal),
                Diagnosis::Asked => continue,
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
            let raises = self.may_raise(slot, signal, now);
            let tries = slot.tries.saturating_add(u16::from(is_try));
            let claimed = Claimed { nonce, tries, signal, raises };
            commit.claim_resubmit(claimed.claim(interval));
            if is_try && tries >= self.setup.policy.stuck.after_tries {
                self.give_up(nonce, commit, writing)?;
            }
            self.slots.update(nonce, |slot| slot.sending = Sending::Claiming);
            writing.claims.push(claimed);
        }
        for request in &asked {
            self.slots.update(request.nonce, |slot| slot.diagnosis = Diagnosis::Asked);
        }
        if !asked.is_empty() {
            step.effects.push(Effect::Diagnose(asked));
        }
        self.slots.next_after(now).into_iter().for_each(|at| step.wake(at));
        Ok(())
    }

    /// Only the lowest one is tried: the others wait for it. And a chain that stands still, or an account without funds, is no
    /// matter of tries.
    fn is_try(&self, slot: &OpenSlot) -> bool {
        let is_lowest = self.slots.unmined().first() == Some(&slot.nonce);
        is_lowest && !slot.short_of_funds && self.blocks_since_sent(slot).is_some_and(|blocks| blocks > 0)
    }

    /// Is more to be offered for it, instead of sending the same again?
    fn may_raise(&self, slot: &OpenSlot, signal: Option<MempoolSignal>, now: Tick) -> bool {
        let policy = &self.setup.policy.bump;
        let is_lowest = self.slots.unmined().first() == Some(&slot.nonce);
        let rested = slot
            .attempts
            .last()
            .is_some_and(|held| held.attempt.created_at.saturating_add(policy.min_interval) <= self.database_now(now));
        let moved = slot
            .offered_at
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
            && slot.pressure.is_none()
            && slot.order.is_none()
            // What no pool has is not too cheap for it.
            && signal != Some(MempoolSignal::LikelyDropped)
    }

    fn blocks_since_sent(&self, slot: &OpenSlot) -> Option<u64> {
        Some(self.head()?.saturating_sub(slot.sent_at?))
    }

    /// As of the last look at the account.
    pub(super) fn head(&self) -> Option<u64> {
        self.purse.account.map(|account| account.head)
    }

    pub(super) fn diagnosed(&mut self, signals: Vec<(Nonce, MempoolSignal)>) {
        for (nonce, signal) in signals {
            self.slots.update(nonce, |slot| slot.diagnosis = Diagnosis::Told(signal));
        }
    }

    /// There were enough tries: somebody has to decide.
    fn give_up(&self, nonce: Nonce, commit: &mut LaneCommit, writing: &mut Writing) -> Result<(), CommitError> {
        let open = |state: StateName| matches!(state, StateName::Allocated | StateName::Tracking);
        if let Some(tx) = self.intent_at(nonce, writing).filter(|tx| open(tx.state.name())) {
            let mut tx = tx.clone();
            apply(&mut tx, Transition::GiveUp(StuckReason::OutOfTries), commit)?;
            writing.changed.insert(nonce, Box::new(tx));
        }
        Ok(())
    }

    /// `offered` are those that got another attempt in the same commit.
    pub(super) fn take_claims(&mut self, claims: Vec<Claimed>, offered: &BTreeSet<Nonce>, now: Tick) {
        for Claimed { nonce, tries, signal, raises } in claims {
            self.slots.update(nonce, |slot| {
                slot.tries = tries;
                slot.signal = signal.or(slot.signal);
                slot.diagnosis = Diagnosis::None;
                if slot.sending == Sending::Claiming {
                    slot.sending = Sending::Due { at: now, claim: false };
                }
                if raises && !offered.contains(&nonce) && slot.pressure.is_none() && slot.remedy == Remedy::None {
                    slot.pressure = Some(Pressure::Waiting);
                }
            });
        }
    }

    /// Consumers are told when the market is too dear for the policy, and when it is not any more.
    pub(super) fn write_fee_news(
        &mut self,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        if self.line.is_known_empty() && self.slots.unmined().is_empty() {
            // Nobody waits for it any more.
            self.above_cap = None;
        }
        if self.above_cap.is_some() == self.told_above_cap {
            return Ok(());
        }
        let (kind, text) = match &self.above_cap {
            Some(text) => (LaneEventKind::FeesAboveCap, text.clone()),
            None => {
                (LaneEventKind::FeesBelowCap, "the market asks for less than the most that may be offered".to_owned())
            }
        };
        commit.lane_event(cursor, kind, NodeText::new(&text))?;
        writing.told_above_cap = Some(self.above_cap.is_some());
        Ok(())
    }
}

pub(super) fn above_cap(asked: u128, cap: u128) -> String {
    format!("the market asks for {asked} wei a gas, and at most {cap} may be offered")
}
