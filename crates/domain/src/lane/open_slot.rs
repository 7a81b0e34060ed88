//! An open slot: one bound nonce with its attempts, its state on chain and its next send.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;

use crate::amount::Amount;
use crate::attempt::{Attempt, AttemptKind, MempoolSignal, NewAttempt, SendOutcome};
use crate::block::{BlockLink, BlockRef, Inclusion};
use crate::confirmation::ConfirmationNotice;
use crate::intent_record::IntentRecord;
use crate::mistakes::{self, Mistake};
use crate::nonce::Nonce;
use crate::payload::{EvmCall, Payload};
use crate::slot::SlotKind;
use crate::state::{CancelReason, Goal, Mined, Progress, StateName};
use crate::tail::Tail;
use crate::time::{Tick, Timestamp};
use crate::transition::Transition;

use super::decide::next_attempt::RequestedAttempt;
use super::decide::resend::Diagnosis;
use super::decide::stuck::DecisionState;
use super::draft::AttemptOrigin;
use super::fact::{MinedTx, Prepared};
use super::reservations::SlotReservation;

/// One bound nonce that is not closed yet.
#[derive(Debug)]
pub(super) struct OpenSlot {
    pub(super) nonce: Nonce,
    pub(super) kind: SlotKind,
    pub(super) reservation: SlotReservation,
    pub(super) attempts: Vec<SlotAttempt>,
    /// The intent, while it is not terminal.
    pub(super) tx: Option<Box<IntentRecord>>,
    pub(super) mining: MiningState,
    pub(super) sending: Sending,
    /// Number of sends in a row without an acknowledgement.
    pub(super) failures: u32,
    pub(super) acknowledged: bool,
    pub(super) short_of_funds: bool,
    /// Nodes reject the wanted attempt itself, not only its price.
    pub(super) rejected: bool,
    /// Reason why a dearer attempt is needed.
    pub(super) bump_reason: Option<BumpReason>,
    /// The attempt that a command has requested.
    pub(super) requested: Option<RequestedAttempt>,
    pub(super) next_attempt: NextAttempt,
    /// Number of the last price request; answers to older requests are ignored.
    pub(super) ticket: u32,
    /// Number of resends and bumps since the bind, or since the last decision.
    pub(super) tries: u16,
    /// Newest mempool signal.
    pub(super) signal: Option<MempoolSignal>,
    pub(super) diagnosis: Diagnosis,
    /// Head at the last send of any attempt; `None` if the lane was loaded after that.
    pub(super) sent_at_head: Option<u64>,
    /// Head at the first send of the newest attempt; `None` if the lane was loaded after that.
    pub(super) newest_sent_at_head: Option<u64>,
    pub(super) decision: DecisionState,
    /// Number of lookups at which all hashes were missing while the nonce was consumed; `None` while the nonce is not
    /// consumed.
    pub(super) missed_lookups: Option<u32>,
    /// The nonce was finally consumed by something else. The slot has no work left.
    pub(super) lost: bool,
    /// On a chain that has this block, the transaction that consumes the nonce lies above it.
    pub(super) above: Option<BlockRef>,
    /// A former owner sent the attempt, and no block is known to contain it.
    pub(super) inherited: bool,
    /// The slot is in the lane's queue for confirmation notices.
    pub(super) in_notice_queue: bool,
    /// A confirmation notice is due.
    pub(super) notice_due: bool,
    /// Confirmations of the final inclusion.
    pub(super) final_list: Option<Arc<[BlockLink]>>,
}

/// A durable attempt, with facts that only the lane's memory holds.
#[derive(Debug)]
pub(super) struct SlotAttempt {
    pub(super) attempt: Attempt,
    pub(super) cost: Amount,
    pub(super) gas_limit: u64,
    /// The last lookup of the hash found nothing.
    pub(super) missing: bool,
    /// Some node may have the attempt in its pool. False before the first send, and while every send was refused as
    /// invalid or for lack of funds.
    pub(super) pooled: bool,
    /// A send of the attempt is in flight.
    pub(super) under_way: bool,
    /// The attempt carries a payload that was replaced since.
    pub(super) stale: bool,
}

/// Reason for a bump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BumpReason {
    /// Nodes ask for a higher price.
    Underpriced,
    /// Another transaction in the pool has the same nonce, so the market price is not enough.
    ReplacementUnderpriced,
    /// The attempt has waited long enough.
    Overdue,
}

