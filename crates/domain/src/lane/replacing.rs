//! Replacing and resubmitting: attempts that a command requests at a bound nonce, with another payload or another
//! price.
//!
//! The command is executed in the commit that contains the requested attempt. Until then nothing has changed and the
//! command stays open, so the next owner of the lane starts it again. The chain decides which attempt counts (P9).

use crate::attempt::AttemptKind;
use crate::bidding::{Market, Offer, check_replaces};
use crate::command::{Command, CommandId, CommandResult};
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::lane_commit::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::payload::{EvmCall, Fees, Payload};
use crate::state::{Goal, StateName};
use crate::time::Tick;
use crate::transition::Transition;

use super::bumping::PendingClaim;
use super::canceling::{NOT_OPEN, UNRECONCILED};
use super::commands::{done, refused};
use super::fact::{PrepareFailure, Prepared};
use super::open_slot::{MiningState, NextAttempt, OpenSlot, Sending};
use super::pending_commit::{PendingCommit, apply};
use super::{Lane, SignedItem};

/// An attempt that a command has requested.
#[derive(Debug)]
pub(super) struct RequestedAttempt {
    pub(super) by: CommandId,
    pub(super) change: RequestedChange,
    /// Reason why the request cannot be fulfilled.
    pub(super) failed: Option<String>,
}

/// Change that the requested attempt makes.
#[derive(Debug)]
pub(super) enum RequestedChange {
    Payload(Box<EvmCall>),
    /// Keep the payload, at this price or, without one, at the price of the policy.
    Price(Option<Fees>),
}

/// Position of the intent that a command refers to.
pub(super) enum IntentPosition {
    Slot(Nonce),
    /// Index among the candidates.
    Queue(usize),
    /// The position is not known yet.
    Unknown,
    NotOpen,
}

/// Reason why an attempt gets no price.
pub(super) enum PriceError {
    AboveCap(u128),
    /// The lowest price that would replace the earlier attempts.
    TooLow(Fees),
}

impl Lane {
    /// Finds the intent of a command. A signed attempt that is not written has no nonce yet: its intent returns to the
    /// queue, and the attempts signed behind it are planned again.
    pub(super) fn find(&mut self, id: TxId, pending: &PendingCommit) -> IntentPosition {
        // The commit being built already replaces the payload of this intent.
        if pending.replaced.iter().any(|(candidate, _)| candidate.tx.id == id) {
            return IntentPosition::Unknown;
        }
        if let Some(nonce) = self.slots.find(id) {
            return IntentPosition::Slot(nonce);
        }
        if let Some(at) = self.signed.iter().position(|item| item.is_for_intent(id)) {
            let item = self.signed.remove(at);
            self.return_to_queue(item);
        }
        if let Some(at) = self.queue.candidates.iter().position(|candidate| candidate.tx.id == id) {
            return IntentPosition::Queue(at);
        }
        let at_the_signer = self.signing.iter().flatten().any(|item| item.is_for_intent(id));
        // The intent may be further back than the queue was read.
        let is_unseen = !self.queue.was_read || self.queue.has_more || self.queue.must_peek;
        if at_the_signer || is_unseen { IntentPosition::Unknown } else { IntentPosition::NotOpen }
    }

