//! The commit in flight: its content, and its effect on the lane's memory.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use crate::amount::Amount;
use crate::attempt::{AttemptKind, NewAttempt, SendReport};
use crate::bidding::check_replaces;
use crate::block::BlockRef;
use crate::command::CommandId;
use crate::cursor::{Cursor, ProtectCode, Protection};
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::lane_commit::{CommitError, LaneCommit};
use crate::mistakes::{self, Mistake};
use crate::nonce::Nonce;
use crate::reservation::ReservationStep;
use crate::slot::SlotKind;
use crate::state::Goal;
use crate::text::NodeText;
use crate::time::{Tick, Timestamp};
use crate::transition::{IllegalTransition, Transition};

use super::bumping::PendingClaim;
use super::effect::{Effect, Step, WatchRequest};
use super::fact::CommitOutcome;
use super::open_slot::{NextAttempt, OpenSlot, Sending};
use super::queue::{Candidate, Stage};
use super::reconciling::Reconciled;
use super::reservations::{PendingReservation, SlotReservation};
use super::start::never_begun;
use super::stuck::DecisionState;
use super::{Lane, SignedItem, newest_link};

/// Content of the commit in flight, kept until the store has answered: to be applied, or to be rolled back.
#[derive(Debug, Default)]
pub(super) struct PendingCommit {
    cursor: Option<Cursor>,
    /// The new slots are bound above this block.
    above: Option<BlockRef>,
    /// Intents of slots, as the commit leaves them.
    pub(super) changed: BTreeMap<Nonce, Box<IntentRecord>>,
    pub(super) failing: Vec<Candidate>,
    pub(super) items: Vec<SignedItem>,
    /// Nonces that are being reserved.
    pub(super) reservations: Vec<PendingReservation>,
    /// Transactions that callers submitted for reserved nonces. A rollback drops them, because their command is
    /// executed again.
    pub(super) submitted: Vec<(NewAttempt, Amount)>,
    /// Reservations that end without a transaction.
    pub(super) ended_reservations: Vec<Nonce>,
    reports: Vec<SendReport>,
    pub(super) claims: Vec<PendingClaim>,
    /// Candidates whose payload is replaced: before and after the commit.
    pub(super) replaced: Vec<(Candidate, Box<IntentRecord>)>,
    pub(super) decided: Vec<(Nonce, DecisionState)>,
    pub(super) notified_above_cap: Option<bool>,
    pub(super) commands: Vec<CommandId>,
    pub(super) reconciled: Reconciled,
    protect: Option<Protection>,
    acknowledges_regression: bool,
}

impl PendingCommit {
    pub(super) fn binds(&self) -> usize {
        let signed = self.items.iter().filter(|item| item.candidate.is_some()).count();
        signed + self.reservations.iter().filter(|reservation| reservation.is_fresh).count()
    }

    pub(super) fn bytes(&self) -> usize {
        let submitted = self.submitted.iter().map(|(attempt, _)| attempt);
        self.items.iter().map(|item| &item.attempt).chain(submitted).map(|attempt| attempt.raw.len()).sum()
    }

    pub(super) fn costs(&self) -> impl Iterator<Item = Amount> {
        self.items.iter().map(|item| item.cost).chain(self.submitted.iter().map(|(_, cost)| *cost))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = TxId> {
        let binds = self.items.iter().filter_map(|item| Some(item.candidate.as_ref()?.tx.id));
        let reservations = self.reservations.iter().map(|reservation| &reservation.candidate);
        let adopted = self.reconciled.taken_ids();
        let replaced = self.replaced.iter().map(|(candidate, _)| candidate);
        let others = self.failing.iter().chain(reservations).chain(replaced);
        binds.chain(adopted).chain(others.map(|candidate| candidate.tx.id))
    }
}

impl Lane {
    pub(super) fn plan_commit(&mut self, now: Tick, step: &mut Step) {
        if self.pending_commit.is_some() {
            return;
        }
        if now < self.write_after {
            step.wake(self.write_after);
            return;
        }
        let mut commit = LaneCommit::new(&self.lease);
        let mut pending = PendingCommit::default();
        let filled = if self.regressed {
            self.acknowledge_regression(&mut commit, &mut pending)
        } else {
            self.fill_commit(now, &mut commit, &mut pending, step)
        };
        if let Err(error) = filled {
            // A defect of Gapless, not of the data: nothing of this commit is written, and a notice is logged.
            let text = NodeText::new(&format!("cannot build the commit: {error}"));
            step.effects.push(Effect::Notice { nonce: None, text });
            self.roll_back(pending);
            self.write_after = now.saturating_add(self.setup.limits.resend_longest);
            step.wake(self.write_after);
            return;
        }
        if commit.is_empty() {
            self.roll_back(pending);
            return;
        }
        if mistakes::made(Mistake::SendBeforeCommit) && !pending.items.is_empty() {
            step.effects.push(Effect::Broadcast(pending.items.iter().map(SignedItem::outgoing).collect()));
        }
        pending.cursor = commit.cursor().map(|change| change.to().clone());
        self.pending_commit = Some(pending);
        self.queue.peeked_since_commit_began = false;
        step.effects.push(Effect::Commit(Box::new(commit)));
    }

