//! An open slot: one bound nonce with its attempts, its state on chain and its next send.

use alloy_primitives::B256;

use crate::action::{Action, Work};
use crate::amount::Amount;
use crate::attempt::{Attempt, AttemptKind, NewAttempt, SendOutcome};
use crate::block::{BlockLink, BlockRef};
use crate::intent_record::IntentRecord;
use crate::nonce::Nonce;
use crate::slot::SlotKind;
use crate::state::Goal;
use crate::time::{Tick, Timestamp};

use super::draft::AttemptOrigin;
use super::reservations::SlotReservation;
use super::slot_work::{BumpReason, MiningState, NextAttempt, Notice, Pace, Resends, Sending, Sends};

/// One bound nonce that is not closed yet.
#[derive(Debug)]
pub(super) struct OpenSlot {
    pub(super) nonce: Nonce,
    pub(super) kind: SlotKind,
    /// On a chain that has this block, the transaction that consumes the nonce lies above it.
    pub(super) above: Option<BlockRef>,
    pub(super) reservation: SlotReservation,
    pub(super) attempts: Vec<SlotAttempt>,
    /// The intent, while it is not terminal.
    pub(super) tx: Option<Box<IntentRecord>>,
    pub(super) mining: MiningState,
    pub(super) notice: Notice,
    pub(super) sends: Sends,
    pub(super) next: NextAttempt,
    pub(super) resends: Resends,
}

/// A durable attempt, with facts that only the lane's memory holds.
#[derive(Debug)]
pub(super) struct SlotAttempt {
    pub(super) attempt: Attempt,
    pub(super) cost: Amount,
    pub(super) work: Work,
    /// The last lookup of the hash found nothing.
    pub(super) missing: bool,
    pub(super) pool: PoolState,
    /// The attempt carries a payload that was replaced since.
    pub(super) stale: bool,
}

/// Whether some node may have an attempt in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolState {
    /// The attempt was never sent, or every send was refused as invalid or for lack of funds.
    Absent,
    /// The first send that may succeed is in flight.
    Sending,
    Pooled,
}

impl OpenSlot {
    pub(super) fn is_final(&self) -> bool {
        matches!(self.mining, MiningState::Final(..))
    }

    pub(super) fn is_mined(&self) -> bool {
        matches!(self.mining, MiningState::Mined(_) | MiningState::Final(..))
    }

    /// True if no block is known to contain one of the slot's hashes, by the chain or by the ledger.
    pub(super) fn is_unmined(&self) -> bool {
        matches!(self.mining, MiningState::Unmined(_))
    }

    /// Lookups of the slot's hashes, while no block is known to contain one.
    pub(super) fn missed_lookups(&self) -> Option<u32> {
        if let MiningState::Unmined(unmined) = self.mining { unmined.missed_lookups } else { None }
    }

    pub(super) fn forget_missed_lookups(&mut self) {
        if let MiningState::Unmined(unmined) = &mut self.mining {
            unmined.missed_lookups = None;
        }
    }

    pub(super) fn mined_in(&self) -> Option<BlockLink> {
        match &self.mining {
            MiningState::Mined(inclusion) | MiningState::Final(inclusion, _) => Some(inclusion.link()),
            MiningState::Unmined(_) | MiningState::Unverified(_) | MiningState::Lost => None,
        }
    }

    /// The largest amount that the slot can still take from the account.
    pub(super) fn cost(&self) -> Amount {
        self.attempts.iter().map(|held| held.cost).max().unwrap_or(Amount::ZERO)
    }

    /// Length of the longest attempt.
    pub(super) fn bytes(&self) -> usize {
        self.attempts.iter().map(|held| held.attempt.raw.len()).max().unwrap_or(0)
    }

    /// The intent's action without a price; `None` if the slot has no such action.
    pub(super) fn repeated_action(&self) -> Option<Action> {
        let action = self.tx.as_ref()?.payload().action()?;
        let held = self.attempts.iter().rev().find(|held| held.attempt.kind.carries_payload() && !held.stale)?;
        let work = Some(held.work).filter(|work| work.units > 0);
        Some(action.clone().wishing(None, work))
    }

