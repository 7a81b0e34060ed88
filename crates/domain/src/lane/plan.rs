//! What to begin next: everything that is possible now and not under way.

use std::time::Duration;

use crate::amount::Amount;
use crate::attempt::AttemptKind;
use crate::command::CommandKind;
use crate::cursor::Cursor;
use crate::mistakes::{self, Mistake};
use crate::nonce::Nonce;
use crate::payload::EvmCall;
use crate::plan::{SignedTx, TxPlan, worst_cost};
use crate::policy::OnShortage;
use crate::state::FailReason;
use crate::text::NodeText;
use crate::time::Tick;

use super::effect::{Effect, Outgoing, PrepareRequest, SignRequest, Step};
use super::fact::{PrepareKey, Prepared, SignFailure};
use super::line::{Candidate, Stage};
use super::open_slot::{OpenSlot, Remedy, Sending};
use super::orders::{NoOffer, too_little};
use super::raising::above_cap;
use super::writing::Writing;
use super::{Lane, SignedItem, Signing, Unsigned};

/// A line that is fed is read at every such look of the clock only; at the others, the lane reads its commands.
const FED_LOOKS: u32 = 5;

impl Lane {
    pub(super) fn decide(&mut self, now: Tick) -> Step {
        let mut step = Step { effects: std::mem::take(&mut self.effects), wake_at: None };
        if self.over {
            return step;
        }
        self.plan_account(now, &mut step);
        self.plan_survey(now, &mut step);
        self.plan_peek(now, &mut step);
        self.plan_prepare(now, &mut step);
        self.plan_sign(now, &mut step);
        self.plan_commit(now, &mut step);
        if std::mem::take(&mut self.asks_again) {
            self.plan_prepare(now, &mut step);
        }
        self.plan_broadcast(now, &mut step);
        self.plan_decisions(now, &mut step);
        self.plan_end(now, &mut step);
        step
    }

    /// Nothing more is to be begun for what has no nonce yet.
    pub(super) fn may_bind(&self) -> bool {
        let open = self.cursor.as_ref().is_some_and(|cursor| !cursor.is_protected() && !cursor.paused);
        let stops =
            |kind: &CommandKind| matches!(kind, CommandKind::Pause | CommandKind::Resync { dry_run: false, .. });
        let stopping = self.commands.iter().any(|command| stops(&command.kind));
        open && !stopping
            && !self.regressed
            && !self.draining
            && self.protect.is_none()
            && self.purse.account.is_some()
            && self.purse.ahead == 0
            && self.purse.behind == 0
            && self.slots.short().is_empty()
            && !self.chain_is_broken()
    }

    /// How many more nonces may be bound now.
    fn free(&self) -> usize {
        if !self.may_bind() {
            return 0;
        }
        let planned = self.binds_under_way();
        let room = self.setup.limits.open_slots.saturating_sub(self.slots.len() + planned);
        self.window_left().saturating_sub(planned).min(room)
    }

    /// How much of the window is not bound.
    pub(super) fn window_left(&self) -> usize {
        self.window().saturating_sub(self.in_flight())
    }

    fn window(&self) -> usize {
        if mistakes::made(Mistake::WindowIgnored) {
            return usize::MAX;
        }
        let policy = &self.setup.policy.nonce;
        let delegated = self.purse.account.is_some_and(|account| account.delegated);
        let most =
            if delegated { policy.delegated_max_in_flight.min(policy.max_in_flight) } else { policy.max_in_flight };
        usize::from(most)
    }

    /// Nonces that are taken in memory, and not yet durable.
    pub(super) fn binds_under_way(&self) -> usize {
        let signing = self.signing.iter().flatten().filter(|item| item.candidate.is_some()).count();
        let signed = self.signed.iter().filter(|item| item.candidate.is_some()).count();
        let writing = self.writing.as_ref().map_or(0, |writing| writing.binds());
        signing + signed + writing
    }

    /// Signed or to be signed, and not among the slots yet.
    fn bytes_under_way(&self) -> usize {
        let data = |item: &Signing| Some(item.candidate.as_ref()?.call()?.data.len());
        let signing = self.signing.iter().flatten().filter_map(data).sum::<usize>();
        signing + self.writing.as_ref().map_or(0, Writing::bytes)
    }

