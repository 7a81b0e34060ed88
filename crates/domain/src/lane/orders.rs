//! Orders: another payload, or another price, that somebody asks for at a bound nonce.
//!
//! An order is executed in the commit that holds the attempt which carries it. Until then nothing has changed, its command stays
//! open, and whoever loads the lane next begins with it anew. Which attempt counts, the chain decides (P9).

use crate::attempt::AttemptKind;
use crate::bidding::{Market, Offer, enough};
use crate::command::{Command, CommandId, CommandResult};
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::ledger::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::payload::{EvmCall, Fees, Payload};
use crate::state::{Goal, StateName};
use crate::time::Tick;
use crate::transition::Transition;

use super::canceling::{NOT_OPEN, UNRECONCILED};
use super::commands::{done, refused};
use super::fact::{PrepareFailure, Prepared};
use super::open_slot::{OpenSlot, Remedy, Seen, Sending};
use super::raising::Claimed;
use super::writing::{Writing, apply};
use super::{Lane, SignedItem};

#[derive(Debug)]
pub(super) struct Order {
    pub(super) by: CommandId,
    pub(super) what: Ordered,
    /// Why it cannot be done.
    pub(super) failed: Option<String>,
}

#[derive(Debug)]
pub(super) enum Ordered {
    Payload(Box<EvmCall>),
    /// The same for more: at this price or, without one, at what the policy makes of the market's.
    Price(Option<Fees>),
}

/// Where an intent is that somebody asks about.
pub(super) enum Whereabouts {
    Slot(Nonce),
    /// This place in line.
    Line(usize),
    /// It cannot be said yet.
    Unknown,
    NotOpen,
}

/// Why nothing is offered.
pub(super) enum NoOffer {
    AboveCap(u128),
    /// To take the place of what was sent, it would have to be this.
    TooLittle(Fees),
}

impl Lane {
    /// What is signed and not written has no nonce yet: it is in line again after this. Those signed behind it are planned anew.
    pub(super) fn find(&mut self, id: TxId, writing: &Writing) -> Whereabouts {
        // Something else was asked of it in the very commit that is being made.
        if writing.replaced.iter().any(|(candidate, _)| candidate.tx.id == id) {
            return Whereabouts::Unknown;
        }
        if let Some(nonce) = self.slots.find(id) {
            return Whereabouts::Slot(nonce);
        }
        if let Some(at) = self.signed.iter().position(|item| item.is_of(id)) {
            let item = self.signed.remove(at);
            self.unplan(item);
        }
        if let Some(at) = self.line.waiting.iter().position(|candidate| candidate.tx.id == id) {
            return Whereabouts::Line(at);
        }
        let at_the_signer = self.signing.iter().flatten().any(|item| item.is_of(id));
        // It may be further back than anybody has looked.
        let is_unseen = !self.line.known || self.line.more || self.line.must_look;
        if at_the_signer || is_unseen { Whereabouts::Unknown } else { Whereabouts::NotOpen }
    }

