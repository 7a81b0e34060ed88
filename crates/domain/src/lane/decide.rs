//! Decides what to begin next: everything that is possible now and not in flight.

use std::time::Duration;

use crate::amount::Amount;
use crate::attempt::AttemptKind;
use crate::command::CommandKind;
use crate::cursor::Cursor;
use crate::mistakes::{self, Mistake};
use crate::nonce::Nonce;
use crate::payload::EvmCall;
use crate::policy::OnShortage;
use crate::signing::{SignedTx, TxPlan, worst_cost};
use crate::state::FailReason;
use crate::text::NodeText;
use crate::time::Tick;

use super::bumping::above_cap;
use super::effect::{Effect, Outgoing, PrepareRequest, SignRequest, Step};
use super::fact::{PrepareKey, Prepared, SignFailure};
use super::open_slot::{NextAttempt, OpenSlot, Sending};
use super::pending_commit::PendingCommit;
use super::queue::{Candidate, Stage};
use super::replacing::{PriceError, price_too_low};
use super::{Lane, SignedItem, Signing, UnsignedAttempt};

/// A queue with enough candidates is read at every this many-th interval; at the others, the lane reads only its
/// commands.
const FULL_QUEUE_PEEK_EVERY: u32 = 5;

impl Lane {
    pub(super) fn decide(&mut self, now: Tick) -> Step {
        let mut step = Step { effects: std::mem::take(&mut self.effects), wake_at: None };
        if self.over {
            return step;
        }
        self.plan_account(now, &mut step);
        self.plan_scan(now, &mut step);
        self.plan_peek(now, &mut step);
        self.plan_prepare(now, &mut step);
        self.plan_sign(now, &mut step);
        self.plan_commit(now, &mut step);
        if std::mem::take(&mut self.prepare_again) {
            self.plan_prepare(now, &mut step);
        }
        self.plan_broadcast(now, &mut step);
        self.plan_decisions(now, &mut step);
        self.plan_end(now, &mut step);
        step
    }

    /// True if the lane may begin work for intents that have no nonce yet.
    pub(super) fn may_bind(&self) -> bool {
        let open = self.cursor.as_ref().is_some_and(|cursor| !cursor.is_protected() && !cursor.paused);
        let stops =
            |kind: &CommandKind| matches!(kind, CommandKind::Pause | CommandKind::Resync { dry_run: false, .. });
        let stopping = self.commands.iter().any(|command| stops(&command.kind));
        open && !stopping
            && !self.regressed
            && !self.draining
            && self.protect.is_none()
            && self.funds.account.is_some()
            && self.funds.ahead_reads == 0
            && self.funds.behind_reads == 0
            && self.slots.short().is_empty()
            && !self.has_finality_violation()
    }

    /// Number of nonces that may be bound now.
    fn free(&self) -> usize {
        if !self.may_bind() {
            return 0;
        }
        let planned = self.binds_under_way();
        let room = self.setup.limits.open_slots.saturating_sub(self.slots.len() + planned);
        self.window_left().saturating_sub(planned).min(room)
    }

    /// Number of nonces that the window has left.
    pub(super) fn window_left(&self) -> usize {
        self.window().saturating_sub(self.in_flight())
    }

    fn window(&self) -> usize {
        if mistakes::made(Mistake::WindowIgnored) {
            return usize::MAX;
        }
        let policy = &self.setup.policy.nonce;
        let delegated = self.funds.account.is_some_and(|account| account.delegated);
        let most =
            if delegated { policy.delegated_max_in_flight.min(policy.max_in_flight) } else { policy.max_in_flight };
        usize::from(most)
    }

    /// Number of nonces that are assigned in memory and not yet durable.
    pub(super) fn binds_under_way(&self) -> usize {
        let signing = self.signing.iter().flatten().filter(|item| item.candidate.is_some()).count();
        let signed = self.signed.iter().filter(|item| item.candidate.is_some()).count();
        let pending = self.pending_commit.as_ref().map_or(0, |pending| pending.binds());
        signing + signed + pending
    }