    fn plan_account(&mut self, now: Tick, step: &mut Step) {
        // A command needs a cursor, and a cursor needs a count to begin with.
        let has_work = !self.slots.is_empty()
            || self.binds_under_way() > 0
            || !self.line.waiting.is_empty()
            || (self.cursor.is_none() && !self.commands.is_empty())
            || self.recovery_commands().next().is_some();
        if !has_work || self.draining {
            return;
        }
        if self.purse.is_due(now) {
            let planned = self.signed.iter().map(|item| item.cost);
            let signing = self.signing.iter().flatten().map(|item| item.attempt.cost);
            let writing = self.writing.iter().flat_map(|writing| writing.costs());
            let open = self.slots.unmined().iter().filter_map(|nonce| self.slots.get(*nonce)).map(OpenSlot::cost);
            let total = open
                .chain(planned)
                .chain(signing)
                .chain(writing)
                .fold(Amount::ZERO, |sum, cost| Amount::new(sum.get().saturating_add(cost.get())));
            self.purse.begin(total);
            step.effects.push(Effect::ReadAccount);
        } else if let Some(at) = self.purse.next_read() {
            step.wake(at);
        }
    }

    fn plan_peek(&mut self, now: Tick, step: &mut Step) {
        if self.line.peeking || self.draining {
            return;
        }
        let never = Duration::from_secs(365 * 86_400);
        let pause = if mistakes::made(Mistake::LostWakeup) { never } else { self.setup.limits.look_interval };
        let again_at = self.line.looked_at.saturating_add(pause);
        let batch = self.setup.limits.batch.max(8);
        let ahead = usize::from(self.setup.policy.nonce.max_in_flight).saturating_mul(2).clamp(8, batch);
        // To be compared with what strangers have sent.
        let ahead = if self.compares_queue() { ahead.max(self.setup.limits.adopt) } else { ahead };
        let is_filled = self.line.waiting.len() >= self.free().clamp(1, ahead);
        let low = self.line.may_have_more() && !is_filled;
        // A look that failed is repeated, but not at once.
        let retry_at = self.line.began_at.saturating_add(self.setup.limits.retry);
        let rested = !self.line.failed || now >= retry_at;
        // Whoever is being bound stands in the queue until that is durable, and would be read with everybody who comes meanwhile, again and
        // again: one look while a commit is under way is enough, the next can be used when it is done.
        let is_paced = self.writing.is_some() && self.line.has_looked && self.line.known && !self.compares_queue();
        // Is everybody in line for whom there is room? Then who is new waits behind them, and only commands are news: a lane that works at
        // its limit is called for every intent that comes in, and must not read its whole line each time.
        let is_fed = is_filled && self.line.known && !self.compares_queue();
        // Who is in line may be canceled behind the lane's back. That matters most for the first, if all wait for it.
        let is_stale = now >= self.line.read_at.saturating_add(pause.saturating_mul(FED_LOOKS));
        let is_held_up = self.line.first().is_some_and(|first| matches!(first.stage, Stage::Later(_)));
        let is_late = now >= again_at;
        let reads_by_clock = is_late && (!is_fed || is_stale || is_held_up);
        let wanted = low || (self.line.look && !is_fed);
        let mut without = Vec::new();
        if reads_by_clock || (rested && (self.line.must_look || (wanted && !is_paced))) {
            // Those who are leaving the queue may still be first in it.
            without = self.ids_leaving().collect();
            self.peek_limit = u32::try_from(ahead).unwrap_or(u32::MAX);
            self.line.begin_look(now, without.iter().copied().collect());
        } else if is_late || (rested && self.line.look) {
            self.peek_limit = 0;
            self.line.begin_look_past(now);
            if is_late {
                self.line.looked_at = now;
            }
        } else {
            let is_due = self.line.look || self.line.must_look || (low && !is_paced);
            step.wake(if is_due { retry_at.min(again_at) } else { again_at });
            return;
        }
        self.commands_done.clear();
        step.effects.push(Effect::Peek { limit: self.peek_limit, without });
    }

