//! One bound nonce that is not closed yet: what the ledger holds, what the chain shows, what is to be sent.

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

use super::fact::{MinedTx, Prepared};
use super::lending::Lending;
use super::orders::Order;
use super::raising::Diagnosis;
use super::stuck::Deciding;

#[derive(Debug)]
pub(super) struct OpenSlot {
    pub(super) nonce: Nonce,
    pub(super) kind: SlotKind,
    pub(super) lending: Lending,
    pub(super) attempts: Vec<HeldAttempt>,
    /// The intent, while it is open.
    pub(super) tx: Option<Box<IntentRecord>>,
    pub(super) seen: Seen,
    pub(super) sending: Sending,
    /// Sends in a row that brought no acknowledgement.
    pub(super) failures: u32,
    pub(super) acknowledged: bool,
    pub(super) short_of_funds: bool,
    /// What it wants is refused for good, on every node.
    pub(super) rejected: bool,
    /// Why more is to be offered for what it wants.
    pub(super) pressure: Option<Pressure>,
    /// What somebody has asked for, and waits for the next attempt.
    pub(super) order: Option<Order>,
    pub(super) remedy: Remedy,
    /// How often a price was asked for.
    pub(super) ticket: u32,
    /// How often it was sent again since it was bound, or since somebody decided about it.
    pub(super) tries: u16,
    /// What nodes' pools showed of it.
    pub(super) signal: Option<MempoolSignal>,
    pub(super) diagnosis: Diagnosis,
    /// The head when it was last sent, and when its newest attempt was first; `None` if that was before the lane was loaded.
    pub(super) sent_at: Option<u64>,
    pub(super) offered_at: Option<u64>,
    pub(super) decision: Deciding,
    /// How often all its hashes were missing while its nonce was used up, finally; `None` while it is not.
    pub(super) lost_looks: Option<u32>,
    /// Its nonce was used by something else, finally: there is nothing left to do for it.
    pub(super) lost: bool,
    /// What consumes it lies above this block, on a chain that has it.
    pub(super) above: Option<BlockRef>,
    /// Sent by an owner before this one, and not seen since.
    pub(super) inherited: bool,
    /// It is in the row of those whose confirmations grow.
    pub(super) grows: bool,
    /// It is its turn to be told of.
    pub(super) tell: bool,
    /// The confirmations of what is final.
    pub(super) final_list: Option<Arc<[BlockLink]>>,
}

#[derive(Debug)]
pub(super) struct HeldAttempt {
    pub(super) attempt: Attempt,
    pub(super) cost: Amount,
    pub(super) gas_limit: u64,
    /// Looked up, and nobody knew it.
    pub(super) missing: bool,
    /// Some node may have it in its pool: all but those that were only ever refused as such, or for want of funds.
    pub(super) pooled: bool,
    /// It is being given to nodes.
    pub(super) under_way: bool,
    /// It carries a payload that was replaced since.
    pub(super) stale: bool,
}

/// Why more is to be offered for the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressure {
    /// Nodes want more.
    Market,
    /// By something else that is pooled at its nonce, so that the market's price does not help.
    Outbid,
    /// It has waited long enough.
    Waiting,
}

/// What the chain shows of the slot, by any of its hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Nowhere,
    /// The ledger says that it was in this block; nobody has compared it with the chain since the lane was loaded.
    Unverified(BlockRef),
    Mined(Inclusion),
    Final(Inclusion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// Nothing is to be sent.
    Rest,
    /// To be sent at this time; with a claim in the ledger first, if it is a resubmit.
    Due {
        at: Tick,
        claim: bool,
    },
    /// The claim is being written.
    Claiming,
    UnderWay,
}

/// The way to another attempt at the same nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    None,
    Asked,
    Later(Tick),
    Ready(Prepared),
    /// Being signed, or signed and not yet durable.
    UnderWay,
}

impl OpenSlot {
    pub(super) fn is_final(&self) -> bool {
        matches!(self.seen, Seen::Final(_))
    }

    pub(super) fn is_mined(&self) -> bool {
        matches!(self.seen, Seen::Mined(_) | Seen::Final(_))
    }

    pub(super) fn mined_in(&self) -> Option<BlockLink> {
        match &self.seen {
            Seen::Mined(inclusion) | Seen::Final(inclusion) => Some(inclusion.link()),
            Seen::Nowhere | Seen::Unverified(_) => None,
        }
    }

    /// The most that it can still take from the account.
    pub(super) fn cost(&self) -> Amount {
        self.attempts.iter().map(|held| held.cost).max().unwrap_or(Amount::ZERO)
    }

    /// The longest of its attempts.
    pub(super) fn bytes(&self) -> usize {
        self.attempts.iter().map(|held| held.attempt.raw.len()).max().unwrap_or(0)
    }

