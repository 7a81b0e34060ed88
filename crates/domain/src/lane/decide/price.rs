//! Pricing: requests for work and prices, and their answers.

use crate::action::Action;
use crate::bidding::{Market, Offer};
use crate::block::BlockLink;
use crate::id::TxId;
use crate::intent::Speed;
use crate::nonce::Nonce;
use crate::policy::OnShortage;
use crate::state::FailReason;
use crate::time::Tick;

use crate::lane::effect::{Effect, PrepareRequest, Step};
use crate::lane::fact::{PrepareFailure, PrepareKey, Prepared};
use crate::lane::open_slot::OpenSlot;
use crate::lane::queue::{Candidate, Stage};
use crate::lane::slot_work::{AttemptStep, BumpReason};
use crate::lane::{Lane, newest_link};

impl Lane {
    /// Requests prices for the candidates that may be bound, and for the slots that need another attempt.
    pub(in crate::lane) fn plan_prepare(&mut self, now: Tick, step: &mut Step) {
        self.queue.fail_expired(self.database_now(now));
        let free = self.free();
        let price_age = self.setup.limits.price_age;
        let mut requests = Vec::new();
        let mut front = self.queue.candidates.iter_mut().filter(|candidate| !candidate.is_failing());
        for candidate in front.by_ref().take(free) {
            match candidate.stage {
                Stage::Later(at) if at <= now => candidate.stage = Stage::Waiting,
                Stage::Later(at) => step.wake(at),
                // A price that the caller set does not expire.
                Stage::Ready { at, .. } if candidate.decided().is_none() && now.saturating_since(at) > price_age => {
                    candidate.stage = Stage::Waiting;
                }
                _ => {}
            }
            if matches!(candidate.stage, Stage::Waiting) {
                candidate.stage = prepare(candidate, now, &mut requests);
            }
        }
        self.request_attempt_prices(now, requests, step);
    }

    /// Requests prices for the slots that need another attempt, besides the given ones.
    fn request_attempt_prices(&mut self, now: Tick, mut requests: Vec<PrepareRequest>, step: &mut Step) {
        let reserves_next = self.reservation_is_next();
        for nonce in self.ledger.slots.needing_attempt() {
            if requests.len() >= self.setup.limits.batch {
                break;
            }
            let Some(slot) = self.ledger.slots.get(nonce).filter(|slot| !(reserves_next && slot.is_recyclable()))
            else {
                continue;
            };
            let due = match slot.next.step {
                AttemptStep::None => slot.needs_attempt(),
                AttemptStep::Later(at) if at <= now => true,
                AttemptStep::Later(at) => {
                    step.wake(at);
                    false
                }
                AttemptStep::Pricing | AttemptStep::Ready(_) | AttemptStep::Signing => false,
            };
            if due {
                let (action, _) = self.action_of_next_attempt(slot);
                let speed = slot.tx.as_ref().map_or(Speed::Standard, |tx| tx.intent.speed());
                let ticket = slot.next.ticket.wrapping_add(1);
                requests.push(PrepareRequest { key: PrepareKey::Slot(nonce, ticket), action, speed });
                self.ledger
                    .slots
                    .update(nonce, |slot| (slot.next.step, slot.next.ticket) = (AttemptStep::Pricing, ticket));
            }
        }
        if !requests.is_empty() {
            step.effects.push(Effect::Prepare(requests));
        }
    }