    fn plan_prepare(&mut self, now: Tick, step: &mut Step) {
        self.line.doom_expired(self.database_now(now));
        let free = self.free();
        let price_age = self.setup.limits.price_age;
        let mut requests = Vec::new();
        let mut next_try: Option<Tick> = None;
        let mut front = self.line.waiting.iter_mut().filter(|candidate| !candidate.is_doomed());
        for candidate in front.by_ref().take(free) {
            match candidate.stage {
                Stage::Later(at) if at <= now => candidate.stage = Stage::Waiting,
                Stage::Later(at) => next_try = Some(next_try.map_or(at, |other| other.min(at))),
                // A price that was decided by the caller does not grow old.
                Stage::Ready { at, .. } if candidate.decided().is_none() && now.saturating_since(at) > price_age => {
                    candidate.stage = Stage::Waiting;
                }
                _ => {}
            }
            if matches!(candidate.stage, Stage::Waiting) {
                candidate.stage = prepare(candidate, now, &mut requests);
            }
        }
        let lends = self.borrower_is_next();
        for nonce in self.slots.remedial() {
            if requests.len() >= self.setup.limits.batch {
                break;
            }
            let Some(slot) = self.slots.get(nonce).filter(|slot| !(lends && slot.is_recyclable())) else { continue };
            let due = match slot.remedy {
                Remedy::None => slot.needs_another(),
                Remedy::Later(at) if at <= now => true,
                Remedy::Later(at) => {
                    next_try = Some(next_try.map_or(at, |other| other.min(at)));
                    false
                }
                Remedy::Asked | Remedy::Ready(_) | Remedy::UnderWay => false,
            };
            if due {
                let (call, _) = self.next_attempt(slot);
                let speed = slot.tx.as_ref().map_or(crate::intent::Speed::Standard, |tx| tx.intent.speed());
                let ticket = slot.ticket.wrapping_add(1);
                requests.push(PrepareRequest { key: PrepareKey::Slot(nonce, ticket), call, speed });
                self.slots.update(nonce, |slot| (slot.remedy, slot.ticket) = (Remedy::Asked, ticket));
            }
        }
        if let Some(at) = next_try {
            step.wake(at);
        }
        if !requests.is_empty() {
            step.effects.push(Effect::Prepare(requests));
        }
    }

    fn plan_sign(&mut self, now: Tick, step: &mut Step) {
        if self.signing.is_some() || self.draining {
            return;
        }
        if now < self.sign_after {
            step.wake(self.sign_after);
            return;
        }
        let mut items = self.remedies_to_sign(now);
        if let Some(cursor) = self.cursor.clone() {
            self.binds_to_sign(&cursor, &mut items);
        }
        // What was too dear may have left the line since.
        if self.purse.is_short && !self.line.waiting.is_empty() {
            self.purse.read_by(now.saturating_add(self.setup.limits.prepare_retry));
            self.purse.next_read().into_iter().for_each(|at| step.wake(at));
        }
        if items.is_empty() {
            return;
        }
        let (signing, requests): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        self.signing = Some(signing);
        step.effects.push(Effect::Sign(requests));
    }

    fn binds_to_sign(&mut self, cursor: &Cursor, items: &mut Vec<(Signing, SignRequest)>) {
        let mut free = self.free().min(self.setup.limits.batch.saturating_sub(self.signed.len()));
        let mut bytes: usize = self.signed.iter().map(|item| item.attempt.raw.len()).sum();
        let mut in_window = self.slots.unmined_bytes().saturating_add(bytes).saturating_add(self.bytes_under_way());
        let under_way = self.binds_under_way();
        let first = cursor.next_nonce.get().saturating_add(under_way as u64);
        let mut next = Nonce::new(first).ok();
        while free > 0
            && let Some(nonce) = next
        {
            let Some(index) = self.line.first_index() else { return };
            let Some(candidate) = self.line.waiting.get(index) else { return };
            let Stage::Ready { prepared, .. } = candidate.stage else { return };
            let Some(call) = candidate.call().cloned() else { return };
            bytes = bytes.saturating_add(call.data.len());
            if bytes > self.setup.limits.batch_bytes && !(items.is_empty() && self.signed.is_empty()) {
                return;
            }
            let is_first = items.is_empty() && under_way == 0 && self.slots.unmined().is_empty();
            in_window = in_window.saturating_add(call.data.len());
            if in_window > self.setup.limits.window_bytes && !is_first {
                return;
            }
            let cost = with(prepared.surcharge, worst_cost(call.value, prepared.gas_limit, prepared.fees));
            if !self.purse.spend(cost) {
                let alone = self.slots.unmined().is_empty() && under_way == 0;
                if self.setup.policy.funds.on_shortage == OnShortage::Fail && self.purse.is_fresh && alone {
                    let text = format!("it may cost {cost}, and the account has {}", self.purse.budget);
                    self.line.set_stage(index, Stage::Doomed(FailReason::InsufficientFunds, NodeText::new(&text)));
                    continue;
                }
                if self.purse.is_fresh {
                    self.purse.short_of = Some(cost);
                }
                return;
            }
            let Some(candidate) = self.line.take(index) else { return };
            let is_replaced = candidate.tx.replacement.is_some();
            let kind = if is_replaced { AttemptKind::Replace } else { AttemptKind::Original };
            let Prepared { gas_limit, fees, .. } = prepared;
            let attempt = Unsigned { nonce, ordinal: 0, kind, fees, gas_limit, cost, ordered_by: None };
            let request = self.request(attempt, call, prepared.gas_limit);
            items.push((Signing { candidate: Some(candidate), attempt }, request));
            next = nonce.next().ok();
            free -= 1;
        }
    }