    /// Executes a replace command; `None` while the attempt is being made.
    pub(super) fn replace(
        &mut self,
        command: &Command,
        id: TxId,
        payload: &Payload,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<Option<CommandResult>, CommitError> {
        let Payload::Evm(call) = payload else { return Ok(Some(refused(RESERVED))) };
        if !self.may_end() {
            // Transactions with the earlier payload must still be recognized on chain.
            return Ok(Some(refused(UNRECONCILED)));
        }
        match self.find(id, pending) {
            IntentPosition::Slot(nonce) => {
                Ok(self.request_attempt(nonce, command.id, RequestedChange::Payload(Box::new(call.clone())), pending))
            }
            IntentPosition::Queue(at) => self.replace_in_queue(at, payload, commit, pending).map(Some),
            IntentPosition::Unknown => Ok(None),
            IntentPosition::NotOpen => Ok(Some(refused(NOT_OPEN))),
        }
    }

    /// Replaces the payload of a queued intent, which keeps its queue position.
    fn replace_in_queue(
        &mut self,
        at: usize,
        payload: &Payload,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<CommandResult, CommitError> {
        let is_reservation = |tx: &IntentRecord| matches!(tx.payload(), Payload::Reservation(_));
        if self.queue.candidates.get(at).is_none_or(|candidate| is_reservation(&candidate.tx)) {
            return Ok(refused(RESERVED));
        }
        let Some(candidate) = self.queue.take(at) else { return Ok(refused(NOT_OPEN)) };
        let mut tx = candidate.tx.clone();
        let applied = apply(&mut tx, Transition::WantReplace(payload.clone()), commit);
        pending.replaced.push((candidate, tx));
        applied?;
        Ok(done("the payload was replaced in the queue; the intent keeps its position"))
    }

    /// Executes a resubmit command; `None` while the attempt is being made.
    pub(super) fn resubmit(
        &mut self,
        command: &Command,
        id: TxId,
        named: Option<Fees>,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<Option<CommandResult>, CommitError> {
        match self.find(id, pending) {
            IntentPosition::Slot(nonce) if named.is_none() && !self.setup.policy.bump.enabled => {
                self.resend_now(nonce, commit, pending).map(Some)
            }
            IntentPosition::Slot(nonce) => {
                Ok(self.request_attempt(nonce, command.id, RequestedChange::Price(named), pending))
            }
            IntentPosition::Queue(_) => Ok(Some(refused("the intent is still in the queue and has no nonce yet"))),
            IntentPosition::Unknown => Ok(None),
            IntentPosition::NotOpen => Ok(Some(refused(NOT_OPEN))),
        }
    }

    /// Sends the same bytes again now (F08).
    fn resend_now(
        &mut self,
        nonce: Nonce,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<CommandResult, CommitError> {
        if let Some(why) = self.objection(nonce, pending) {
            return Ok(refused(why));
        }
        self.revive(nonce, commit, pending)?;
        self.claim_now(nonce, false, commit, pending);
        Ok(done("the same transaction is sent again"))
    }

    /// Claims a resend at once, outside of the schedule. The tries are counted from zero again.
    pub(super) fn claim_now(
        &mut self,
        nonce: Nonce,
        is_bump: bool,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) {
        let pause = self.setup.policy.resubmit.interval;
        let claimed = PendingClaim { nonce, tries: 0, signal: None, is_bump };
        commit.claim_resubmit(claimed.claim(pause));
        self.slots.update(nonce, |slot| {
            if slot.sending != Sending::InFlight {
                slot.sending = Sending::Claiming;
            }
        });
        pending.claims.push(claimed);
    }

    /// Ends STUCK after a decision.
    pub(super) fn revive(
        &self,
        nonce: Nonce,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        if let Some(tx) = self.intent_at(nonce, pending).filter(|tx| tx.state.name() == StateName::Stuck) {
            let mut tx = tx.clone();
            apply(&mut tx, Transition::Revive, commit)?;
            pending.changed.insert(nonce, Box::new(tx));
        }
        Ok(())
    }

    /// Reason against another attempt at this nonce.
    fn objection(&self, nonce: Nonce, pending: &PendingCommit) -> Option<&'static str> {
        let Some((slot, _)) = self.bound_at(nonce, pending) else { return Some(NOT_OPEN) };
        if slot.is_reserved() {
            return Some("the nonce is reserved and no transaction was submitted for it");
        }
        (slot.mining != MiningState::Unmined).then_some("the transaction is already mined")
    }

    fn request_attempt(
        &mut self,
        nonce: Nonce,
        by: CommandId,
        change: RequestedChange,
        pending: &PendingCommit,
    ) -> Option<CommandResult> {
        let objection = self.objection(nonce, pending).or_else(|| {
            let (slot, bound) = self.bound_at(nonce, pending)?;
            let canceling = matches!(bound.goal, Goal::Cancel(_));
            match &change {
                RequestedChange::Payload(_) if canceling => Some("the intent is being canceled"),
                RequestedChange::Payload(_) | RequestedChange::Price(_)
                    if slot.repeated_call().is_none() && !canceling =>
                {
                    Some(RESERVED)
                }
                RequestedChange::Payload(_) | RequestedChange::Price(_) => None,
            }
        });
        let slot = self.slots.get(nonce)?;
        let existing = slot.requested.as_ref().filter(|requested| requested.by == by);
        let failed = objection.map(str::to_owned).or_else(|| existing?.failed.clone());
        if let Some(why) = failed {
            if existing.is_some() {
                self.slots.update(nonce, drop_request);
            }
            return Some(refused(&why));
        }
        // One request at a time, and not while another attempt is being made.
        if slot.requested.is_some() || matches!(slot.next_attempt, NextAttempt::Pricing | NextAttempt::Signing) {
            return None;
        }
        if let RequestedChange::Price(Some(named)) = change
            && let Err(least) = check_replaces(named, slot.attempts_to_replace().map(|attempt| attempt.fees))
        {
            return Some(refused(&price_too_low(least)));
        }
        self.slots.update(nonce, |slot| {
            slot.requested = Some(RequestedAttempt { by, change, failed: None });
            slot.next_attempt = NextAttempt::None;
        });
        self.prepare_again = true;
        None
    }

    /// Drops requests whose command is gone.
    pub(super) fn drop_orphaned_requests(&mut self) {
        for nonce in self.slots.needing_attempt() {
            let by = self.slots.get(nonce).and_then(|slot| Some(slot.requested.as_ref()?.by));
            if by.is_some_and(|by| !self.commands.iter().any(|command| command.id == by)) {
                self.slots.update(nonce, drop_request);
            }
        }
    }

    /// Call and kind of a slot's next attempt.
    pub(super) fn call_of_next_attempt(&self, slot: &OpenSlot) -> (EvmCall, AttemptKind) {
        let named = match slot.requested.as_ref().map(|requested| &requested.change) {
            Some(RequestedChange::Payload(call)) => return (EvmCall::clone(call), AttemptKind::Replace),
            Some(RequestedChange::Price(named)) => *named,
            None => None,
        };
        let again = slot.repeated_call().filter(|_| !slot.wants_filler());
        let nothing = || EvmCall { to: self.lease.submitter().evm_address(), ..EvmCall::default() };
        let kind = if again.is_some() { slot.repeated_kind() } else { slot.filler_kind() };
        (EvmCall { fees: named, ..again.unwrap_or_else(nothing) }, kind)
    }

    /// Price of the next attempt, which must replace all attempts that may be in a pool.
    pub(super) fn offer(
        &self,
        slot: &OpenSlot,
        call: &EvmCall,
        kind: AttemptKind,
        prepared: &Prepared,
    ) -> Result<Fees, PriceError> {
        let (market, policy) = (Market { asks: prepared.fees, base_fee: prepared.base_fee }, &self.setup.policy);
        let sent: Vec<Fees> = slot.attempts_to_replace().map(|attempt| attempt.fees).collect();
        let sent = sent.into_iter();
        // A price that the caller set is not bumped.
        if call.fees.is_some() {
            return check_replaces(prepared.fees, sent).map(|()| prepared.fees).map_err(PriceError::TooLow);
        }
        if !kind.carries_payload() {
            let offer = market.filler_offer(sent, &policy.fees);
            // A filler has already exceeded the cap by its one step.
            let is_beyond = |held: &super::SlotAttempt| {
                !held.attempt.kind.carries_payload() && policy.fees.is_above_cap(held.attempt.fees)
            };
            let cap = policy.fees.max_price;
            return if slot.attempts.iter().any(is_beyond) { Err(PriceError::AboveCap(cap)) } else { Ok(offer) };
        }
        match market.bump_offer(sent, &policy.fees, &policy.bump) {
            Offer::At(fees) => Ok(fees),
            Offer::AboveCap(cap) => Err(PriceError::AboveCap(cap)),
        }
    }

    /// Writes the result of the command that requested this attempt.
    pub(super) fn write_requested(
        &self,
        item: &SignedItem,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        let nonce = item.attempt.nonce;
        let requested = self.slots.get(nonce).and_then(|slot| slot.requested.as_ref());
        let Some(requested) = requested.filter(|requested| Some(requested.by) == item.requested_by) else {
            return Ok(());
        };
        let Some(command) = self.commands.iter().find(|command| command.id == requested.by) else { return Ok(()) };
        self.revive(nonce, commit, pending)?;
        if let (RequestedChange::Payload(call), Some(tx)) = (&requested.change, self.intent_at(nonce, pending)) {
            let mut tx = tx.clone();
            apply(&mut tx, Transition::WantReplace(Payload::Evm(EvmCall::clone(call))), commit)?;
            pending.changed.insert(nonce, Box::new(tx));
        }
        let most = crate::signing::worst_cost(crate::Amount::ZERO, item.gas_limit, item.attempt.fees);
        let text = format!(
            "transaction {} is sent at nonce {nonce}, for at most {most} wei of gas; the chain decides which attempt \
             counts",
            item.attempt.hash
        );
        commit.command_done(command, done(&text));
        pending.commands.push(command.id);
        Ok(())
    }

    /// Failure text of the requested attempt; `None` if there is no request, or if it may still succeed.
    pub(super) fn request_failure(&self, nonce: Nonce, failure: &PrepareFailure) -> Option<String> {
        self.slots.get(nonce)?.requested.as_ref()?;
        // The call may depend on an earlier transaction of the account (S19).
        let is_lowest = self.slots.unmined().first() == Some(&nonce);
        match failure {
            PrepareFailure::Reverted { text, .. } if is_lowest => Some(format!("the transaction would revert: {text}")),
            PrepareFailure::Invalid(text) => Some(format!("no node would accept the transaction: {text}")),
            PrepareFailure::InsufficientFunds(text) => Some(format!("the account cannot pay for it: {text}")),
            PrepareFailure::Reverted { .. } | PrepareFailure::Unavailable(_) => None,
        }
    }

    /// True if an attempt with this effect and price exists. It is then sent again.
    pub(super) fn exists(slot: &OpenSlot, kind: AttemptKind, fees: Fees, gas_limit: u64) -> bool {
        let is_same = |held: &super::SlotAttempt| {
            let attempt = &held.attempt;
            let has_same_effect = attempt.kind.carries_payload() == kind.carries_payload() && !held.stale;
            has_same_effect && attempt.fees == fees && held.gas_limit == gas_limit
        };
        let is_new_payload =
            matches!(slot.requested, Some(RequestedAttempt { change: RequestedChange::Payload(_), .. }));
        !is_new_payload && slot.attempts.iter().any(is_same)
    }

    /// Handles an attempt that cannot be made: a request fails, a mere bump falls back to the existing attempt, and
    /// other attempts are tried again later.
    pub(super) fn no_attempt(&mut self, nonce: Nonce, why: String, retry: Tick) {
        self.slots.update(nonce, |slot| {
            if let Some(requested) = &mut slot.requested {
                requested.failed = Some(why);
                slot.next_attempt = NextAttempt::None;
            } else if slot.may_resend_unchanged() {
                slot.bump_reason = None;
                slot.next_attempt = NextAttempt::None;
            } else {
                slot.next_attempt = NextAttempt::Later(retry);
            }
        });
    }
}

impl OpenSlot {
    /// Kind of an attempt with the same payload. A bumped replacement is still a replacement, because the kind names
    /// the effect.
    fn repeated_kind(&self) -> AttemptKind {
        let newest = self.attempts.iter().rev().find(|held| held.attempt.kind.carries_payload() && !held.stale);
        match newest.map(|held| held.attempt.kind) {
            Some(AttemptKind::Replace) => AttemptKind::Replace,
            _ => AttemptKind::Bump,
        }
    }

    fn filler_kind(&self) -> AttemptKind {
        let is_nobodys = self.kind == crate::slot::SlotKind::Fill || self.is_unclaimed();
        if is_nobodys { AttemptKind::Fill } else { AttemptKind::Cancel }
    }
}

impl OpenSlot {
    /// Marks the existing attempts with a payload as stale.
    pub(super) fn payload_was_replaced(&mut self) {
        for held in self.attempts.iter_mut().filter(|held| held.attempt.kind.carries_payload()) {
            held.stale = true;
        }
    }
}

fn drop_request(slot: &mut OpenSlot) {
    slot.requested = None;
    if slot.next_attempt != NextAttempt::Signing {
        slot.next_attempt = NextAttempt::None;
    }
}

pub(super) fn price_too_low(least: Fees) -> String {
    format!("the price must be at least {least} wei per gas to replace the transactions that were sent")
}

const RESERVED: &str = "the nonce is reserved: its holder signs the transaction";