    pub(in crate::lane) fn candidate_prepared(
        &mut self,
        id: TxId,
        version: u32,
        answer: Result<Prepared, PrepareFailure>,
        now: Tick,
    ) {
        // The call may depend on an earlier transaction of the account, also on one without a nonce (S19).
        let is_next = self.queue.first().is_some_and(|candidate| candidate.tx.id == id);
        let alone = is_next && self.ledger.slots.unmined().is_empty() && self.binds_under_way() == 0;
        let last_block = if answer.is_err() { self.newest_inclusion() } else { None }.map(|link| link.block.number);
        let (retry, funds) =
            (now.saturating_add(self.setup.limits.pauses.prepare_retry), self.setup.policy.funds.on_shortage);
        // The candidate may have failed, or left the queue and returned, since the request.
        let asked =
            |candidate: &&Candidate| matches!(candidate.stage, Stage::Pricing) && candidate.tx.version == version;
        let Some(index) = self.queue.find(id) else { return };
        let Some(candidate) = self.queue.candidates.get(index).filter(asked) else { return };
        let has_own_price = candidate.action().is_some_and(|action| action.own_price().is_some());
        let stage = match answer {
            Ok(prepared) if has_own_price => Stage::Ready { prepared, at: now },
            Ok(prepared) => {
                let market = self.market(&prepared);
                match market.first_offer(&self.setup.policy.fees) {
                    Offer::At(fees) => {
                        self.fee_cap.exceeded = None;
                        Stage::Ready { prepared: Prepared { fees, ..prepared }, at: now }
                    }
                    // The candidate is tried again until the price is below the cap (F06).
                    Offer::AboveCap(exceeded) => {
                        self.fee_cap.exceeded = Some(self.above_cap(exceeded));
                        Stage::Later(retry)
                    }
                }
            }
            Err(PrepareFailure::Reverted { at, text }) if alone && Some(at.number) >= last_block => {
                Stage::Failing(FailReason::SimulationReverted, text)
            }
            Err(PrepareFailure::Reverted { .. } | PrepareFailure::Unavailable(_)) => Stage::Later(retry),
            Err(PrepareFailure::Invalid(text)) => Stage::Failing(FailReason::InvalidPayload, text),
            // Earlier intents may bring the funds.
            Err(PrepareFailure::InsufficientFunds(text)) if alone && funds == OnShortage::Fail => {
                Stage::Failing(FailReason::InsufficientFunds, text)
            }
            Err(PrepareFailure::InsufficientFunds(_)) => {
                if is_next {
                    self.funds.unaffordable_cost = candidate.action().map(Action::outflow);
                }
                Stage::Later(retry)
            }
        };
        self.queue.set_stage(index, stage);
    }

    pub(in crate::lane) fn newest_inclusion(&self) -> Option<BlockLink> {
        newest_link(self.ledger.slots.iter().filter_map(OpenSlot::mined_in).chain(self.chain.newest_closed))
    }

    pub(in crate::lane) fn attempt_prepared(
        &mut self,
        nonce: Nonce,
        ticket: u32,
        answer: Result<Prepared, PrepareFailure>,
        now: Tick,
    ) {
        let retry = now.saturating_add(self.setup.limits.pauses.prepare_retry);
        // The nonce may be reserved since the request, or a newer request may be in flight.
        let is_awaited = |slot: &&OpenSlot| slot.next.step == AttemptStep::Pricing && slot.next.ticket == ticket;
        let Some(slot) = self.ledger.slots.get(nonce).filter(is_awaited) else { return };
        if let (Err(PrepareFailure::Unavailable(text)), true) = (&answer, slot.is_only_a_bump()) {
            let why = text.to_string();
            self.no_attempt(nonce, why, retry);
            return;
        }
        if let Some(why) = answer.as_ref().err().and_then(|failure| self.request_failure(nonce, failure)) {
            self.no_attempt(nonce, why, retry);
            return;
        }
        let (fees, replace_step) = (self.setup.policy.fees, self.setup.rules.replace_step());
        self.ledger.slots.update(nonce, |slot| {
            // The market does not ask for more than the attempt offers: the same bytes are sent again, at their pace.
            let is_enough = |prepared: &Prepared| {
                let offered = slot.wanted().map(|wanted| wanted.fees);
                let market = Market { asks: prepared.fees, base_fee: prepared.base_fee, replace_step };
                // A new attempt would offer no more.
                let Offer::At(asks) = market.first_offer(&fees) else { return false };
                slot.needs_bump()
                    && slot.next.requested.is_none()
                    && slot.next.bump_reason == Some(BumpReason::Underpriced)
                    && offered.is_some_and(|offered| !asks.offers_more_than(offered))
            };
            if answer.as_ref().is_ok_and(is_enough) {
                slot.next.bump_reason = None;
                slot.next.step = AttemptStep::None;
            } else {
                slot.next.step = answer.map_or(AttemptStep::Later(retry), AttemptStep::Ready);
            }
        });
    }
}

/// The first stage of a candidate: ready if the caller set work and price, otherwise a prepare request.
fn prepare(candidate: &Candidate, now: Tick, requests: &mut Vec<PrepareRequest>) -> Stage {
    if let Some(prepared) = candidate.decided() {
        return Stage::Ready { prepared, at: now };
    }
    // A reservation needs no price.
    let Some(action) = candidate.action() else { return Stage::Waiting };
    let key = PrepareKey::Intent(candidate.tx.id, candidate.tx.version);
    requests.push(PrepareRequest { key, action: action.clone(), speed: candidate.tx.intent.speed() });
    Stage::Pricing
}
