//! Answers to prepare requests, for candidates and for slots that need another attempt.

use crate::bidding::{Market, Offer};
use crate::block::BlockLink;
use crate::id::TxId;
use crate::nonce::Nonce;
use crate::policy::OnShortage;
use crate::state::FailReason;
use crate::time::Tick;

use super::bumping::above_cap;
use super::fact::{PrepareFailure, Prepared};
use super::open_slot::{BumpReason, NextAttempt, OpenSlot};
use super::queue::{Candidate, Stage};
use super::{Lane, newest_link};

impl Lane {
    pub(super) fn candidate_prepared(
        &mut self,
        id: TxId,
        version: u32,
        answer: Result<Prepared, PrepareFailure>,
        now: Tick,
    ) {
        // The call may depend on an earlier transaction of the account, also on one without a nonce (S19).
        let is_next = self.queue.first().is_some_and(|candidate| candidate.tx.id == id);
        let alone = is_next && self.slots.unmined().is_empty() && self.binds_under_way() == 0;
        let last_block = if answer.is_err() { self.newest_inclusion() } else { None }.map(|link| link.block.number);
        let (retry, funds) = (now.saturating_add(self.setup.limits.prepare_retry), self.setup.policy.funds.on_shortage);
        // The candidate may have failed, or left the queue and returned, since the request.
        let asked =
            |candidate: &&Candidate| matches!(candidate.stage, Stage::Pricing) && candidate.tx.version == version;
        let Some(index) = self.queue.find(id) else { return };
        let Some(candidate) = self.queue.candidates.get(index).filter(asked) else { return };
        let has_own_price = candidate.call().is_some_and(|call| call.fees.is_some());
        let stage = match answer {
            Ok(prepared) if has_own_price => Stage::Ready { prepared, at: now },
            Ok(prepared) => {
                let market = Market { asks: prepared.fees, base_fee: prepared.base_fee };
                match market.first_offer(&self.setup.policy.fees) {
                    Offer::At(fees) => {
                        self.above_cap = None;
                        Stage::Ready { prepared: Prepared { fees, ..prepared }, at: now }
                    }
                    // The candidate is tried again until the price is below the cap (F06).
                    Offer::AboveCap(cap) => {
                        self.above_cap = Some(above_cap(prepared.fees.highest_price(), cap));
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
                    self.funds.unaffordable_cost = candidate.call().map(|call| call.value);
                }
                Stage::Later(retry)
            }
        };
        self.queue.set_stage(index, stage);
    }

    pub(super) fn newest_inclusion(&self) -> Option<BlockLink> {
        newest_link(self.slots.iter().filter_map(OpenSlot::mined_in).chain(self.newest_closed))
    }

    pub(super) fn attempt_prepared(
        &mut self,
        nonce: Nonce,
        ticket: u32,
        answer: Result<Prepared, PrepareFailure>,
        now: Tick,
    ) {
        let retry = now.saturating_add(self.setup.limits.prepare_retry);
        // The nonce may be reserved since the request, or a newer request may be in flight.
        let is_awaited = |slot: &&OpenSlot| slot.next_attempt == NextAttempt::Pricing && slot.ticket == ticket;
        let Some(slot) = self.slots.get(nonce).filter(is_awaited) else { return };
        if let (Err(PrepareFailure::Unavailable(text)), true) = (&answer, slot.is_only_a_bump()) {
            let why = text.to_string();
            self.no_attempt(nonce, why, retry);
            return;
        }
        if let Some(why) = answer.as_ref().err().and_then(|failure| self.request_failure(nonce, failure)) {
            self.no_attempt(nonce, why, retry);
            return;
        }
        let fees = self.setup.policy.fees;
        self.slots.update(nonce, |slot| {
            // The market does not ask for more than the attempt offers: the same bytes are sent again, at their pace.
            let is_enough = |prepared: &Prepared| {
                let offered = slot.wanted().map(|wanted| wanted.fees);
                let market = Market { asks: prepared.fees, base_fee: prepared.base_fee };
                // A new attempt would offer no more.
                let Offer::At(asks) = market.first_offer(&fees) else { return false };
                slot.needs_bump()
                    && slot.requested.is_none()
                    && slot.bump_reason == Some(BumpReason::Underpriced)
                    && offered.is_some_and(|offered| !asks.offers_more_than(offered))
            };
            if answer.as_ref().is_ok_and(is_enough) {
                slot.bump_reason = None;
                slot.next_attempt = NextAttempt::None;
            } else {
                slot.next_attempt = answer.map_or(NextAttempt::Later(retry), NextAttempt::Ready);
            }
        });
    }
}