    /// True if the caller set the price, so that the lane does not change it.
    pub(super) fn has_own_price(&self) -> bool {
        let action = self.tx.as_deref().and_then(|tx| tx.payload().action());
        !self.wants_filler() && action.is_none_or(|action| action.own_price().is_some())
    }

    /// True if the wanted attempt exists, and only its price is too low.
    pub(super) fn needs_bump(&self) -> bool {
        self.next.bump_reason.is_some()
            && self.has_wanted_attempt()
            && !self.sends.refusals.short_of_funds
            && !self.is_mined()
    }

    fn lacks_wanted_attempt(&self) -> bool {
        let is_foreign = self.kind == SlotKind::Foreign;
        !self.is_mined() && !self.has_wanted_attempt() && !self.waits_for_caller() && !is_foreign
    }

    /// True if the next attempt only improves the price, so that the existing one may be sent instead.
    pub(super) fn is_only_a_bump(&self) -> bool {
        self.next.bump_reason == Some(BumpReason::Overdue) && !self.has_request() && self.has_wanted_attempt()
    }

    /// True if, without a bump, an existing attempt may be sent again. This includes attempts below another transaction
    /// in the pool: the node's text may be wrong, or that transaction may go away.
    pub(super) fn may_resend_unchanged(&self) -> bool {
        let may_be_replaced = self.next.bump_reason == Some(BumpReason::ReplacementUnderpriced);
        self.is_only_a_bump() || (self.has_wanted_attempt() && (self.wants_filler() || may_be_replaced))
    }

    pub(super) fn has_wanted_attempt(&self) -> bool {
        self.attempts.iter().any(|held| self.fits(held))
    }

    /// True if the attempt does what the slot needs now.
    fn fits(&self, held: &SlotAttempt) -> bool {
        held.attempt.kind.carries_payload() != self.wants_filler() && !held.stale
    }

    pub(super) fn goal(&self) -> Goal {
        self.tx.as_ref().and_then(|tx| tx.state.bound()).map_or(Goal::Deliver, |bound| bound.goal)
    }

