//! Signing: binds of the next candidates, and other attempts of slots.

use crate::action::{Action, Fees};
use crate::amount::Amount;
use crate::attempt::AttemptKind;
use crate::cursor::Cursor;
use crate::nonce::Nonce;
use crate::policy::OnShortage;
use crate::signing::{SignedTx, TxPlan};
use crate::state::FailReason;
use crate::text::NodeText;
use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::decide::next_attempt::PriceError;
use crate::lane::effect::{Effect, SignRequest, Step};
use crate::lane::fact::{Prepared, SignFailure};
use crate::lane::funds::LastSpend;
use crate::lane::open_slot::OpenSlot;
use crate::lane::queue::Stage;
use crate::lane::signing::{SigningItem, UnsignedAttempt};
use crate::lane::slot_work::{AttemptStep, Sending};

impl Lane {
    /// Limits the number of attempts in a signing request. The node knows how many its signer signs in time.
    pub fn limit_signing(&mut self, batch_max: Option<usize>) {
        self.signer.batch_max = batch_max;
    }

    pub(in crate::lane) fn plan_sign(&mut self, now: Tick, step: &mut Step) {
        if self.signer.in_flight.is_some() || self.is_draining() {
            return;
        }
        if now < self.signer.not_before {
            step.wake(self.signer.not_before);
            return;
        }
        let mut items = self.attempts_to_sign(now);
        if let Some(cursor) = self.ledger.cursor.clone() {
            self.binds_to_sign(&cursor, &mut items);
        }
        // The candidate that was too dear may have left the queue.
        if self.funds.last_spend == LastSpend::TooDear && !self.queue.candidates.is_empty() {
            self.funds.read_by(now.saturating_add(self.setup.limits.pauses.prepare_retry));
            self.funds.next_read().into_iter().for_each(|at| step.wake(at));
        }
        if items.is_empty() {
            return;
        }
        let (signing, requests): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        self.signer.in_flight = Some(signing);
        step.effects.push(Effect::Sign(requests));
    }

    fn binds_to_sign(&mut self, cursor: &Cursor, items: &mut Vec<(SigningItem, SignRequest)>) {
        let mut free = self.free().min(self.setup.limits.batch.saturating_sub(self.signer.signed.len()));
        free = self.signer.batch_max.map_or(free, |most| free.min(most.saturating_sub(items.len())));
        let mut bytes: usize = self.signer.signed.iter().map(|item| item.attempt.raw.len()).sum();
        let mut in_window =
            self.ledger.slots.unmined_bytes().saturating_add(bytes).saturating_add(self.bytes_under_way());
        let under_way = self.binds_under_way();
        let first = cursor.next_nonce.get().saturating_add(under_way as u64);
        let mut next = Nonce::new(first).ok();
        while free > 0
            && let Some(nonce) = next
        {
            let Some(index) = self.queue.first_index() else { return };
            let Some(candidate) = self.queue.candidates.get(index) else { return };
            let Stage::Ready { prepared, .. } = candidate.stage else { return };
            let Some(action) = candidate.action().cloned() else { return };
            bytes = bytes.saturating_add(action.bytes());
            if bytes > self.setup.limits.batch_bytes && !(items.is_empty() && self.signer.signed.is_empty()) {
                return;
            }
            let is_first = items.is_empty() && under_way == 0 && self.ledger.slots.unmined().is_empty();
            in_window = in_window.saturating_add(action.bytes());
            if in_window > self.setup.limits.window_bytes && !is_first {
                return;
            }
            let cost = self.worst_cost(&action, &prepared, prepared.fees);
            if !self.funds.try_spend(cost) {
                match self.fail_unaffordable(index, cost, under_way) {
                    true => continue,
                    false => return,
                }
            }
            let Some(candidate) = self.queue.take(index) else { return };
            let is_replaced = candidate.tx.replacement.is_some();
            let kind = if is_replaced { AttemptKind::Replace } else { AttemptKind::Original };
            let Prepared { work, fees, .. } = prepared;
            let attempt = UnsignedAttempt { nonce, ordinal: 0, kind, fees, work, cost, requested_by: None };
            let request = self.request(attempt, action);
            items.push((SigningItem { candidate: Some(candidate), attempt }, request));
            next = nonce.next().ok();
            free -= 1;
        }
    }