    /// What its intent calls, at a price that is still to be found; `None` if there is nothing to call.
    pub(super) fn call_again(&self) -> Option<EvmCall> {
        let Payload::Evm(call) = self.tx.as_ref()?.payload() else { return None };
        let held = self.attempts.iter().rev().find(|held| held.attempt.kind.carries_payload() && !held.stale)?;
        let gas_limit = Some(held.gas_limit).filter(|limit| *limit > 0);
        Some(EvmCall { gas_limit, fees: None, ..call.clone() })
    }

    /// Is its price the caller's own, so that nobody else changes it?
    pub(super) fn has_own_price(&self) -> bool {
        let payload = self.tx.as_deref().map(IntentRecord::payload);
        !self.wants_nothing() && !matches!(payload, Some(Payload::Evm(call)) if call.fees.is_none())
    }

    /// Does it have an attempt for what it wants, which only offers too little?
    pub(super) fn needs_price(&self) -> bool {
        self.pressure.is_some() && self.has_what_it_wants() && !self.short_of_funds && !self.is_mined()
    }

    fn lacks_what_it_wants(&self) -> bool {
        let lacks = !self.is_mined() && !self.has_what_it_wants() && !self.is_lent() && self.kind != SlotKind::Foreign;
        let is_forgotten = mistakes::made(Mistake::NoFillForHole) && self.wants_nothing();
        lacks && !is_forgotten
    }

    /// Is the next attempt for nothing but a better price, so that it may as well be sent as it is?
    pub(super) fn is_only_raised(&self) -> bool {
        self.pressure == Some(Pressure::Waiting) && !self.has_order() && self.has_what_it_wants()
    }

    /// If more cannot be offered, is there something that may be sent again? Who was told that it is outbid need not believe it: the text
    /// may be wrong, or what outbids it may go away.
    pub(super) fn may_go_as_it_is(&self) -> bool {
        let is_outbid = self.pressure == Some(Pressure::Outbid);
        self.is_only_raised() || (self.has_what_it_wants() && (self.wants_nothing() || is_outbid))
    }

    pub(super) fn has_what_it_wants(&self) -> bool {
        self.attempts.iter().any(|held| self.fits(held))
    }

    /// Does it do what the slot wants now?
    fn fits(&self, held: &HeldAttempt) -> bool {
        held.attempt.kind.carries_payload() != self.wants_nothing() && !held.stale
    }

    pub(super) fn goal(&self) -> Goal {
        self.tx.as_ref().and_then(|tx| tx.state.bound()).map_or(Goal::Deliver, |bound| bound.goal)
    }

    /// What another attempt has to outbid: whatever may be in a pool.
    pub(super) fn to_outbid(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(move |held| held.pooled || held.under_way).map(|held| &held.attempt)
    }

    /// Its attempt is on its way to nodes.
    pub(super) fn goes_out(&mut self, hash: B256) {
        self.sending = Sending::UnderWay;
        self.attempts.iter_mut().filter(|held| held.attempt.hash == hash).for_each(|held| held.under_way = true);
    }

    /// Does it want to be consumed without effect?
    pub(super) fn wants_nothing(&self) -> bool {
        matches!(self.goal(), Goal::Cancel(_)) || self.is_unclaimed()
    }

    /// What it wants on chain now, in its newest and so dearest form.
    pub(super) fn wanted(&self) -> Option<&Attempt> {
        let newest = self.attempts.iter().rev().find(|held| self.fits(held));
        newest.or(self.attempts.last()).map(|held| &held.attempt)
    }

    /// Do nodes refuse even to have its nonce consumed without effect?
    pub(super) fn cannot_fill(&self) -> bool {
        self.rejected && self.wants_nothing() && self.wanted().is_some_and(|wanted| !wanted.kind.carries_payload())
    }

    /// Is there an attempt for what it wants, or must one be made?
    pub(super) fn needs_another(&self) -> bool {
        self.lacks_what_it_wants() || self.needs_price() || self.has_order()
    }