    fn acknowledge_regression(
        &mut self,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        let cursor = self.cursor.get_or_insert_with(|| never_begun(&self.setup));
        let detail = NodeText::new(
            "the database lost commits or was restored; run resync to reconcile the transactions that were sent since",
        );
        commit.protect(cursor, Protection { code: ProtectCode::StoreRegressed, detail })?;
        pending.acknowledges_regression = true;
        Ok(())
    }

    fn fill_commit(
        &mut self,
        now: Tick,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
        step: &mut Step,
    ) -> Result<(), CommitError> {
        pending.above = self.funds.account.and_then(|account| account.final_block);
        commit.bind_above(pending.above);
        self.write_expired_reservations(now, commit, pending)?;
        if let Some(cursor) = self.cursor.clone() {
            self.write_reconciliation(&cursor, self.database_now(now), commit, pending)?;
            #[cfg(feature = "mistakes")]
            self.lose_by_mistake(commit, pending)?;
            self.settle_reservations(commit, pending);
        }
        self.write_changes(commit, pending)?;
        self.write_expired(now, commit, pending, step)?;
        self.write_failing(commit, pending)?;
        for report in self.reports.drain(..) {
            commit.report(report.clone());
            pending.reports.push(report);
        }
        let Some(cursor) = self.cursor.clone() else { return Ok(()) };
        self.write_commands(now, &cursor, commit, pending)?;
        if let Some(protection) = self.protect.take() {
            commit.protect(&cursor, protection.clone())?;
            pending.protect = Some(protection);
        }
        if let Some((low, text)) = self.balance_change(&cursor) {
            commit.set_low_balance(&cursor, low, NodeText::new(&text))?;
        }
        self.write_signed(&cursor, commit, pending)?;
        self.write_reservations(&cursor, commit, pending)?;
        self.write_decisions(now, &cursor, commit, pending)?;
        self.write_claims(now, &cursor, commit, pending, step)?;
        self.write_fee_cap_event(&cursor, commit, pending)?;
        self.write_closed(&cursor, commit, pending)?;
        if commit.is_empty() && self.unreplicated && self.has_something_to_send(now) {
            // There is nothing to write, but sends wait for a replicated commit.
            commit.set_in_flight(&cursor, !self.slots.is_empty())?;
        }
        if commit.cursor().is_some()
            && let Some(account) = self.funds.account
            && let Some(finalized) = account.finalized
            && finalized >= cursor.final_nonce
            && finalized <= cursor.next_nonce
        {
            commit.observe_counts(&cursor, account.latest, finalized)?;
        }
        Ok(())
    }

    fn write_changes(&mut self, commit: &mut LaneCommit, pending: &mut PendingCommit) -> Result<(), IllegalTransition> {
        let may_end = self.may_end();
        let most = self.setup.policy.confirmations.required;
        let tail = self.chain.as_ref().map(|chain| &chain.tail);
        let mut still_dirty = BTreeSet::new();
        for nonce in &self.dirty {
            let steps = self.slots.update(*nonce, |slot| {
                let steps = slot.due_transitions(may_end, tail, most);
                slot.notice_due = false;
                steps
            });
            let Some(slot) = self.slots.get(*nonce) else { continue };
            if slot.is_final() && !may_end {
                still_dirty.insert(*nonce);
            }
            let steps = steps.unwrap_or_default();
            let Some(mut tx) = slot.tx.clone().filter(|_| !steps.is_empty()) else { continue };
            for transition in steps {
                apply(&mut tx, transition, commit)?;
            }
            pending.changed.insert(*nonce, tx);
        }
        self.dirty = still_dirty;
        Ok(())
    }