    /// Lets a candidate fail that the account cannot pay for, if the policy says so and nothing else is in flight.
    /// Returns false if the candidate waits for funds instead.
    fn fail_unaffordable(&mut self, index: usize, cost: Amount, under_way: usize) -> bool {
        let alone = self.ledger.slots.unmined().is_empty() && under_way == 0;
        if self.setup.policy.funds.on_shortage == OnShortage::Fail && self.funds.is_fresh && alone {
            let budget = self.funds.budget;
            let unit = self.setup.rules.words().amount;
            let text = format!("the transaction may cost {cost} {unit}, and the account has {budget} {unit}");
            self.queue.set_stage(index, Stage::Failing(FailReason::InsufficientFunds, NodeText::new(&text)));
            return true;
        }
        if self.funds.is_fresh {
            self.funds.unaffordable_cost = Some(cost);
        }
        false
    }

    fn attempts_to_sign(&mut self, now: Tick) -> Vec<(SigningItem, SignRequest)> {
        let mut items = Vec::new();
        let reserves_next = self.reservation_is_next();
        let most = self.signer.batch_max.map_or(self.setup.limits.batch, |most| most.min(self.setup.limits.batch));
        for nonce in self.ledger.slots.needing_attempt() {
            if items.len() >= most {
                break;
            }
            let Some(slot) = self.ledger.slots.get(nonce).filter(|slot| !(reserves_next && slot.is_recyclable()))
            else {
                continue;
            };
            if let AttemptStep::Ready(prepared) = slot.next.step {
                items.extend(self.attempt_to_sign(nonce, prepared, now));
            }
        }
        items
    }

    /// The next attempt of a slot, if there is a price that it can have and that the account can pay.
    fn attempt_to_sign(&mut self, nonce: Nonce, prepared: Prepared, now: Tick) -> Option<(SigningItem, SignRequest)> {
        let retry = now.saturating_add(self.setup.limits.pauses.prepare_retry);
        let slot = self.ledger.slots.get(nonce)?;
        let (action, kind) = self.action_of_next_attempt(slot);
        let fees = match self.offer(slot, &action, kind, &prepared) {
            Ok(fees) => fees,
            Err(PriceError::TooLow(least)) => {
                self.no_attempt(nonce, self.price_too_low(least), retry);
                return None;
            }
            Err(PriceError::AboveCap(exceeded)) => {
                let text = self.above_cap(exceeded);
                self.fee_cap.exceeded = Some(text.clone());
                self.no_attempt(nonce, text, retry);
                return None;
            }
        };
        if Self::exists(slot, kind, fees, prepared.work) {
            self.send_existing(nonce, retry, now);
            return None;
        }
        let cost = self.worst_cost(&action, &prepared, fees);
        let requested_by = slot.next.requested.as_ref().map(|requested| requested.by);
        let (ordinal, work) = (slot.next_ordinal(), prepared.work);
        let attempt = UnsignedAttempt { nonce, ordinal, kind, fees, work, cost, requested_by };
        let more = Amount::new(cost.get().saturating_sub(slot.cost().get()));
        if kind.carries_payload() && more > self.funds.budget {
            self.cannot_afford(nonce, more, retry);
            return None;
        }
        if kind.carries_payload() && action.own_price().is_none() {
            self.fee_cap.exceeded = None;
        }
        // A filler is made in any case, and waits for funds like any other attempt.
        self.funds.spend_unchecked(more);
        let request = self.request(attempt, action);
        self.ledger.slots.update(nonce, |slot| slot.next.step = AttemptStep::Signing);
        Some((SigningItem { candidate: None, attempt }, request))
    }

    /// Sends an attempt again, because another one would be equal to it.
    fn send_existing(&mut self, nonce: Nonce, retry: Tick, now: Tick) {
        self.no_attempt(nonce, "an attempt with this price exists and is sent again".to_owned(), retry);
        self.ledger.slots.update(nonce, |slot| {
            slot.next.bump_reason = None;
            if slot.sends.next.is_waiting() {
                slot.sends.next = Sending::Send { at: now };
            }
        });
    }