    /// Does somebody wait for another attempt, which may still come to something?
    fn has_order(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.failed.is_none()) && !self.is_mined()
    }

    /// To be sent now. What it no longer wants is not sent again while what it wants is being made.
    pub(super) fn is_due(&self, now: Tick) -> bool {
        let waits = self.lacks_what_it_wants() || self.needs_price();
        matches!(self.sending, Sending::Due { at, claim: false } if at <= now) && !waits
    }

    pub(super) fn next_ordinal(&self) -> u16 {
        self.attempts.last().map_or(0, |held| held.attempt.ordinal.saturating_add(1))
    }

    pub(super) fn hold(&mut self, new: &NewAttempt, cost: Amount, gas_limit: u64, at: Timestamp) {
        let attempt = Attempt::new(new.clone(), at);
        // Most have one, and room for four would be the larger part of a slot.
        self.attempts.reserve_exact(1);
        self.attempts.push(HeldAttempt {
            attempt,
            cost,
            gas_limit,
            missing: false,
            pooled: false,
            under_way: false,
            stale: false,
        });
        self.offered_at = None;
        // What has a transaction is lent to nobody any more.
        self.lending = Lending::Ours;
    }

    pub(super) fn kind_of(&self, hash: B256) -> Option<AttemptKind> {
        if mistakes::made(Mistake::OnlyLastHash) {
            return self.attempts.last().filter(|held| held.attempt.hash == hash).map(|held| held.attempt.kind);
        }
        let held = self.attempts.iter().find(|held| held.attempt.hash == hash)?;
        Some(held.attempt.kind)
    }

    /// True if that changes anything.
    pub(super) fn mined(&mut self, mined: MinedTx) -> bool {
        let Some(kind) = self.kind_of(mined.hash) else { return false };
        // What is final stays; the watcher tells apart what lies below (R09).
        if self.is_final() {
            return false;
        }
        let MinedTx { hash, block, parent_hash, execution, gas_used, effective_gas_price } = mined;
        let inclusion = Inclusion { hash, kind, block, parent_hash, execution, gas_used, effective_gas_price };
        // The same in the same block is the same, whatever a second look makes of it: who could tell why it reverted may have
        // forgotten since.
        let is_same = |known: &&Inclusion| known.hash == hash && known.block == block;
        let seen = Seen::Mined(self.known_inclusion().filter(is_same).cloned().unwrap_or(inclusion));
        let changed = self.seen != seen;
        self.seen = seen;
        self.sending = Sending::Rest;
        // Whatever nodes had against it, the chain has taken it.
        self.short_of_funds = false;
        self.rejected = false;
        self.pressure = None;
        self.lost_looks = None;
        if let (true, Seen::Mined(inclusion)) = (mistakes::made(Mistake::MinedIsFinal), &self.seen) {
            self.seen = Seen::Final(inclusion.clone());
        }
        changed
    }

    /// Where it was last known to be, by the chain or by the ledger.
    fn known_inclusion(&self) -> Option<&Inclusion> {
        if let Seen::Mined(inclusion) = &self.seen {
            return Some(inclusion);
        }
        match &self.tx.as_ref()?.state.bound()?.progress {
            Progress::Mined(mined) => Some(&mined.inclusion),
            Progress::Pending | Progress::AwaitingFunds => None,
        }
    }

    pub(super) fn still_mined(&mut self, hash: B256, block: BlockRef) {
        let Some(bound) = self.tx.as_ref().and_then(|tx| tx.state.bound()) else { return };
        if let (Seen::Unverified(at), Progress::Mined(Mined { inclusion, .. })) = (&self.seen, &bound.progress)
            && *at == block
            && inclusion.hash == hash
        {
            self.seen = Seen::Mined(inclusion.clone());
            self.sending = Sending::Rest;
        }
    }

    pub(super) fn is_final_in(&self, hash: B256, block: BlockRef) -> bool {
        matches!(&self.seen, Seen::Final(inclusion) if inclusion.hash == hash && inclusion.block == block)
    }

    /// A reorg below what was final. What has ended by it stays so (R09); what was only about to ends by the chain as it is, if it
    /// ends at all.
    pub(super) fn no_longer_final(&mut self, now: Tick) {
        let has_ended = match self.kind {
            SlotKind::Intent(_) => self.tx.is_none(),
            SlotKind::Reservation => self.tx.is_none() && !self.is_unclaimed(),
            SlotKind::Foreign => true,
        };
        if !has_ended && !self.lost {
            self.final_list = None;
            self.go_back(now);
        }
    }

    fn go_back(&mut self, now: Tick) {
        self.seen = Seen::Nowhere;
        self.forget_missing();
        self.sending = Sending::Due { at: now, claim: false };
    }

    /// True if it was in that block: then what it wants goes out again.
    pub(super) fn unmined(&mut self, hash: B256, block: BlockRef, now: Tick) -> bool {
        let was_there = match &self.seen {
            Seen::Mined(inclusion) => inclusion.hash == hash && inclusion.block == block,
            Seen::Unverified(at) => *at == block,
            Seen::Nowhere | Seen::Final(_) => false,
        };
        if was_there {
            self.go_back(now);
        }
        was_there
    }

    /// False if it is not known to be in that block: then somebody has to look.
    pub(super) fn finalized(&mut self, hash: B256, block: BlockRef, list: Arc<[BlockLink]>) -> bool {
        // What is canonical and final is also still mined.
        self.still_mined(hash, block);
        if let Seen::Mined(inclusion) = &self.seen
            && inclusion.hash == hash
            && inclusion.block == block
        {
            self.seen = Seen::Final(inclusion.clone());
            self.final_list = Some(list);
        }
        self.is_final() || self.is_over()
    }

    /// One of its hashes was asked for, and nobody knew it. What was sent by an owner before us may be in no pool any more: it
    /// goes out once more when no block has it, not only when its resubmit is due.
    pub(super) fn not_found(&mut self, hash: B256, now: Tick) {
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

    /// True if every one of its hashes was asked for since the last time, and nobody knew one.
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

    /// What one send says about the slot, and when to send again.
    pub(super) fn sent(&mut self, hash: B256, outcome: SendOutcome, now: Tick, pace: &Pace) {
        let is_mistaken = mistakes::made(Mistake::UnderpricedIsSuccess)
            && matches!(outcome, SendOutcome::Underpriced | SendOutcome::ReplacementUnderpriced);
        let taken = outcome.is_taken() || is_mistaken;
        if let Some(held) = self.attempts.iter_mut().find(|held| held.attempt.hash == hash) {
            held.under_way = false;
            held.pooled |= !outcome.is_refusal();
        }
        // What is said of an attempt that it no longer wants says nothing about the one that it does.
        let is_wanted = self.wanted().is_some_and(|wanted| wanted.hash == hash);
        // And what the chain has taken meanwhile needs nobody's verdict.
        let counts = is_wanted && self.seen == Seen::Nowhere;
        self.acknowledged |= taken;
        // An answer that is no verdict takes none back.
        self.short_of_funds = !taken && (self.short_of_funds || (counts && outcome == SendOutcome::InsufficientFunds));
        self.rejected = !taken && (self.rejected || (counts && outcome == SendOutcome::Rejected));
        // A node that has it may still be asked to wait for more.
        if taken && self.pressure == Some(Pressure::Market) {
            self.pressure = None;
        }
        self.failures = if taken { 0 } else { self.failures.saturating_add(1) };
        if self.sending != Sending::UnderWay {
            // Something else became due while it was under way.
        } else if self.is_mined() {
            self.sending = Sending::Rest;
        } else if taken {
            self.sending = match pace.resubmit.filter(|_| !is_mistaken) {
                Some(interval) => Sending::Due { at: now.saturating_add(interval), claim: true },
                None => Sending::Rest,
            };
        } else {
            self.sending = Sending::Due { at: now.saturating_add(pace.after_failures(self.failures)), claim: false };
        }
    }

    /// The way from what the ledger holds to what the chain and the nodes say, one legal step after another.
    pub(super) fn due_transitions(&self, may_end: bool, tail: Option<&Tail>, most: u32) -> Vec<Transition> {
        let Some(tx) = &self.tx else { return Vec::new() };
        let Some(bound) = tx.state.bound() else { return Vec::new() };
        let mut steps = Vec::new();
        let held = if let Progress::Mined(mined) = &bound.progress { Some(mined) } else { None };
        match &self.seen {
            Seen::Unverified(_) => {}
            Seen::Mined(inclusion) | Seen::Final(inclusion) => {
                let told = match held {
                    Some(mined) if mined.inclusion == *inclusion => mined.told,
                    _ => {
                        steps.extend(held.map(|_| Transition::Unmine));
                        steps.push(Transition::Mine(inclusion.clone()));
                        inclusion.block
                    }
                };
                // More were told once than are asked for now, and all of them are still there.
                let is_longer = |list: &[BlockLink]| {
                    list.last().is_none_or(|last| last.block.number < told.number)
                        && tail.is_some_and(|tail| tail.contains(told))
                };
                let notice = |list: &[BlockLink]| {
                    if is_longer(list) { None } else { ConfirmationNotice::between(told, list) }
                };
                if self.is_final() && may_end {
                    steps.push(Transition::Settle(self.final_list.as_deref().and_then(notice)));
                } else if self.tell {
                    let list = tail.map(|tail| tail.list_from(inclusion.block, most)).unwrap_or_default();
                    steps.extend(notice(&list).map(Transition::Confirm));
                }
            }
            Seen::Nowhere => {
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

    /// Is there nothing left to happen to it?
    pub(super) fn is_over(&self) -> bool {
        if self.lost {
            return true;
        }
        match self.kind {
            SlotKind::Intent(_) => self.tx.is_none(),
            SlotKind::Reservation if self.is_unclaimed() => self.is_final(),
            SlotKind::Reservation => self.tx.is_none() && !self.is_lent(),
            SlotKind::Foreign => true,
        }
    }
}

/// How long to wait before the next try.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) first: Duration,
    pub(super) longest: Duration,
    pub(super) resubmit: Option<Duration>,
}

impl Pace {
    /// Twice as long after each failure.
    pub(super) fn after_failures(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}