    /// Attempts that may be in a pool, so that the next attempt must replace them.
    pub(super) fn attempts_to_replace(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|held| held.pool != PoolState::Absent).map(|held| &held.attempt)
    }

    /// Marks an attempt as being sent.
    pub(super) fn mark_sending(&mut self, hash: B256) {
        self.sends.next = Sending::InFlight;
        let held = self.attempts.iter_mut().find(|held| held.attempt.hash == hash);
        if let Some(held) = held.filter(|held| held.pool == PoolState::Absent) {
            held.pool = PoolState::Sending;
        }
    }

    /// True if the nonce is to be consumed without effect.
    pub(super) fn wants_filler(&self) -> bool {
        matches!(self.goal(), Goal::Cancel(_)) || self.is_unclaimed() || self.has_timed_out()
    }

    /// The newest, and so dearest, attempt that does what the slot needs now.
    pub(super) fn wanted(&self) -> Option<&Attempt> {
        let newest = self.attempts.iter().rev().find(|held| self.fits(held));
        newest.or(self.attempts.last()).map(|held| &held.attempt)
    }

    /// True if nodes reject even the filler.
    pub(super) fn cannot_fill(&self) -> bool {
        self.sends.refusals.rejected
            && self.wants_filler()
            && self.wanted().is_some_and(|wanted| !wanted.kind.carries_payload())
    }

    /// True if another attempt must be made.
    pub(super) fn needs_attempt(&self) -> bool {
        self.lacks_wanted_attempt() || self.needs_bump() || self.has_request()
    }

    /// True if a command waits for another attempt that may still succeed.
    fn has_request(&self) -> bool {
        self.next.requested.as_ref().is_some_and(|requested| requested.failed.is_none()) && !self.is_mined()
    }

    /// True if the slot is to be sent now. An attempt that is no longer wanted is not sent while its successor is being
    /// made.
    pub(super) fn is_due(&self, now: Tick) -> bool {
        let waits = self.lacks_wanted_attempt() || self.needs_bump();
        matches!(self.sends.next, Sending::Send { at } if at <= now) && !waits
    }

    pub(super) fn next_ordinal(&self) -> u16 {
        self.attempts.last().map_or(0, |held| held.attempt.ordinal.saturating_add(1))
    }

    pub(super) fn add_attempt(&mut self, new: &NewAttempt, origin: &AttemptOrigin, at: Timestamp) {
        let AttemptOrigin { cost, work, .. } = *origin;
        let attempt = Attempt::new(new.clone(), at);
        // Most slots have one attempt; space for four would be the larger part of a slot.
        self.attempts.reserve_exact(1);
        self.attempts.push(SlotAttempt { attempt, cost, work, missing: false, pool: PoolState::Absent, stale: false });
        self.sends.newest_sent_at_head = None;
        // A slot with a transaction is no longer reserved.
        self.reservation = SlotReservation::NotReserved;
    }

    pub(super) fn kind_of(&self, hash: B256) -> Option<AttemptKind> {
        let held = self.attempts.iter().find(|held| held.attempt.hash == hash)?;
        Some(held.attempt.kind)
    }

    /// Applies the result of one send, and sets the time of the next one.
    pub(super) fn sent(&mut self, hash: B256, outcome: SendOutcome, now: Tick, pace: &Pace) {
        let accepted = outcome.is_accepted();
        if let Some(held) = self.attempts.iter_mut().find(|held| held.attempt.hash == hash) {
            held.pool = match held.pool {
                PoolState::Sending | PoolState::Absent if outcome.is_refusal() => PoolState::Absent,
                PoolState::Absent | PoolState::Sending | PoolState::Pooled => PoolState::Pooled,
            };
        }
        // An answer to an attempt that is no longer wanted says nothing about the wanted one.
        let is_wanted = self.wanted().is_some_and(|wanted| wanted.hash == hash);
        // An answer about an attempt that was mined meanwhile does not matter.
        let counts = is_wanted && self.is_unmined();
        self.sends.acknowledged |= accepted;
        // An answer without a verdict does not revoke an earlier verdict.
        self.sends.refusals.short_of_funds =
            !accepted && (self.sends.refusals.short_of_funds || (counts && outcome == SendOutcome::InsufficientFunds));
        self.sends.refusals.rejected =
            !accepted && (self.sends.refusals.rejected || (counts && outcome == SendOutcome::Rejected));
        // A node accepted the attempt at the market price. A bump for another reason is still needed.
        if accepted && self.next.bump_reason == Some(BumpReason::Underpriced) {
            self.next.bump_reason = None;
        }
        self.sends.failures = if accepted { 0 } else { self.sends.failures.saturating_add(1) };
        if self.sends.next != Sending::InFlight {
            // Another send became due while this one was in flight.
        } else if self.is_mined() {
            self.sends.next = Sending::Idle;
        } else if accepted {
            self.sends.next = match pace.resubmit {
                Some(interval) => Sending::claim(now.saturating_add(interval)),
                None => Sending::Idle,
            };
        } else {
            let pause = pace.after_failures(self.sends.failures);
            self.sends.next = Sending::Send { at: now.saturating_add(pause) };
        }
    }

    /// True if nothing is left to happen to the slot.
    pub(super) fn is_ended(&self) -> bool {
        match self.kind {
            _ if self.mining == MiningState::Lost => true,
            SlotKind::Intent(_) => self.tx.is_none(),
            SlotKind::Reservation if self.is_unclaimed() => self.is_final(),
            SlotKind::Reservation => self.tx.is_none() && !self.is_reserved(),
            SlotKind::Foreign => true,
        }
    }
}