    /// Handles an attempt that costs `more` than the budget. The refusal of a command needs a fresh balance.
    fn cannot_afford(&mut self, nonce: Nonce, more: Amount, retry: Tick) {
        let is_requested = self.ledger.slots.get(nonce).is_some_and(|slot| slot.next.requested.is_some());
        let can_tell = self.funds.account.is_some() && self.funds.is_fresh;
        if is_requested && !can_tell {
            self.funds.read_soon();
            self.ledger.slots.update(nonce, |slot| slot.next.step = AttemptStep::Later(retry));
            return;
        }
        let left = self.funds.budget;
        let unit = self.setup.rules.words().amount;
        let text = format!("the attempt may cost {more} {unit} more, and the account has {left} {unit} left");
        self.no_attempt(nonce, text, retry);
    }

    /// The largest amount that the attempt can take from the account.
    fn worst_cost(&self, action: &Action, prepared: &Prepared, fees: Fees) -> Amount {
        self.setup.rules.worst_cost(action, prepared.work, fees, prepared.surcharge)
    }

    fn request(&self, attempt: UnsignedAttempt, action: Action) -> SignRequest {
        let submitter = self.lease.submitter().clone();
        SignRequest {
            kind: attempt.kind,
            plan: TxPlan { submitter, nonce: attempt.nonce, action, work: attempt.work, fees: attempt.fees },
        }
    }

    /// Takes the signed attempts. Nonces are bound in order, so a bind behind one that was not signed is dropped unsent
    /// and planned again.
    pub(in crate::lane) fn signed(&mut self, answers: Vec<Result<SignedTx, SignFailure>>, now: Tick) {
        let mut back = Vec::new();
        let mut failed = false;
        // The signer may sign nothing else either, so every other request waits too.
        let mut unavailable = false;
        let mut answers = answers.into_iter();
        for SigningItem { candidate, attempt } in self.signer.in_flight.take().unwrap_or_default() {
            let nothing = || Err(SignFailure::Unavailable(NodeText::new("the signer gave no answer")));
            let answer = answers.next().unwrap_or_else(nothing);
            if let Err(SignFailure::Refused(text) | SignFailure::Unavailable(text)) = &answer {
                self.outbox.effects.push(Effect::Notice { nonce: Some(attempt.nonce), text: text.clone() });
            }
            unavailable |= matches!(answer, Err(SignFailure::Unavailable(_)));
            match (candidate, answer) {
                (Some(candidate), Ok(_)) if failed => back.push(candidate),
                (candidate, Ok(signed)) => self.signer.signed.push(SigningItem { candidate, attempt }.signed(signed)),
                (None, Err(failure)) => {
                    let retry = now.saturating_add(self.setup.limits.pauses.resend_first);
                    let is_only_a_bump = self.ledger.slots.get(attempt.nonce).is_some_and(OpenSlot::is_only_a_bump);
                    match failure {
                        SignFailure::Refused(text) => self.no_attempt(attempt.nonce, text.to_string(), retry),
                        SignFailure::Unavailable(text) if is_only_a_bump => {
                            self.no_attempt(attempt.nonce, text.to_string(), retry);
                        }
                        SignFailure::Unavailable(_) => {
                            self.ledger.slots.update(attempt.nonce, |slot| slot.next.step = AttemptStep::Later(retry));
                        }
                    }
                }
                (Some(mut candidate), Err(failure)) => {
                    failed = true;
                    if let SignFailure::Refused(text) = failure {
                        candidate.stage = Stage::Failing(FailReason::InvalidPayload, text);
                    }
                    back.push(candidate);
                }
            }
        }
        for candidate in back {
            self.queue.put_back(candidate);
        }
        self.signer.failures = if failed || unavailable { self.signer.failures.saturating_add(1) } else { 0 };
        if failed || unavailable {
            self.signer.not_before = now.saturating_add(self.pace().after_failures(self.signer.failures));
            self.funds.read_soon();
        }
    }
}
