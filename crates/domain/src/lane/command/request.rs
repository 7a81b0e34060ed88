//! Attempts that a command requests at a bound nonce, with another payload or another price.
//!
//! The command is executed in the commit that contains the requested attempt. Until then nothing has changed and the
//! command stays open, so the next owner of the lane starts it again. The chain decides which attempt counts (P9).

use crate::action::Action;
use crate::ledger::CommitError;
use crate::nonce::Nonce;
use crate::payload::Payload;
use crate::state::Goal;
use crate::transition::Transition;

use super::{Answer, Execution, NOT_OPEN, RESERVED, done, refused};
use crate::lane::Lane;
use crate::lane::decide::next_attempt::{RequestedAttempt, RequestedChange, drop_request};
use crate::lane::draft::Draft;
use crate::lane::signing::SignedItem;
use crate::lane::slot_work::AttemptStep;

impl Execution<'_> {
    /// Reason against another attempt at this nonce.
    pub(super) fn objection(&self, nonce: Nonce) -> Option<&'static str> {
        let Some((slot, _)) = self.draft.bound(nonce, &self.lane.ledger.slots) else { return Some(NOT_OPEN) };
        if slot.is_reserved() {
            return Some("the nonce is reserved and no transaction was submitted for it");
        }
        (!slot.is_unmined()).then_some("the transaction is already mined")
    }

    /// Reason against this change at this nonce.
    fn objection_to(&self, change: &RequestedChange, nonce: Nonce) -> Option<&'static str> {
        let (slot, bound) = self.draft.bound(nonce, &self.lane.ledger.slots)?;
        let is_canceled = matches!(bound.goal, Goal::Cancel(_));
        match change {
            RequestedChange::Payload(_) if is_canceled => Some("the intent is being canceled"),
            RequestedChange::Payload(_) | RequestedChange::Price(_) => {
                (slot.repeated_action().is_none() && !is_canceled).then_some(RESERVED)
            }
        }
    }

    /// Requests an attempt for the command, and reports why it cannot be made.
    pub(super) fn request_attempt(&mut self, nonce: Nonce, change: RequestedChange) -> Answer {
        let by = self.command.id;
        let objection = self.objection(nonce).or_else(|| self.objection_to(&change, nonce));
        let Some(slot) = self.lane.ledger.slots.get(nonce) else { return Ok(None) };
        let existing = slot.next.requested.as_ref().filter(|requested| requested.by == by);
        let failed = objection.map(str::to_owned).or_else(|| existing?.failed.clone());
        if let Some(why) = failed {
            if existing.is_some() {
                self.lane.ledger.slots.update(nonce, drop_request);
            }
            return refused(&why);
        }
        // One request at a time, and not while another attempt is being made.
        if slot.next.requested.is_some() || matches!(slot.next.step, AttemptStep::Pricing | AttemptStep::Signing) {
            return Ok(None);
        }
        if let RequestedChange::Price(Some(named)) = change
            && let Err(least) = self.lane.check_replaces(named, slot)
        {
            return refused(&self.lane.price_too_low(least));
        }
        self.lane.ledger.slots.update(nonce, |slot| {
            slot.next.requested = Some(RequestedAttempt { by, change, failed: None });
            slot.next.step = AttemptStep::None;
        });
        Ok(None)
    }
}

impl Lane {
    /// Writes the result of the command that requested this attempt.
    pub(in crate::lane) fn write_requested(&self, item: &SignedItem, draft: &mut Draft) -> Result<(), CommitError> {
        let nonce = item.attempt.nonce;
        let requested = self.ledger.slots.get(nonce).and_then(|slot| slot.next.requested.as_ref());
        let Some(requested) = requested.filter(|requested| Some(requested.by) == item.requested_by) else {
            return Ok(());
        };
        let Some(command) = self.ledger.commands.iter().find(|command| command.id == requested.by) else {
            return Ok(());
        };
        draft.revive(nonce, &self.ledger.slots)?;
        if let RequestedChange::Payload(action) = &requested.change {
            draft.change(nonce, Transition::WantReplace(Payload::Act(Action::clone(action))), &self.ledger.slots)?;
        }
        let (most, unit) = (item.attempt.fees.most_for(item.work), self.setup.rules.words().fee);
        let text = format!(
            "transaction {} is sent at nonce {nonce}, for at most {most} {unit}; the chain decides which attempt \
             counts",
            item.attempt.hash
        );
        if let Some(result) = done(&text)? {
            draft.command_done(command, result);
        }
        Ok(())
    }
}