    fn write_failing(&mut self, commit: &mut LaneCommit, pending: &mut PendingCommit) -> Result<(), IllegalTransition> {
        if !self.slots.unmined().is_empty() {
            // An earlier transaction was orphaned since the simulation reverted (S19).
            self.queue.retry_reverted();
        }
        if !self.queue.has_failing() || self.cursor.as_ref().is_some_and(|cursor| cursor.state.is_store_regressed()) {
            return Ok(());
        }
        for candidate in self.queue.take_failing() {
            if let Stage::Failing(reason, text) = &candidate.stage {
                commit.change(candidate.tx.change(Transition::FailInQueue(*reason, text.clone()))?);
            }
            pending.failing.push(candidate);
        }
        Ok(())
    }

    /// Writes binds and other attempts of slots. A lane that is paused or enters PROTECT in this commit binds nothing.
    /// The window is measured again, because a block may have been orphaned since the signing (N12).
    fn write_signed(
        &mut self,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        let mut room = self.window_left();
        let (binds, mut next) = {
            let to = commit.cursor().map_or(cursor, |change| change.to());
            (!to.is_protected() && !to.paused && self.may_bind(), to.next_nonce)
        };
        let mut attempted = BTreeSet::new();
        let mut signed = VecDeque::from(std::mem::take(&mut self.signed));
        while let Some(item) = signed.pop_front() {
            let is_next =
                |candidate: &Candidate| self.queue.first().is_none_or(|first| candidate.tx.seq < first.tx.seq);
            match &item.candidate {
                // An attempt signed behind a candidate that returned to the queue has the wrong nonce (N11).
                Some(candidate) if binds && room > 0 && item.attempt.nonce == next && is_next(candidate) => {
                    if let Err(error) = commit.bind(cursor, &candidate.tx, item.attempt.clone()) {
                        self.return_to_queue(item);
                        self.signed.extend(signed);
                        return Err(error);
                    }
                    room -= 1;
                    next = next.next()?;
                    pending.items.push(item);
                }
                Some(_) => self.return_to_queue(item),
                // One attempt per slot and commit.
                None if !attempted.insert(item.attempt.nonce) => {}
                None if self.is_still_needed(&item, pending) => {
                    let nonce = item.attempt.nonce;
                    if self.slots.get(nonce).is_some_and(OpenSlot::is_recyclable) {
                        commit.reservation(ReservationStep::Fill { nonce });
                    }
                    if let Err(error) = self.write_requested(&item, commit, pending) {
                        self.slots.update(nonce, |slot| slot.next_attempt = NextAttempt::None);
                        self.signed.extend(signed);
                        return Err(error);
                    }
                    commit.attempt(item.attempt.clone());
                    pending.items.push(item);
                }
                None => {
                    let again = self.slots.update(item.attempt.nonce, |slot| {
                        slot.next_attempt = NextAttempt::None;
                        slot.needs_attempt()
                    });
                    self.prepare_again |= again == Some(true);
                }
            }
        }
        Ok(())
    }

    /// False if the slot ended since the signing, or is otherwise explained, or is reserved or about to be.
    fn is_still_needed(&self, item: &SignedItem, pending: &PendingCommit) -> bool {
        let (attempt, reserves_next) = (&item.attempt, self.reservation_is_next());
        let is_requested = |slot: &OpenSlot| {
            let by = slot.requested.as_ref().map(|requested| requested.by);
            // An attempt serves only the command that requested it.
            by == item.requested_by && by.is_none_or(|by| self.commands.iter().any(|command| command.id == by))
        };
        let needs =
            |slot: &OpenSlot| slot.needs_attempt() && !slot.is_ended() && !(reserves_next && slot.is_recyclable());
        // Attempts that were sent since the pricing must be replaced as well.
        let replaces =
            |slot: &OpenSlot| check_replaces(attempt.fees, slot.attempts_to_replace().map(|sent| sent.fees)).is_ok();
        let fits = |slot: &OpenSlot| slot.next_ordinal() == attempt.ordinal && needs(slot) && is_requested(slot);
        // A cancel command may precede this attempt in the same commit.
        let is_canceled = self.bound_at(attempt.nonce, pending).is_some_and(|(_, bound)| {
            item.requested_by.is_some() && attempt.kind.carries_payload() && matches!(bound.goal, Goal::Cancel(_))
        });
        self.slots.get(attempt.nonce).is_some_and(|slot| fits(slot) && replaces(slot))
            && !pending.reconciled.touches(attempt.nonce)
            && !is_canceled
    }