/// State of a slot on chain, by any of its hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MiningState {
    Unmined,
    /// The ledger says that the transaction is in this block. The block was not compared with the chain since the lane
    /// was loaded.
    Unverified(BlockRef),
    Mined(Inclusion),
    Final(Inclusion),
}

/// Next send of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// No send is planned.
    Idle,
    /// To be sent at this time. `claim` is true for a resend, which needs a claim in the ledger first.
    Due {
        at: Tick,
        claim: bool,
    },
    /// The commit with the claim is in flight.
    Claiming,
    InFlight,
}

/// Progress of the next attempt at the same nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAttempt {
    /// No further attempt is being made.
    None,
    /// A price was requested.
    Pricing,
    /// To be tried again at this time.
    Later(Tick),
    /// The price is known.
    Ready(Prepared),
    /// The attempt is at the signer, or signed and not yet durable.
    Signing,
}

impl OpenSlot {
    pub(super) fn is_final(&self) -> bool {
        matches!(self.mining, MiningState::Final(_))
    }

    pub(super) fn is_mined(&self) -> bool {
        matches!(self.mining, MiningState::Mined(_) | MiningState::Final(_))
    }

    pub(super) fn mined_in(&self) -> Option<BlockLink> {
        match &self.mining {
            MiningState::Mined(inclusion) | MiningState::Final(inclusion) => Some(inclusion.link()),
            MiningState::Unmined | MiningState::Unverified(_) => None,
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

    /// The intent's call without a price; `None` if the slot has no such call.
    pub(super) fn repeated_call(&self) -> Option<EvmCall> {
        let Payload::Evm(call) = self.tx.as_ref()?.payload() else { return None };
        let held = self.attempts.iter().rev().find(|held| held.attempt.kind.carries_payload() && !held.stale)?;
        let gas_limit = Some(held.gas_limit).filter(|limit| *limit > 0);
        Some(EvmCall { gas_limit, fees: None, ..call.clone() })
    }

    /// True if the caller set the price, so that the lane does not change it.
    pub(super) fn has_own_price(&self) -> bool {
        let payload = self.tx.as_deref().map(IntentRecord::payload);
        !self.wants_filler() && !matches!(payload, Some(Payload::Evm(call)) if call.fees.is_none())
    }

    /// True if the wanted attempt exists, and only its price is too low.
    pub(super) fn needs_bump(&self) -> bool {
        self.bump_reason.is_some() && self.has_wanted_attempt() && !self.short_of_funds && !self.is_mined()
    }

    fn lacks_wanted_attempt(&self) -> bool {
        let lacks =
            !self.is_mined() && !self.has_wanted_attempt() && !self.is_reserved() && self.kind != SlotKind::Foreign;
        let is_forgotten = mistakes::made(Mistake::NoFillForHole) && self.wants_filler();
        lacks && !is_forgotten
    }

    /// True if the next attempt only improves the price, so that the existing one may be sent instead.
    pub(super) fn is_only_a_bump(&self) -> bool {
        self.bump_reason == Some(BumpReason::Overdue) && !self.has_request() && self.has_wanted_attempt()
    }

    /// True if, without a bump, an existing attempt may be sent again. This includes attempts below another transaction
    /// in the pool: the node's text may be wrong, or that transaction may go away.
    pub(super) fn may_resend_unchanged(&self) -> bool {
        let may_be_replaced = self.bump_reason == Some(BumpReason::ReplacementUnderpriced);
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
        self.attempts.iter().filter(move |held| held.pooled || held.under_way).map(|held| &held.attempt)
    }

    /// Marks an attempt as being sent.
    pub(super) fn mark_sending(&mut self, hash: B256) {
        self.sending = Sending::InFlight;
        self.attempts.iter_mut().filter(|held| held.attempt.hash == hash).for_each(|held| held.under_way = true);
    }

    /// True if the nonce is to be consumed without effect.
    pub(super) fn wants_filler(&self) -> bool {
        matches!(self.goal(), Goal::Cancel(_)) || self.is_unclaimed()
    }

    /// The newest, and so dearest, attempt that does what the slot needs now.
    pub(super) fn wanted(&self) -> Option<&Attempt> {
        let newest = self.attempts.iter().rev().find(|held| self.fits(held));
        newest.or(self.attempts.last()).map(|held| &held.attempt)
    }

    /// True if nodes reject even the filler.
    pub(super) fn cannot_fill(&self) -> bool {
        self.rejected && self.wants_filler() && self.wanted().is_some_and(|wanted| !wanted.kind.carries_payload())
    }

    /// True if another attempt must be made.
    pub(super) fn needs_attempt(&self) -> bool {
        self.lacks_wanted_attempt() || self.needs_bump() || self.has_request()
    }

    /// True if a command waits for another attempt that may still succeed.
    fn has_request(&self) -> bool {
        self.requested.as_ref().is_some_and(|requested| requested.failed.is_none()) && !self.is_mined()
    }

    /// True if the slot is to be sent now. An attempt that is no longer wanted is not sent while its successor is being
    /// made.
    pub(super) fn is_due(&self, now: Tick) -> bool {
        let waits = self.lacks_wanted_attempt() || self.needs_bump();
        matches!(self.sending, Sending::Due { at, claim: false } if at <= now) && !waits
    }

    pub(super) fn next_ordinal(&self) -> u16 {
        self.attempts.last().map_or(0, |held| held.attempt.ordinal.saturating_add(1))
    }

    pub(super) fn add_attempt(&mut self, new: &NewAttempt, origin: &AttemptOrigin, at: Timestamp) {
        let AttemptOrigin { cost, gas_limit, .. } = *origin;
        let attempt = Attempt::new(new.clone(), at);
        // Most slots have one attempt; space for four would be the larger part of a slot.
        self.attempts.reserve_exact(1);
        self.attempts.push(SlotAttempt {
            attempt,
            cost,
            gas_limit,
            missing: false,
            pooled: false,
            under_way: false,
            stale: false,
        });
        self.newest_sent_at_head = None;
        // A slot with a transaction is no longer reserved.
        self.reservation = SlotReservation::NotReserved;
    }

    pub(super) fn kind_of(&self, hash: B256) -> Option<AttemptKind> {
        if mistakes::made(Mistake::OnlyLastHash) {
            return self.attempts.last().filter(|held| held.attempt.hash == hash).map(|held| held.attempt.kind);
        }
        let held = self.attempts.iter().find(|held| held.attempt.hash == hash)?;
        Some(held.attempt.kind)
    }

    /// Records an inclusion. Returns true if it changes the slot.
    pub(super) fn mined(&mut self, mined: MinedTx) -> bool {
        let Some(kind) = self.kind_of(mined.hash) else { return false };
        // A final inclusion stays. The watcher reports a reorg below it separately (R09).
        if self.is_final() {
            return false;
        }
        let MinedTx { hash, block, parent_hash, execution, gas_used, effective_gas_price } = mined;
        let inclusion = Inclusion { hash, kind, block, parent_hash, execution, gas_used, effective_gas_price };
        // An equal hash in an equal block is the same inclusion. A second read may lack the revert reason, because the
        // node may have forgotten it.
        let is_same = |known: &&Inclusion| known.hash == hash && known.block == block;
        let mining = MiningState::Mined(self.known_inclusion().filter(is_same).cloned().unwrap_or(inclusion));
        let changed = self.mining != mining;
        self.mining = mining;
        self.sending = Sending::Idle;
        // The chain has accepted the transaction, so earlier rejections do not matter.
        self.short_of_funds = false;
        self.rejected = false;
        self.bump_reason = None;
        self.missed_lookups = None;
        if let (true, MiningState::Mined(inclusion)) = (mistakes::made(Mistake::MinedIsFinal), &self.mining) {
            self.mining = MiningState::Final(inclusion.clone());
        }
        changed
    }

    /// The last known inclusion, by the chain or by the ledger.
    fn known_inclusion(&self) -> Option<&Inclusion> {
        if let MiningState::Mined(inclusion) = &self.mining {
            return Some(inclusion);
        }
        match &self.tx.as_ref()?.state.bound()?.progress {
            Progress::Mined(mined) => Some(&mined.inclusion),
            Progress::Pending | Progress::AwaitingFunds => None,
        }
    }

    pub(super) fn still_mined(&mut self, hash: B256, block: BlockRef) {
        let Some(bound) = self.tx.as_ref().and_then(|tx| tx.state.bound()) else { return };
        if let (MiningState::Unverified(at), Progress::Mined(Mined { inclusion, .. })) = (&self.mining, &bound.progress)
            && *at == block
            && inclusion.hash == hash
        {
            self.mining = MiningState::Mined(inclusion.clone());
            self.sending = Sending::Idle;
        }
    }

    pub(super) fn is_final_in(&self, hash: B256, block: BlockRef) -> bool {
        matches!(&self.mining, MiningState::Final(inclusion) if inclusion.hash == hash && inclusion.block == block)
    }

    /// A reorg below finality. An intent that has ended stays as it is (R09). An intent that has not ended follows the
    /// chain as it is now.
    pub(super) fn no_longer_final(&mut self, now: Tick) {
        let has_ended = match self.kind {
            SlotKind::Intent(_) => self.tx.is_none(),
            SlotKind::Reservation => self.tx.is_none() && !self.is_unclaimed(),
            SlotKind::Foreign => true,
        };
        if !has_ended && !self.lost {
            self.final_list = None;
            self.reset_unmined(now);
        }
    }

    fn reset_unmined(&mut self, now: Tick) {
        self.mining = MiningState::Unmined;
        self.forget_missing();
        self.sending = Sending::Due { at: now, claim: false };
    }

    /// Records that the block was orphaned. Returns true if it held this slot; the wanted attempt is then sent again.
    pub(super) fn unmined(&mut self, hash: B256, block: BlockRef, now: Tick) -> bool {
        let was_there = match &self.mining {
            MiningState::Mined(inclusion) => inclusion.hash == hash && inclusion.block == block,
            MiningState::Unverified(at) => *at == block,
            MiningState::Unmined | MiningState::Final(_) => false,
        };
        if was_there {
            self.reset_unmined(now);
        }
        was_there
    }

    /// Records finality. Returns false if the slot is not known to be in that block, so that its hash must be looked
    /// up.
    pub(super) fn finalized(&mut self, hash: B256, block: BlockRef, list: Arc<[BlockLink]>) -> bool {
        // A final block is canonical, so the inclusion still holds.
        self.still_mined(hash, block);
        if let MiningState::Mined(inclusion) = &self.mining
            && inclusion.hash == hash
            && inclusion.block == block
        {
            self.mining = MiningState::Final(inclusion.clone());
            self.final_list = Some(list);
        }
        self.is_final() || self.is_ended()
    }

    /// Records that a lookup of a hash found nothing. An attempt sent by a former owner may have left all pools. It is
    /// sent again when no block has it, not only when its resend is due.
    pub(super) fn hash_not_found(&mut self, hash: B256, now: Tick) {
        if let Some(held) = self.attempts.iter_mut().find(|held| held.attempt.hash == hash) {
            held.missing = true;
        }
        if self.inherited && self.attempts.iter().all(|held| held.missing) {
            self.inherited = false;
            if let Sending::Due { at, claim: true } = self.sending {
                self.sending = Sending::Due { at: at.min(now), claim: true };
            }
        }
    }

    /// True if every hash was looked up since the last call and none was found.
    pub(super) fn take_missing(&mut self) -> bool {
        let all = self.attempts.iter().all(|held| held.missing);
        self.forget_missing();
        all
    }

    pub(super) fn forget_missing(&mut self) {
        for held in &mut self.attempts {
            held.missing = false;
        }
    }

    /// Applies the result of one send, and sets the time of the next one.
    pub(super) fn sent(&mut self, hash: B256, outcome: SendOutcome, now: Tick, pace: &Pace) {
        let is_planted_bug = mistakes::made(Mistake::UnderpricedIsSuccess)
            && matches!(outcome, SendOutcome::Underpriced | SendOutcome::ReplacementUnderpriced);
        let accepted = outcome.is_accepted() || is_planted_bug;
        if let Some(held) = self.attempts.iter_mut().find(|held| held.attempt.hash == hash) {
            held.under_way = false;
            held.pooled |= !outcome.is_refusal();
        }
        // An answer to an attempt that is no longer wanted says nothing about the wanted one.
        let is_wanted = self.wanted().is_some_and(|wanted| wanted.hash == hash);
        // An answer about an attempt that was mined meanwhile does not matter.
        let counts = is_wanted && self.mining == MiningState::Unmined;
        self.acknowledged |= accepted;
        // An answer without a verdict does not revoke an earlier verdict.
        self.short_of_funds =
            !accepted && (self.short_of_funds || (counts && outcome == SendOutcome::InsufficientFunds));
        self.rejected = !accepted && (self.rejected || (counts && outcome == SendOutcome::Rejected));
        // A node accepted the attempt at the market price. A bump for another reason is still needed.
        if accepted && self.bump_reason == Some(BumpReason::Underpriced) {
            self.bump_reason = None;
        }
        self.failures = if accepted { 0 } else { self.failures.saturating_add(1) };
        if self.sending != Sending::InFlight {
            // Another send became due while this one was in flight.
        } else if self.is_mined() {
            self.sending = Sending::Idle;
        } else if accepted {
            self.sending = match pace.resubmit.filter(|_| !is_planted_bug) {
                Some(interval) => Sending::Due { at: now.saturating_add(interval), claim: true },
                None => Sending::Idle,
            };
        } else {
            self.sending = Sending::Due { at: now.saturating_add(pace.after_failures(self.failures)), claim: false };
        }
    }

    /// The legal transitions from the state in the ledger to the state on chain and in the nodes.
    pub(super) fn due_transitions(&self, may_end: bool, tail: Option<&Tail>, most: u32) -> Vec<Transition> {
        let Some(tx) = &self.tx else { return Vec::new() };
        let Some(bound) = tx.state.bound() else { return Vec::new() };
        let mut steps = Vec::new();
        let held = if let Progress::Mined(mined) = &bound.progress { Some(mined) } else { None };
        match &self.mining {
            MiningState::Unverified(_) => {}
            MiningState::Mined(inclusion) | MiningState::Final(inclusion) => {
                let notified = match held {
                    Some(mined) if mined.inclusion == *inclusion => mined.notified,
                    _ => {
                        steps.extend(held.map(|_| Transition::Unmine));
                        steps.push(Transition::Mine(inclusion.clone()));
                        inclusion.block
                    }
                };
                // Consumers were notified of more confirmations than are required now, and all of them are still
                // canonical.
                let is_longer = |list: &[BlockLink]| {
                    list.last().is_none_or(|last| last.block.number < notified.number)
                        && tail.is_some_and(|tail| tail.contains(notified))
                };
                let notice = |list: &[BlockLink]| {
                    if is_longer(list) { None } else { ConfirmationNotice::between(notified, list) }
                };
                if self.is_final() && may_end {
                    steps.push(Transition::Settle(self.final_list.as_deref().and_then(notice)));
                } else if self.notice_due {
                    let list = tail.map(|tail| tail.list_from(inclusion.block, most)).unwrap_or_default();
                    steps.extend(notice(&list).map(Transition::Confirm));
                }
            }
            MiningState::Unmined => {
                steps.extend(held.map(|_| Transition::Unmine));
                let waits = bound.progress == Progress::AwaitingFunds;
                if self.short_of_funds && !waits {
                    steps.push(Transition::AwaitFunds);
                }
                if !self.short_of_funds && waits && self.acknowledged {
                    steps.push(Transition::Funded);
                }
                if self.acknowledged && tx.state.name() == StateName::Allocated {
                    steps.push(Transition::Acknowledge);
                }
                if self.rejected && matches!(bound.goal, Goal::Deliver | Goal::Replace) {
                    steps.push(Transition::WantCancel(CancelReason::Rejected));
                }
            }
        }
        steps
    }

    /// True if the ledger says something else about the intent than the chain and the nodes do. A final intent waits
    /// for its end, also while the lane may end no intent.
    pub(super) fn has_due_transition(&self) -> bool {
        let Some(bound) = self.tx.as_ref().and_then(|tx| tx.state.bound()) else { return false };
        let written = if let Progress::Mined(mined) = &bound.progress { Some(&mined.inclusion) } else { None };
        match &self.mining {
            MiningState::Unverified(_) => false,
            MiningState::Final(_) => true,
            MiningState::Mined(inclusion) => self.notice_due || written != Some(inclusion),
            MiningState::Unmined => {
                let waits = bound.progress == Progress::AwaitingFunds;
                let is_allocated = self.tx.as_ref().is_some_and(|tx| tx.state.name() == StateName::Allocated);
                let is_delivering = matches!(bound.goal, Goal::Deliver | Goal::Replace);
                let by_funds = if waits { !self.short_of_funds && self.acknowledged } else { self.short_of_funds };
                let by_nodes = (self.acknowledged && is_allocated) || (self.rejected && is_delivering);
                written.is_some() || by_funds || by_nodes
            }
        }
    }

    /// True if nothing is left to happen to the slot.
    pub(super) fn is_ended(&self) -> bool {
        if self.lost {
            return true;
        }
        match self.kind {
            SlotKind::Intent(_) => self.tx.is_none(),
            SlotKind::Reservation if self.is_unclaimed() => self.is_final(),
            SlotKind::Reservation => self.tx.is_none() && !self.is_reserved(),
            SlotKind::Foreign => true,
        }
    }
}

/// Pauses between sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) first: Duration,
    pub(super) longest: Duration,
    pub(super) resubmit: Option<Duration>,
}

impl Pace {
    /// Pause after this many failures in a row; it doubles each time.
    pub(super) fn after_failures(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}