    /// Bytes of attempts that are signed or at the signer, and not in a slot yet.
    fn bytes_under_way(&self) -> usize {
        let data = |item: &Signing| Some(item.candidate.as_ref()?.call()?.data.len());
        let signing = self.signing.iter().flatten().filter_map(data).sum::<usize>();
        signing + self.pending_commit.as_ref().map_or(0, PendingCommit::bytes)
    }

    fn plan_account(&mut self, now: Tick, step: &mut Step) {
        // A command needs a cursor, and a new cursor needs the account's nonce.
        let has_work = !self.slots.is_empty()
            || self.binds_under_way() > 0
            || !self.queue.candidates.is_empty()
            || (self.cursor.is_none() && !self.commands.is_empty())
            || self.reconcile_commands().next().is_some();
        if !has_work || self.draining {
            return;
        }
        if self.funds.is_due(now) {
            let planned = self.signed.iter().map(|item| item.cost);
            let signing = self.signing.iter().flatten().map(|item| item.attempt.cost);
            let pending = self.pending_commit.iter().flat_map(|pending| pending.costs());
            let open = self.slots.unmined().iter().filter_map(|nonce| self.slots.get(*nonce)).map(OpenSlot::cost);
            let total = open
                .chain(planned)
                .chain(signing)
                .chain(pending)
                .fold(Amount::ZERO, |sum, cost| Amount::new(sum.get().saturating_add(cost.get())));
            self.funds.begin(total);
            step.effects.push(Effect::ReadAccount);
        } else if let Some(at) = self.funds.next_read() {
            step.wake(at);
        }
    }

    fn plan_peek(&mut self, now: Tick, step: &mut Step) {
        if self.queue.peeking || self.draining {
            return;
        }
        let never = Duration::from_secs(365 * 86_400);
        let pause = if mistakes::made(Mistake::LostWakeup) { never } else { self.setup.limits.look_interval };
        let again_at = self.queue.last_peek_at.saturating_add(pause);
        let batch = self.setup.limits.batch.max(8);
        let ahead = usize::from(self.setup.policy.nonce.max_in_flight).saturating_mul(2).clamp(8, batch);
        // A scan compares queued intents with foreign transactions, and needs more of the queue.
        let ahead = if self.compares_queue() { ahead.max(self.setup.limits.adopt) } else { ahead };
        let is_filled = self.queue.candidates.len() >= self.free().clamp(1, ahead);
        let low = self.queue.may_have_more() && !is_filled;
        // A failed peek is repeated after a pause.
        let retry_at = self.queue.peek_began_at.saturating_add(self.setup.limits.retry);
        let may_retry = !self.queue.last_peek_failed || now >= retry_at;
        // Intents whose bind has not committed are still QUEUED in the store. Peek at most once per commit, or they are
        // read again and again.
        let peeked_during_commit = self.pending_commit.is_some()
            && self.queue.peeked_since_commit_began
            && self.queue.was_read
            && !self.compares_queue();
        // New intents wait behind the candidates, so only commands matter. A lane at its limit is woken for every
        // accepted intent, and must not read its whole queue each time.
        let has_enough_candidates = is_filled && self.queue.was_read && !self.compares_queue();
        // A candidate may be canceled in the store at any time. This matters most for the front, if the others wait for
        // it.
        let is_stale = now >= self.queue.last_read_at.saturating_add(pause.saturating_mul(FULL_QUEUE_PEEK_EVERY));
        let front_is_backing_off = self.queue.first().is_some_and(|first| matches!(first.stage, Stage::Later(_)));
        let is_late = now >= again_at;
        let reads_by_clock = is_late && (!has_enough_candidates || is_stale || front_is_backing_off);
        let wanted = low || (self.queue.peek_wanted && !has_enough_candidates);
        let mut without = Vec::new();
        if reads_by_clock || (may_retry && (self.queue.must_peek || (wanted && !peeked_during_commit))) {
            // Intents that are leaving the queue may still be first in it.
            without = self.ids_leaving().collect();
            self.peek_limit = u32::try_from(ahead).unwrap_or(u32::MAX);
            self.queue.begin_peek(now, without.iter().copied().collect());
        } else if is_late || (may_retry && self.queue.peek_wanted) {
            self.peek_limit = 0;
            self.queue.begin_command_poll(now);
            if is_late {
                self.queue.last_peek_at = now;
            }
        } else {
            let is_due = self.queue.peek_wanted || self.queue.must_peek || (low && !peeked_during_commit);
            step.wake(if is_due { retry_at.min(again_at) } else { again_at });
            return;
        }
        self.commands_done.clear();
        step.effects.push(Effect::Peek { limit: self.peek_limit, without });
    }