    fn remedies_to_sign(&mut self, now: Tick) -> Vec<(Signing, SignRequest)> {
        let retry = now.saturating_add(self.setup.limits.prepare_retry);
        let mut items = Vec::new();
        let lends = self.borrower_is_next();
        for nonce in self.slots.remedial() {
            if items.len() >= self.setup.limits.batch {
                break;
            }
            let Some(slot) = self.slots.get(nonce).filter(|slot| !(lends && slot.is_recyclable())) else { continue };
            let Remedy::Ready(prepared) = slot.remedy else { continue };
            let (call, kind) = self.next_attempt(slot);
            let fees = match self.offer(slot, &call, kind, &prepared) {
                Ok(fees) => fees,
                Err(NoOffer::TooLittle(least)) => {
                    self.no_attempt(nonce, too_little(least), retry);
                    continue;
                }
                Err(NoOffer::AboveCap(cap)) => {
                    let text = above_cap(prepared.fees.highest_price(), cap);
                    self.above_cap = Some(text.clone());
                    self.no_attempt(nonce, text, retry);
                    continue;
                }
            };
            if Self::exists(slot, kind, fees, prepared.gas_limit) {
                self.no_attempt(nonce, "this is what it offers already, and it is sent again".to_owned(), retry);
                self.slots.update(nonce, |slot| {
                    slot.pressure = None;
                    if matches!(slot.sending, Sending::Due { .. } | Sending::Rest) {
                        slot.sending = Sending::Due { at: now, claim: false };
                    }
                });
                continue;
            }
            let cost = with(prepared.surcharge, worst_cost(call.value, prepared.gas_limit, fees));
            let ordered_by = slot.order.as_ref().map(|order| order.by);
            let (ordinal, gas_limit) = (slot.next_ordinal(), prepared.gas_limit);
            let attempt = Unsigned { nonce, ordinal, kind, fees, gas_limit, cost, ordered_by };
            // A filler is made in any case, and waits for funds like any other.
            let more = Amount::new(cost.get().saturating_sub(slot.cost().get()));
            let can_tell = self.purse.account.is_some() && self.purse.is_fresh;
            if kind.carries_payload() && more > self.purse.budget && ordered_by.is_some() && !can_tell {
                self.purse.read_soon();
                self.slots.update(nonce, |slot| slot.remedy = Remedy::Later(retry));
                continue;
            }
            if kind.carries_payload() && more > self.purse.budget {
                let text = format!("it may cost {more} more, and the account has {} left", self.purse.budget);
                self.no_attempt(nonce, text, retry);
                continue;
            }
            if kind.carries_payload() && call.fees.is_none() {
                self.above_cap = None;
            }
            self.purse.owe(more);
            let request = self.request(attempt, call, prepared.gas_limit);
            items.push((Signing { candidate: None, attempt }, request));
            self.slots.update(nonce, |slot| slot.remedy = Remedy::UnderWay);
        }
        items
    }

    fn request(&self, attempt: Unsigned, call: EvmCall, gas_limit: u64) -> SignRequest {
        let submitter = self.lease.submitter().clone();
        SignRequest {
            kind: attempt.kind,
            plan: TxPlan { submitter, nonce: attempt.nonce, call, gas_limit, fees: attempt.fees },
        }
    }

    /// Nonces are given in order, so what stands behind one that could not be signed is dropped, unsent, and planned anew.
    pub(super) fn signed(&mut self, answers: Vec<Result<SignedTx, SignFailure>>, now: Tick) {
        let mut back = Vec::new();
        let mut failed = false;
        let mut answers = answers.into_iter();
        for Signing { candidate, attempt } in self.signing.take().unwrap_or_default() {
            let nothing = || Err(SignFailure::Unavailable(NodeText::new("the signer gave no answer")));
            let answer = answers.next().unwrap_or_else(nothing);
            if let Err(SignFailure::Refused(text) | SignFailure::Unavailable(text)) = &answer {
                self.effects.push(Effect::Notice { nonce: Some(attempt.nonce), text: text.clone() });
            }
            match (candidate, answer) {
                (Some(candidate), Ok(_)) if failed => back.push(candidate),
                (candidate, Ok(signed)) => {
                    let Unsigned { gas_limit, cost, ordered_by, .. } = attempt;
                    self.signed.push(SignedItem {
                        candidate,
                        attempt: attempt.with(signed),
                        gas_limit,
                        cost,
                        ordered_by,
                    });
                }
                (None, Err(failure)) => {
                    let retry = now.saturating_add(self.setup.limits.resend_first);
                    let is_only_raised = self.slots.get(attempt.nonce).is_some_and(OpenSlot::is_only_raised);
                    match failure {
                        SignFailure::Refused(text) => self.no_attempt(attempt.nonce, text.to_string(), retry),
                        SignFailure::Unavailable(text) if is_only_raised => {
                            self.no_attempt(attempt.nonce, text.to_string(), retry);
                        }
                        SignFailure::Unavailable(_) => {
                            self.slots.update(attempt.nonce, |slot| slot.remedy = Remedy::Later(retry));
                        }
                    }
                }
                (Some(mut candidate), Err(failure)) => {
                    failed = true;
                    if let SignFailure::Refused(text) = failure {
                        candidate.stage = Stage::Doomed(FailReason::InvalidPayload, text);
                    }
                    back.push(candidate);
                }
            }
        }
        for candidate in back {
            self.line.put_back(candidate);
        }
        self.sign_failures = if failed { self.sign_failures.saturating_add(1) } else { 0 };
        if failed {
            self.sign_after = now.saturating_add(self.pace().after_failures(self.sign_failures));
            self.purse.read_soon();
        }
    }