    /// `None` while it is under way.
    pub(super) fn replace(
        &mut self,
        command: &Command,
        id: TxId,
        payload: &Payload,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<Option<CommandResult>, CommitError> {
        let Payload::Evm(call) = payload else { return Ok(Some(refused(BORROWED))) };
        if !self.may_end() {
            // What was asked for before must still be recognised on chain.
            return Ok(Some(refused(UNRECONCILED)));
        }
        match self.find(id, writing) {
            Whereabouts::Slot(nonce) => {
                Ok(self.order(nonce, command.id, Ordered::Payload(Box::new(call.clone())), writing))
            }
            Whereabouts::Line(at) => self.replace_in_line(at, payload, commit, writing).map(Some),
            Whereabouts::Unknown => Ok(None),
            Whereabouts::NotOpen => Ok(Some(refused(NOT_OPEN))),
        }
    }

    /// It keeps its place in line.
    fn replace_in_line(
        &mut self,
        at: usize,
        payload: &Payload,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<CommandResult, CommitError> {
        let borrows = |tx: &IntentRecord| matches!(tx.payload(), Payload::Reservation(_));
        if self.line.waiting.get(at).is_none_or(|candidate| borrows(&candidate.tx)) {
            return Ok(refused(BORROWED));
        }
        let Some(candidate) = self.line.take(at) else { return Ok(refused(NOT_OPEN)) };
        let mut tx = candidate.tx.clone();
        let applied = apply(&mut tx, Transition::WantReplace(payload.clone()), commit);
        writing.replaced.push((candidate, tx));
        applied?;
        Ok(done("it was still in the queue, and asks for this now, in the same place"))
    }

    /// `None` while it is under way.
    pub(super) fn resubmit(
        &mut self,
        command: &Command,
        id: TxId,
        named: Option<Fees>,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<Option<CommandResult>, CommitError> {
        match self.find(id, writing) {
            Whereabouts::Slot(nonce) if named.is_none() && !self.setup.policy.bump.enabled => {
                self.send_again(nonce, commit, writing).map(Some)
            }
            Whereabouts::Slot(nonce) => Ok(self.order(nonce, command.id, Ordered::Price(named), writing)),
            Whereabouts::Line(_) => Ok(Some(refused("it has no nonce yet, and is sent when it is its turn"))),
            Whereabouts::Unknown => Ok(None),
            Whereabouts::NotOpen => Ok(Some(refused(NOT_OPEN))),
        }
    }

    /// The same bytes, now (F08).
    fn send_again(
        &mut self,
        nonce: Nonce,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<CommandResult, CommitError> {
        if let Some(why) = self.objection(nonce, writing) {
            return Ok(refused(why));
        }
        self.revive(nonce, commit, writing)?;
        self.claim_by_hand(nonce, false, commit, writing);
        Ok(done("the same bytes are sent again"))
    }

    /// A slot's claim that no schedule has asked for. It begins to count its tries anew.
    pub(super) fn claim_by_hand(&mut self, nonce: Nonce, raises: bool, commit: &mut LaneCommit, writing: &mut Writing) {
        let pause = self.setup.policy.resubmit.interval;
        let claimed = Claimed { nonce, tries: 0, signal: None, raises };
        commit.claim_resubmit(claimed.claim(pause));
        self.slots.update(nonce, |slot| {
            if slot.sending != Sending::UnderWay {
                slot.sending = Sending::Claiming;
            }
        });
        writing.claims.push(claimed);
    }

    /// Somebody has decided: it is no longer stuck.
    pub(super) fn revive(
        &self,
        nonce: Nonce,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        if let Some(tx) = self.intent_at(nonce, writing).filter(|tx| tx.state.name() == StateName::Stuck) {
            let mut tx = tx.clone();
            apply(&mut tx, Transition::Revive, commit)?;
            writing.changed.insert(nonce, Box::new(tx));
        }
        Ok(())
    }

    /// What stands against another attempt at this nonce.
    fn objection(&self, nonce: Nonce, writing: &Writing) -> Option<&'static str> {
        let Some((slot, _)) = self.bound_at(nonce, writing) else { return Some(NOT_OPEN) };
        if slot.is_lent() {
            return Some("its nonce is lent, and nothing was given to us for it");
        }
        (slot.seen != Seen::Nowhere).then_some("it is mined already; the chain has decided")
    }

    fn order(&mut self, nonce: Nonce, by: CommandId, what: Ordered, writing: &Writing) -> Option<CommandResult> {
        let against = self.objection(nonce, writing).or_else(|| {
            let (slot, bound) = self.bound_at(nonce, writing)?;
            let canceling = matches!(bound.goal, Goal::Cancel(_));
            match &what {
                Ordered::Payload(_) if canceling => Some("it is being canceled"),
                Ordered::Payload(_) | Ordered::Price(_) if slot.call_again().is_none() && !canceling => Some(BORROWED),
                Ordered::Payload(_) | Ordered::Price(_) => None,
            }
        });
        let slot = self.slots.get(nonce)?;
        let begun = slot.order.as_ref().filter(|order| order.by == by);
        let failed = against.map(str::to_owned).or_else(|| begun?.failed.clone());
        if let Some(why) = failed {
            if begun.is_some() {
                self.slots.update(nonce, drop_order);
            }
            return Some(refused(&why));
        }
        // One at a time, and not while another attempt is on its way.
        if slot.order.is_some() || matches!(slot.remedy, Remedy::Asked | Remedy::UnderWay) {
            return None;
        }
        if let Ordered::Price(Some(named)) = what
            && let Err(least) = enough(named, slot.to_outbid().map(|attempt| attempt.fees))
        {
            return Some(refused(&too_little(least)));
        }
        self.slots.update(nonce, |slot| {
            slot.order = Some(Order { by, what, failed: None });
            slot.remedy = Remedy::None;
        });
        self.asks_again = true;
        None
    }

    /// Those whose commands are gone are not wanted any more.
    pub(super) fn forget_orders(&mut self) {
        for nonce in self.slots.remedial() {
            let by = self.slots.get(nonce).and_then(|slot| Some(slot.order.as_ref()?.by));
            if by.is_some_and(|by| !self.commands.iter().any(|command| command.id == by)) {
                self.slots.update(nonce, drop_order);
            }
        }
    }

    /// What the next attempt of a slot does, and as what.
    pub(super) fn next_attempt(&self, slot: &OpenSlot) -> (EvmCall, AttemptKind) {
        let named = match slot.order.as_ref().map(|order| &order.what) {
            Some(Ordered::Payload(call)) => return (EvmCall::clone(call), AttemptKind::Replace),
            Some(Ordered::Price(named)) => *named,
            None => None,
        };
        let again = slot.call_again().filter(|_| !slot.wants_nothing());
        let nothing = || EvmCall { to: self.lease.submitter().evm_address(), ..EvmCall::default() };
        let kind = if again.is_some() { slot.kind_again() } else { slot.kind_of_filler() };
        (EvmCall { fees: named, ..again.unwrap_or_else(nothing) }, kind)
    }

    /// What it offers, in the place of everything that was sent.
    pub(super) fn offer(
        &self,
        slot: &OpenSlot,
        call: &EvmCall,
        kind: AttemptKind,
        prepared: &Prepared,
    ) -> Result<Fees, NoOffer> {
        let (market, policy) = (Market { asks: prepared.fees, base_fee: prepared.base_fee }, &self.setup.policy);
        let sent: Vec<Fees> = slot.to_outbid().map(|attempt| attempt.fees).collect();
        let sent = sent.into_iter();
        // Somebody's own price is not raised by us.
        if call.fees.is_some() {
            return enough(prepared.fees, sent).map(|()| prepared.fees).map_err(NoOffer::TooLittle);
        }
        if !kind.carries_payload() {
            let offer = market.filler_offer(sent, &policy.fees);
            // It has passed the cap by its one step.
            let is_beyond = |held: &super::HeldAttempt| {
                !held.attempt.kind.carries_payload() && policy.fees.is_above_cap(held.attempt.fees)
            };
            let cap = policy.fees.max_price;
            return if slot.attempts.iter().any(is_beyond) { Err(NoOffer::AboveCap(cap)) } else { Ok(offer) };
        }
        match market.raised_offer(sent, &policy.fees, &policy.bump) {
            Offer::At(fees) => Ok(fees),
            Offer::AboveCap(cap) => Err(NoOffer::AboveCap(cap)),
        }
    }

    /// An attempt that was ordered is written: so is what it was ordered for.
    pub(super) fn write_order(
        &self,
        item: &SignedItem,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        let nonce = item.attempt.nonce;
        let order = self.slots.get(nonce).and_then(|slot| slot.order.as_ref());
        let Some(order) = order.filter(|order| Some(order.by) == item.ordered_by) else { return Ok(()) };
        let Some(command) = self.commands.iter().find(|command| command.id == order.by) else { return Ok(()) };
        self.revive(nonce, commit, writing)?;
        if let (Ordered::Payload(call), Some(tx)) = (&order.what, self.intent_at(nonce, writing)) {
            let mut tx = tx.clone();
            apply(&mut tx, Transition::WantReplace(Payload::Evm(EvmCall::clone(call))), commit)?;
            writing.changed.insert(nonce, Box::new(tx));
        }
        let most = crate::plan::worst_cost(crate::Amount::ZERO, item.gas_limit, item.attempt.fees);
        let text = format!(
            "{} at nonce {nonce}, for at most {most} wei of gas; which of its attempts counts, the chain decides",
            item.attempt.hash
        );
        commit.command_done(command, done(&text));
        writing.commands.push(command.id);
        Ok(())
    }

    /// `None` if there is no order, or it may still come to something.
    pub(super) fn order_failure(&self, nonce: Nonce, failure: &PrepareFailure) -> Option<String> {
        self.slots.get(nonce)?.order.as_ref()?;
        // An earlier transaction of ours may be what it needs (S19).
        let is_lowest = self.slots.unmined().first() == Some(&nonce);
        match failure {
            PrepareFailure::Reverted { text, .. } if is_lowest => Some(format!("it would revert: {text}")),
            PrepareFailure::Invalid(text) => Some(format!("no node would take it: {text}")),
            PrepareFailure::InsufficientFunds(text) => Some(format!("it cannot be paid for: {text}")),
            PrepareFailure::Reverted { .. } | PrepareFailure::Unavailable(_) => None,
        }
    }

    /// Do these very bytes exist already? Then they are sent again.
    pub(super) fn exists(slot: &OpenSlot, kind: AttemptKind, fees: Fees, gas_limit: u64) -> bool {
        let is_same = |held: &super::HeldAttempt| {
            let attempt = &held.attempt;
            let has_same_effect = attempt.kind.carries_payload() == kind.carries_payload() && !held.stale;
            has_same_effect && attempt.fees == fees && held.gas_limit == gas_limit
        };
        let is_new_payload = matches!(slot.order, Some(Order { what: Ordered::Payload(_), .. }));
        !is_new_payload && slot.attempts.iter().any(is_same)
    }

    /// The attempt cannot be made: an order fails; what was only to be raised is sent as it is; what nodes want more for waits.
    pub(super) fn no_attempt(&mut self, nonce: Nonce, why: String, retry: Tick) {
        self.slots.update(nonce, |slot| {
            if let Some(order) = &mut slot.order {
                order.failed = Some(why);
                slot.remedy = Remedy::None;
            } else if slot.may_go_as_it_is() {
                slot.pressure = None;
                slot.remedy = Remedy::None;
            } else {
                slot.remedy = Remedy::Later(retry);
            }
        });
    }
}

impl OpenSlot {
    /// A bumped replacement is still a replacement: the kind says whose effect it carries.
    fn kind_again(&self) -> AttemptKind {
        let newest = self.attempts.iter().rev().find(|held| held.attempt.kind.carries_payload() && !held.stale);
        match newest.map(|held| held.attempt.kind) {
            Some(AttemptKind::Replace) => AttemptKind::Replace,
            _ => AttemptKind::Bump,
        }
    }

    fn kind_of_filler(&self) -> AttemptKind {
        if self.is_unclaimed() { AttemptKind::Fill } else { AttemptKind::Cancel }
    }
}

impl OpenSlot {
    /// What its attempts carried up to now is no longer wanted.
    pub(super) fn payload_was_replaced(&mut self) {
        for held in self.attempts.iter_mut().filter(|held| held.attempt.kind.carries_payload()) {
            held.stale = true;
        }
    }
}

fn drop_order(slot: &mut OpenSlot) {
    slot.order = None;
    if slot.remedy != Remedy::UnderWay {
        slot.remedy = Remedy::None;
    }
}

pub(super) fn too_little(least: Fees) -> String {
    format!("to take the place of what was sent it has to offer at least {least}")
}

const BORROWED: &str = "its transaction is signed by who borrows the nonce";
