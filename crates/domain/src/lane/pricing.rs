//! What is known of the market when something is to be signed: answers for those in line, and for slots that need another attempt.

use crate::bidding::{Market, Offer};
use crate::block::BlockLink;
use crate::id::TxId;
use crate::nonce::Nonce;
use crate::policy::OnShortage;
use crate::state::FailReason;
use crate::time::Tick;

use super::fact::{PrepareFailure, Prepared};
use super::line::{Candidate, Stage};
use super::open_slot::{OpenSlot, Pressure, Remedy};
use super::raising::above_cap;
use super::{Lane, newest};

impl Lane {
    pub(super) fn prepared(&mut self, id: TxId, version: u32, answer: Result<Prepared, PrepareFailure>, now: Tick) {
        // An earlier transaction of ours may be what it needs, also one that has no nonce yet (S19).
        let is_next = self.line.first().is_some_and(|candidate| candidate.tx.id == id);
        let alone = is_next && self.slots.unmined().is_empty() && self.binds_under_way() == 0;
        let last_block = if answer.is_err() { self.newest_inclusion() } else { None }.map(|link| link.block.number);
        let (retry, funds) = (now.saturating_add(self.setup.limits.prepare_retry), self.setup.policy.funds.on_shortage);
        // What failed meanwhile, or went away and came back, is not what was asked for.
        let asked = |candidate: &&Candidate| matches!(candidate.stage, Stage::Asked) && candidate.tx.version == version;
        let Some(index) = self.line.find(id) else { return };
        let Some(candidate) = self.line.waiting.get(index).filter(asked) else { return };
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
                    // It goes on when that is over (F06).
                    Offer::AboveCap(cap) => {
                        self.above_cap = Some(above_cap(prepared.fees.highest_price(), cap));
                        Stage::Later(retry)
                    }
                }
            }
            Err(PrepareFailure::Reverted { at, text }) if alone && Some(at.number) >= last_block => {
                Stage::Doomed(FailReason::SimulationReverted, text)
            }
            Err(PrepareFailure::Reverted { .. } | PrepareFailure::Unavailable(_)) => Stage::Later(retry),
            Err(PrepareFailure::Invalid(text)) => Stage::Doomed(FailReason::InvalidPayload, text),
            // Earlier ones may bring the funds.
            Err(PrepareFailure::InsufficientFunds(text)) if alone && funds == OnShortage::Fail => {
                Stage::Doomed(FailReason::InsufficientFunds, text)
            }
            Err(PrepareFailure::InsufficientFunds(_)) => {
                if is_next {
                    self.purse.short_of = candidate.call().map(|call| call.value);
                }
                Stage::Later(retry)
            }
        };
        self.line.set_stage(index, stage);
    }

    pub(super) fn newest_inclusion(&self) -> Option<BlockLink> {
        newest(self.slots.iter().filter_map(OpenSlot::mined_in).chain(self.newest_closed))
    }

    pub(super) fn prepared_remedy(
        &mut self,
        nonce: Nonce,
        ticket: u32,
        answer: Result<Prepared, PrepareFailure>,
        now: Tick,
    ) {
        let retry = now.saturating_add(self.setup.limits.prepare_retry);
        // What is lent since it was asked for needs none; and what was asked for something else says nothing.
        let is_awaited = |slot: &&OpenSlot| slot.remedy == Remedy::Asked && slot.ticket == ticket;
        let Some(slot) = self.slots.get(nonce).filter(is_awaited) else { return };
        if let (Err(PrepareFailure::Unavailable(text)), true) = (&answer, slot.is_only_raised()) {
            let why = text.to_string();
            self.no_attempt(nonce, why, retry);
            return;
        }
        if let Some(why) = answer.as_ref().err().and_then(|failure| self.order_failure(nonce, failure)) {
            self.no_attempt(nonce, why, retry);
            return;
        }
        let fees = self.setup.policy.fees;
        self.slots.update(nonce, |slot| {
            // The market does not want more than it offers: the same bytes are sent again, at their pace.
            let is_enough = |prepared: &Prepared| {
                let offered = slot.wanted().map(|wanted| wanted.fees);
                let market = Market { asks: prepared.fees, base_fee: prepared.base_fee };
                // Whoever is new would offer no more.
                let Offer::At(asks) = market.first_offer(&fees) else { return false };
                slot.needs_price()
                    && slot.order.is_none()
                    && slot.pressure == Some(Pressure::Market)
                    && offered.is_some_and(|offered| !asks.offers_more_than(offered))
            };
            if answer.as_ref().is_ok_and(is_enough) {
                slot.pressure = None;
                slot.remedy = Remedy::None;
            } else {
                slot.remedy = answer.map_or(Remedy::Later(retry), Remedy::Ready);
            }
        });
    }
}