    fn plan_broadcast(&mut self, now: Tick, step: &mut Step) {
        if self.broadcasting || self.draining {
            return;
        }
        let mut outgoing = Vec::new();
        let database_now = self.database_now(now);
        for nonce in self.slots.to_send(now) {
            let goes_out = |slot: &&OpenSlot| slot.is_due(now) && slot.is_in_time(database_now);
            let Some(slot) = self.slots.get(nonce).filter(goes_out) else { continue };
            let Some(wanted) = slot.wanted().filter(|_| !self.unreplicated) else { continue };
            let tx = SignedTx { hash: wanted.hash, raw: wanted.raw.clone() };
            self.slots.update(nonce, |slot| slot.goes_out(tx.hash));
            outgoing.push(Outgoing { nonce, tx });
            if outgoing.len() >= self.setup.limits.batch {
                break;
            }
        }
        self.slots.next_after(now).into_iter().for_each(|at| step.wake(at));
        if !outgoing.is_empty() {
            self.broadcasting = true;
            step.effects.push(Effect::Broadcast(outgoing));
        }
    }

    pub(super) fn has_something_to_send(&self, now: Tick) -> bool {
        let database_now = self.database_now(now);
        let goes_out = |slot: &OpenSlot| slot.is_due(now) && slot.is_in_time(database_now);
        let due = |nonce: &Nonce| self.slots.get(*nonce).is_some_and(goes_out);
        !self.draining && self.slots.to_send(now).iter().any(due)
    }

    fn plan_end(&mut self, now: Tick, step: &mut Step) {
        let busy = self.writing.is_some() || self.broadcasting || self.signing.is_some() || !self.reports.is_empty();
        if self.draining {
            if !busy {
                self.over = true;
                step.effects.push(Effect::Release);
            }
            return;
        }
        let line = &self.line;
        let in_line = !line.waiting.is_empty() || line.look || line.may_have_more();
        let surveying = self.surveys.is_under_way() || self.surveys.has_found();
        let idle = !busy
            && !surveying
            && !in_line
            && self.slots.is_empty()
            && self.commands.is_empty()
            && self.protect.is_none();
        if !idle || self.regressed || self.purse.is_reading() {
            self.idle_since = None;
            return;
        }
        let since = *self.idle_since.get_or_insert(now);
        let over_at = since.saturating_add(self.setup.limits.idle_linger);
        if self.line.peeking {
            // Its answer decides.
        } else if now >= over_at {
            self.over = true;
            step.effects.push(Effect::Release);
        } else {
            step.wake(over_at);
        }
    }
}

impl Step {
    pub(super) fn wake(&mut self, at: Tick) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }
}

fn with(surcharge: Amount, cost: Amount) -> Amount {
    Amount::new(cost.get().saturating_add(surcharge.get()))
}

/// The first stage of a candidate: decided by the caller, or asked for.
fn prepare(candidate: &Candidate, now: Tick, requests: &mut Vec<PrepareRequest>) -> Stage {
    if let Some(prepared) = candidate.decided() {
        return Stage::Ready { prepared, at: now };
    }
    // Who signs by itself only waits for its turn.
    let Some(call) = candidate.call() else { return Stage::Waiting };
    let key = PrepareKey::Intent(candidate.tx.id, candidate.tx.version);
    requests.push(PrepareRequest { key, call: call.clone(), speed: candidate.tx.intent.speed() });
    Stage::Asked
}