    /// Drops a signed attempt unsent. No nonce was consumed, and the intent returns to the queue.
    pub(super) fn return_to_queue(&mut self, item: SignedItem) {
        if let Some(mut candidate) = item.candidate {
            candidate.stage = Stage::Waiting;
            self.queue.put_back(candidate);
        }
        self.funds.read_soon();
    }

    /// Closes the lowest slots that have ended, or end with this commit.
    fn write_closed(
        &mut self,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        pending: &PendingCommit,
    ) -> Result<(), CommitError> {
        // A nonce outlives the intent whose reservation ended.
        let mut ended: HashSet<Nonce> =
            pending.changed.iter().filter(|(_, tx)| tx.state.name().is_terminal()).map(|(nonce, _)| *nonce).collect();
        ended.retain(|nonce| !pending.ended_reservations.contains(nonce));
        let mut open = cursor.open_nonce;
        for slot in self.slots.iter() {
            let is_ended = slot.is_ended() || ended.contains(&slot.nonce) || pending.reconciled.has_lost(slot.nonce);
            if slot.nonce != open || !is_ended {
                break;
            }
            open = slot.nonce.next()?;
        }
        if open > cursor.open_nonce {
            commit.close_below(cursor, open)?;
            let next = commit.cursor().map_or(cursor.next_nonce, |change| change.to().next_nonce);
            commit.set_in_flight(cursor, open < next)?;
        }
        Ok(())
    }

    pub(super) fn committed(&mut self, outcome: CommitOutcome, now: Tick) {
        let Some(pending) = self.pending_commit.take() else { return };
        match outcome {
            CommitOutcome::Done { at, replicated } => {
                self.write_failures = 0;
                self.write_after = if replicated { now } else { now.saturating_add(self.setup.limits.retry) };
                self.unreplicated = !replicated;
                self.database_time = (at, now);
                self.apply_committed(pending, at, now);
            }
            CommitOutcome::NotWritten => {
                self.write_failures = self.write_failures.saturating_add(1);
                let pause = self.setup.limits.retry.saturating_mul(1 << self.write_failures.min(4));
                self.write_after = now.saturating_add(pause);
                self.roll_back(pending);
            }
        }
    }

