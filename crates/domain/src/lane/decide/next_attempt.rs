//! The next attempt at a bound nonce: its action, its price, and the attempts that cannot be made.

use crate::action::{Action, Fees, Work};
use crate::attempt::AttemptKind;
use crate::bidding::{CapExceeded, Market, Offer, check_replaces};
use crate::command::CommandId;
use crate::nonce::Nonce;
use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::fact::{PrepareFailure, Prepared};
use crate::lane::open_slot::{OpenSlot, SlotAttempt};
use crate::lane::slot_work::AttemptStep;

/// An attempt that a command has requested.
#[derive(Debug)]
pub(in crate::lane) struct RequestedAttempt {
    pub(in crate::lane) by: CommandId,
    pub(in crate::lane) change: RequestedChange,
    /// Reason why the request cannot be fulfilled.
    pub(in crate::lane) failed: Option<String>,
}

/// Change that the requested attempt makes.
#[derive(Debug)]
pub(in crate::lane) enum RequestedChange {
    Payload(Box<Action>),
    /// Keep the payload, at this price or, without one, at the price of the policy.
    Price(Option<Fees>),
}

/// Reason why an attempt gets no price.
pub(in crate::lane) enum PriceError {
    AboveCap(CapExceeded),
    /// The lowest price that would replace the earlier attempts.
    TooLow(Fees),
}

impl Lane {
    /// Drops requests whose command is gone.
    pub(in crate::lane) fn drop_orphaned_requests(&mut self) {
        for nonce in self.ledger.slots.needing_attempt() {
            let by = self.ledger.slots.get(nonce).and_then(|slot| Some(slot.next.requested.as_ref()?.by));
            if by.is_some_and(|by| !self.ledger.commands.iter().any(|command| command.id == by)) {
                self.ledger.slots.update(nonce, drop_request);
            }
        }
    }

    /// Action and kind of a slot's next attempt.
    pub(in crate::lane) fn action_of_next_attempt(&self, slot: &OpenSlot) -> (Action, AttemptKind) {
        let named = match slot.next.requested.as_ref().map(|requested| &requested.change) {
            Some(RequestedChange::Payload(action)) => return (Action::clone(action), AttemptKind::Replace),
            Some(RequestedChange::Price(named)) => *named,
            None => None,
        };
        let again = slot.repeated_action().filter(|_| !slot.wants_filler());
        let kind = if again.is_some() { slot.repeated_kind() } else { slot.filler_kind() };
        let action = again.unwrap_or_else(|| self.setup.rules.filler(self.lease.submitter()));
        let work = action.own_work();
        (action.wishing(named, work), kind)
    }

    /// Prices that the chain asks for, by the answer to a prepare request.
    pub(in crate::lane) fn market(&self, prepared: &Prepared) -> Market {
        let replace_step = self.setup.rules.replace_step();
        Market { asks: prepared.fees, base_fee: prepared.base_fee, replace_step }
    }

    /// Checks that a price replaces all attempts of the slot that may be in a pool. The error is the lowest price that
    /// would.
    pub(in crate::lane) fn check_replaces(&self, fees: Fees, slot: &OpenSlot) -> Result<(), Fees> {
        let sent = slot.attempts_to_replace().map(|attempt| attempt.fees);
        check_replaces(fees, sent, self.setup.rules.replace_step())
    }