    fn plan_prepare(&mut self, now: Tick, step: &mut Step) {
        self.queue.fail_expired(self.database_now(now));
        let free = self.free();
        let price_age = self.setup.limits.price_age;
        let mut requests = Vec::new();
        let mut next_try: Option<Tick> = None;
        let mut front = self.queue.candidates.iter_mut().filter(|candidate| !candidate.is_failing());
        for candidate in front.by_ref().take(free) {
            match candidate.stage {
                Stage::Later(at) if at <= now => candidate.stage = Stage::Waiting,
                Stage::Later(at) => next_try = Some(next_try.map_or(at, |other| other.min(at))),
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
        let reserves_next = self.reservation_is_next();
        for nonce in self.slots.needing_attempt() {
            if requests.len() >= self.setup.limits.batch {
                break;
            }
            let Some(slot) = self.slots.get(nonce).filter(|slot| !(reserves_next && slot.is_recyclable())) else {
                continue;
            };
            let due = match slot.next_attempt {
                NextAttempt::None => slot.needs_attempt(),
                NextAttempt::Later(at) if at <= now => true,
                NextAttempt::Later(at) => {
                    next_try = Some(next_try.map_or(at, |other| other.min(at)));
                    false
                }
                NextAttempt::Pricing | NextAttempt::Ready(_) | NextAttempt::Signing => false,
            };
            if due {
                let (call, _) = self.call_of_next_attempt(slot);
                let speed = slot.tx.as_ref().map_or(crate::intent::Speed::Standard, |tx| tx.intent.speed());
                let ticket = slot.ticket.wrapping_add(1);
                requests.push(PrepareRequest { key: PrepareKey::Slot(nonce, ticket), call, speed });
                self.slots.update(nonce, |slot| (slot.next_attempt, slot.ticket) = (NextAttempt::Pricing, ticket));
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
        let mut items = self.attempts_to_sign(now);
        if let Some(cursor) = self.cursor.clone() {
            self.binds_to_sign(&cursor, &mut items);
        }
        // The candidate that was too dear may have left the queue.
        if self.funds.is_short && !self.queue.candidates.is_empty() {
            self.funds.read_by(now.saturating_add(self.setup.limits.prepare_retry));
            self.funds.next_read().into_iter().for_each(|at| step.wake(at));
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
            let Some(index) = self.queue.first_index() else { return };
            let Some(candidate) = self.queue.candidates.get(index) else { return };
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
            if !self.funds.try_spend(cost) {
                let alone = self.slots.unmined().is_empty() && under_way == 0;
                if self.setup.policy.funds.on_shortage == OnShortage::Fail && self.funds.is_fresh && alone {
                    let budget = self.funds.budget;
                    let text = format!("the transaction may cost {cost} wei, and the account has {budget} wei");
                    self.queue.set_stage(index, Stage::Failing(FailReason::InsufficientFunds, NodeText::new(&text)));
                    continue;
                }
                if self.funds.is_fresh {
                    self.funds.unaffordable_cost = Some(cost);
                }
                return;
            }
            let Some(candidate) = self.queue.take(index) else { return };
            let is_replaced = candidate.tx.replacement.is_some();
            let kind = if is_replaced { AttemptKind::Replace } else { AttemptKind::Original };
            let Prepared { gas_limit, fees, .. } = prepared;
            let attempt = UnsignedAttempt { nonce, ordinal: 0, kind, fees, gas_limit, cost, requested_by: None };
            let request = self.request(attempt, call, prepared.gas_limit);
            items.push((Signing { candidate: Some(candidate), attempt }, request));
            next = nonce.next().ok();
            free -= 1;
        }
    }

    fn attempts_to_sign(&mut self, now: Tick) -> Vec<(Signing, SignRequest)> {
        let retry = now.saturating_add(self.setup.limits.prepare_retry);
        let mut items = Vec::new();
        let reserves_next = self.reservation_is_next();
        for nonce in self.slots.needing_attempt() {
            if items.len() >= self.setup.limits.batch {
                break;
            }
            let Some(slot) = self.slots.get(nonce).filter(|slot| !(reserves_next && slot.is_recyclable())) else {
                continue;
            };
            let NextAttempt::Ready(prepared) = slot.next_attempt else { continue };
            let (call, kind) = self.call_of_next_attempt(slot);
            let fees = match self.offer(slot, &call, kind, &prepared) {
                Ok(fees) => fees,
                Err(PriceError::TooLow(least)) => {
                    self.no_attempt(nonce, price_too_low(least), retry);
                    continue;
                }
                Err(PriceError::AboveCap(cap)) => {
                    let text = above_cap(prepared.fees.highest_price(), cap);
                    self.above_cap = Some(text.clone());
                    self.no_attempt(nonce, text, retry);
                    continue;
                }
            };
            if Self::exists(slot, kind, fees, prepared.gas_limit) {
                self.no_attempt(nonce, "an attempt with this price exists and is sent again".to_owned(), retry);
                self.slots.update(nonce, |slot| {
                    slot.bump_reason = None;
                    if matches!(slot.sending, Sending::Due { .. } | Sending::Idle) {
                        slot.sending = Sending::Due { at: now, claim: false };
                    }
                });
                continue;
            }
            let cost = with(prepared.surcharge, worst_cost(call.value, prepared.gas_limit, fees));
            let requested_by = slot.requested.as_ref().map(|requested| requested.by);
            let (ordinal, gas_limit) = (slot.next_ordinal(), prepared.gas_limit);
            let attempt = UnsignedAttempt { nonce, ordinal, kind, fees, gas_limit, cost, requested_by };
            // A filler is made in any case, and waits for funds like any other attempt.
            let more = Amount::new(cost.get().saturating_sub(slot.cost().get()));
            let can_tell = self.funds.account.is_some() && self.funds.is_fresh;
            if kind.carries_payload() && more > self.funds.budget && requested_by.is_some() && !can_tell {
                self.funds.read_soon();
                self.slots.update(nonce, |slot| slot.next_attempt = NextAttempt::Later(retry));
                continue;
            }
            if kind.carries_payload() && more > self.funds.budget {
                let left = self.funds.budget;
                let text = format!("the attempt may cost {more} wei more, and the account has {left} wei left");
                self.no_attempt(nonce, text, retry);
                continue;
            }
            if kind.carries_payload() && call.fees.is_none() {
                self.above_cap = None;
            }
            self.funds.spend_unchecked(more);
            let request = self.request(attempt, call, prepared.gas_limit);
            items.push((Signing { candidate: None, attempt }, request));
            self.slots.update(nonce, |slot| slot.next_attempt = NextAttempt::Signing);
        }
        items
    }

    fn request(&self, attempt: UnsignedAttempt, call: EvmCall, gas_limit: u64) -> SignRequest {
        let submitter = self.lease.submitter().clone();
        SignRequest {
            kind: attempt.kind,
            plan: TxPlan { submitter, nonce: attempt.nonce, call, gas_limit, fees: attempt.fees },
        }
    }

    /// Takes the signed attempts. Nonces are bound in order, so a bind behind one that was not signed is dropped unsent
    /// and planned again.
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
                    let UnsignedAttempt { gas_limit, cost, requested_by, .. } = attempt;
                    self.signed.push(SignedItem {
                        candidate,
                        attempt: attempt.with(signed),
                        gas_limit,
                        cost,
                        requested_by,
                    });
                }
                (None, Err(failure)) => {
                    let retry = now.saturating_add(self.setup.limits.resend_first);
                    let is_only_a_bump = self.slots.get(attempt.nonce).is_some_and(OpenSlot::is_only_a_bump);
                    match failure {
                        SignFailure::Refused(text) => self.no_attempt(attempt.nonce, text.to_string(), retry),
                        SignFailure::Unavailable(text) if is_only_a_bump => {
                            self.no_attempt(attempt.nonce, text.to_string(), retry);
                        }
                        SignFailure::Unavailable(_) => {
                            self.slots.update(attempt.nonce, |slot| slot.next_attempt = NextAttempt::Later(retry));
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
        self.sign_failures = if failed { self.sign_failures.saturating_add(1) } else { 0 };
        if failed {
            self.sign_after = now.saturating_add(self.pace().after_failures(self.sign_failures));
            self.funds.read_soon();
        }
    }

    fn plan_broadcast(&mut self, now: Tick, step: &mut Step) {
        if self.broadcasting || self.draining {
            return;
        }
        let mut outgoing = Vec::new();
        let database_now = self.database_now(now);
        for nonce in self.slots.to_send(now) {
            let is_sendable = |slot: &&OpenSlot| slot.is_due(now) && slot.is_in_time(database_now);
            let Some(slot) = self.slots.get(nonce).filter(is_sendable) else { continue };
            let Some(wanted) = slot.wanted().filter(|_| !self.unreplicated) else { continue };
            let tx = SignedTx { hash: wanted.hash, raw: wanted.raw.clone() };
            self.slots.update(nonce, |slot| slot.mark_sending(tx.hash));
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
        let is_sendable = |slot: &OpenSlot| slot.is_due(now) && slot.is_in_time(database_now);
        let due = |nonce: &Nonce| self.slots.get(*nonce).is_some_and(is_sendable);
        !self.draining && self.slots.to_send(now).iter().any(due)
    }

    fn plan_end(&mut self, now: Tick, step: &mut Step) {
        let busy =
            self.pending_commit.is_some() || self.broadcasting || self.signing.is_some() || !self.reports.is_empty();
        if self.draining {
            if !busy {
                self.over = true;
                step.effects.push(Effect::Release);
            }
            return;
        }
        let line = &self.queue;
        let has_candidates = !line.candidates.is_empty() || line.peek_wanted || line.may_have_more();
        let scanning = self.scans.is_under_way() || self.scans.has_found();
        let idle = !busy
            && !scanning
            && !has_candidates
            && self.slots.is_empty()
            && self.commands.is_empty()
            && self.protect.is_none();
        if !idle || self.regressed || self.funds.is_reading() {
            self.idle_since = None;
            return;
        }
        let since = *self.idle_since.get_or_insert(now);
        let over_at = since.saturating_add(self.setup.limits.idle_linger);
        if self.queue.peeking {
            // The answer to the peek decides.
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

/// The first stage of a candidate: ready if the caller set gas limit and price, otherwise a prepare request.
fn prepare(candidate: &Candidate, now: Tick, requests: &mut Vec<PrepareRequest>) -> Stage {
    if let Some(prepared) = candidate.decided() {
        return Stage::Ready { prepared, at: now };
    }
    // A reservation needs no price.
    let Some(call) = candidate.call() else { return Stage::Waiting };
    let key = PrepareKey::Intent(candidate.tx.id, candidate.tx.version);
    requests.push(PrepareRequest { key, call: call.clone(), speed: candidate.tx.intent.speed() });
    Stage::Pricing
}