    /// Applies a commit that the store has confirmed.
    fn apply_committed(&mut self, pending: PendingCommit, at: Timestamp, now: Tick) {
        if pending.acknowledges_regression {
            self.regressed = false;
        }
        if let Some(cursor) = pending.cursor {
            self.cursor = Some(cursor);
        }
        self.commands_done.extend(pending.commands.iter().copied());
        self.commands.retain(|command| !pending.commands.contains(&command.id));
        for nonce in pending.ended_reservations {
            self.slots.update(nonce, |slot| slot.reservation = SlotReservation::Recyclable);
        }
        for (nonce, mut tx) in pending.changed {
            tx.updated_at = at;
            self.slots.update(nonce, |slot| {
                slot.tx = Some(tx).filter(|tx| !tx.state.name().is_terminal());
                slot.follow_state(now);
            });
            self.dirty.insert(nonce);
        }
        let mut watched = Vec::new();
        for reservation in pending.reservations {
            self.apply_reservation(reservation, pending.above, at);
        }
        for (candidate, mut tx) in pending.replaced {
            tx.updated_at = at;
            self.queue.ignore_peek_in_flight();
            self.queue.put_back(Candidate { tx, stage: Stage::Waiting });
            drop(candidate);
        }
        let of_submitted =
            |(attempt, cost)| SignedItem { candidate: None, attempt, gas_limit: 0, cost, requested_by: None };
        let submitted = pending.submitted.into_iter().map(of_submitted);
        let offered: BTreeSet<Nonce> = pending.items.iter().map(|item| item.attempt.nonce).collect();
        for SignedItem { candidate, attempt, gas_limit, cost, requested_by } in
            pending.items.into_iter().chain(submitted)
        {
            let nonce = attempt.nonce;
            watched.push(WatchRequest { hash: attempt.hash, known_block: None, look_up: false });
            self.by_hash.insert(attempt.hash, nonce);
            if let Some(Candidate { mut tx, .. }) = candidate {
                let mut slot = OpenSlot::empty(nonce, SlotKind::Intent(tx.id));
                tx.apply_bind(nonce, at);
                slot.tx = Some(tx);
                slot.above = pending.above;
                self.slots.insert(slot);
            }
            self.slots.update(nonce, |slot| {
                if requested_by.is_some() && attempt.kind == AttemptKind::Replace {
                    slot.payload_was_replaced();
                }
                slot.add_attempt(&attempt, cost, gas_limit, at);
                slot.next_attempt = NextAttempt::None;
                // Answers to the previous attempt say nothing about this one.
                (slot.bump_reason, slot.rejected) = (None, false);
                slot.requested = slot.requested.take().filter(|requested| Some(requested.by) != requested_by);
                if requested_by.is_some() || !attempt.kind.carries_payload() {
                    // A decision was taken, so the tries start again.
                    slot.tries = 0;
                }
                slot.sending = Sending::Due { at: now, claim: false };
            });
            self.dirty.insert(nonce);
        }
        self.apply_reconciled(pending.reconciled, at, now);
        self.apply_claims(pending.claims, &offered, now);
        for (nonce, deciding) in pending.decided {
            self.slots.update(nonce, |slot| slot.decision = deciding);
        }
        self.notified_above_cap = pending.notified_above_cap.unwrap_or(self.notified_above_cap);
        // The watch begins before the first send, which is planned after this.
        if !watched.is_empty() {
            self.effects.push(Effect::Watch(watched));
        }
        self.close();
    }

    /// Removes the closed slots.
    fn close(&mut self) {
        let Some(open) = self.cursor.as_ref().map(|cursor| cursor.open_nonce) else { return };
        let closed = self.slots.close_below(open);
        self.newest_closed = newest_link(closed.values().filter_map(|slot| slot.mined_in()).chain(self.newest_closed));
        let hashes: Vec<_> = closed.values().flat_map(|slot| slot.hashes()).collect();
        for hash in &hashes {
            self.by_hash.remove(hash);
        }
        for nonce in closed.keys() {
            self.dirty.remove(nonce);
        }
        if !hashes.is_empty() {
            self.effects.push(Effect::Unwatch(hashes));
        }
    }

    /// Rolls a commit back that was not written: its content is planned again.
    fn roll_back(&mut self, pending: PendingCommit) {
        self.dirty.extend(pending.changed.keys());
        self.roll_back_reconciled(pending.reconciled);
        let reservations = pending.reservations.into_iter().map(|reservation| reservation.candidate);
        for candidate in pending.failing.into_iter().chain(reservations) {
            self.queue.put_back(candidate);
        }
        if !pending.submitted.is_empty() {
            self.funds.read_soon();
        }
        let mut items = pending.items;
        items.append(&mut self.signed);
        self.signed = items;
        let mut reports = pending.reports;
        reports.append(&mut self.reports);
        self.reports = reports;
        for (candidate, _) in pending.replaced {
            self.queue.put_back(candidate);
        }
        for PendingClaim { nonce, .. } in pending.claims {
            self.slots.update(nonce, |slot| {
                if slot.sending == Sending::Claiming {
                    slot.sending = Sending::Due { at: Tick::default(), claim: true };
                }
            });
        }
        if self.protect.is_none() {
            self.protect = pending.protect;
        }
    }
}

/// Refusal of reconciliation while the chain has a finality violation.
pub(super) fn finality_violation_text(violation: &Protection) -> String {
    format!("{}; to accept the chain as it is, run `gapless chain accept`", violation.detail)
}

/// Applies a transition to a record and adds the change to the commit.
pub(super) fn apply(
    tx: &mut IntentRecord,
    transition: Transition,
    commit: &mut LaneCommit,
) -> Result<(), IllegalTransition> {
    let change = tx.change(transition)?;
    tx.apply(&change, tx.updated_at);
    commit.change(change);
    Ok(())
}