    /// Price of the next attempt, which must replace all attempts that may be in a pool.
    pub(in crate::lane) fn offer(
        &self,
        slot: &OpenSlot,
        action: &Action,
        kind: AttemptKind,
        prepared: &Prepared,
    ) -> Result<Fees, PriceError> {
        // A price that the caller set is not bumped.
        if action.own_price().is_some() {
            return self.check_replaces(prepared.fees, slot).map(|()| prepared.fees).map_err(PriceError::TooLow);
        }
        let (market, policy) = (self.market(prepared), &self.setup.policy);
        let sent: Vec<Fees> = slot.attempts_to_replace().map(|attempt| attempt.fees).collect();
        let sent = sent.into_iter();
        if !kind.carries_payload() {
            let offer = market.filler_offer(sent, &policy.fees);
            // A filler has already exceeded the cap by its one step.
            let is_beyond = |held: &SlotAttempt| {
                !held.attempt.kind.carries_payload() && policy.fees.is_above_cap(held.attempt.fees)
            };
            let exceeded = CapExceeded { needed: offer.highest_price(), cap: policy.fees.max_price };
            return if slot.attempts.iter().any(is_beyond) { Err(PriceError::AboveCap(exceeded)) } else { Ok(offer) };
        }
        match market.bump_offer(sent, &policy.fees, &policy.bump) {
            Offer::At(fees) => Ok(fees),
            Offer::AboveCap(exceeded) => Err(PriceError::AboveCap(exceeded)),
        }
    }

    /// The text of a price that does not replace the earlier attempts.
    pub(in crate::lane) fn price_too_low(&self, least: Fees) -> String {
        let unit = self.setup.rules.words().price;
        format!("the price must be at least {least} {unit} to replace the transactions that were sent")
    }

    /// Failure text of the requested attempt; `None` if there is no request, or if it may still succeed.
    pub(in crate::lane) fn request_failure(&self, nonce: Nonce, failure: &PrepareFailure) -> Option<String> {
        self.ledger.slots.get(nonce)?.next.requested.as_ref()?;
        // The action may depend on an earlier transaction of the account (S19).
        let is_lowest = self.ledger.slots.unmined().first() == Some(&nonce);
        match failure {
            PrepareFailure::Reverted { text, .. } if is_lowest => Some(format!("the transaction would revert: {text}")),
            PrepareFailure::Invalid(text) => Some(format!("no node would accept the transaction: {text}")),
            PrepareFailure::InsufficientFunds(text) => Some(format!("the account cannot pay for it: {text}")),
            PrepareFailure::Reverted { .. } | PrepareFailure::Unavailable(_) => None,
        }
    }

    /// True if an attempt with this effect and price exists. It is then sent again.
    pub(in crate::lane) fn exists(slot: &OpenSlot, kind: AttemptKind, fees: Fees, work: Work) -> bool {
        let is_same = |held: &SlotAttempt| {
            let attempt = &held.attempt;
            let has_same_effect = attempt.kind.carries_payload() == kind.carries_payload() && !held.stale;
            has_same_effect && attempt.fees == fees && held.work == work
        };
        let is_new_payload =
            matches!(slot.next.requested, Some(RequestedAttempt { change: RequestedChange::Payload(_), .. }));
        !is_new_payload && slot.attempts.iter().any(is_same)
    }

    /// Handles an attempt that cannot be made: a request fails, a mere bump falls back to the existing attempt, and
    /// other attempts are tried again later.
    pub(in crate::lane) fn no_attempt(&mut self, nonce: Nonce, why: String, retry: Tick) {
        self.ledger.slots.update(nonce, |slot| {
            if let Some(requested) = &mut slot.next.requested {
                requested.failed = Some(why);
                slot.next.step = AttemptStep::None;
            } else if slot.may_resend_unchanged() {
                slot.next.bump_reason = None;
                slot.next.step = AttemptStep::None;
            } else {
                slot.next.step = AttemptStep::Later(retry);
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

    pub(in crate::lane) fn filler_kind(&self) -> AttemptKind {
        if self.is_unclaimed() { AttemptKind::Fill } else { AttemptKind::Cancel }
    }

    /// Marks the existing attempts with a payload as stale.
    pub(in crate::lane) fn payload_was_replaced(&mut self) {
        for held in self.attempts.iter_mut().filter(|held| held.attempt.kind.carries_payload()) {
            held.stale = true;
        }
    }
}

pub(in crate::lane) fn drop_request(slot: &mut OpenSlot) {
    slot.next.requested = None;
    if slot.next.step != AttemptStep::Signing {
        slot.next.step = AttemptStep::None;
    }
}
