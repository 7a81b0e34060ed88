//! The one commit under way: what goes into it, and what becomes of it.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use crate::amount::Amount;
use crate::attempt::{AttemptKind, NewAttempt, SendReport};
use crate::bidding::enough;
use crate::block::BlockRef;
use crate::command::CommandId;
use crate::cursor::{Cursor, ProtectCode, Protection};
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::ledger::{CommitError, LaneCommit};
use crate::mistakes::{self, Mistake};
use crate::nonce::Nonce;
use crate::reservation::ReservationStep;
use crate::slot::SlotKind;
use crate::state::Goal;
use crate::text::NodeText;
use crate::time::{Tick, Timestamp};
use crate::transition::{IllegalTransition, Transition};

use super::effect::{Effect, Step, Watched};
use super::fact::CommitOutcome;
use super::lending::{Lending, Loan};
use super::line::{Candidate, Stage};
use super::open_slot::{OpenSlot, Remedy, Sending};
use super::raising::Claimed;
use super::recovery::Recovered;
use super::start::never_begun;
use super::stuck::Deciding;
use super::{Lane, SignedItem, newest};

/// What was handed to the store, kept until it has answered: to be taken for true, or to be planned again.
#[derive(Debug, Default)]
pub(super) struct Writing {
    cursor: Option<Cursor>,
    /// What its slots are bound above.
    above: Option<BlockRef>,
    /// Intents of slots, as they will be.
    pub(super) changed: BTreeMap<Nonce, Box<IntentRecord>>,
    pub(super) doomed: Vec<Candidate>,
    pub(super) items: Vec<SignedItem>,
    /// Nonces that are being lent.
    pub(super) loans: Vec<Loan>,
    /// Transactions that callers gave for theirs. Not given back: the command that brought one is executed again.
    pub(super) given: Vec<(NewAttempt, Amount)>,
    /// Lent nonces that come back without one.
    pub(super) taken_back: Vec<Nonce>,
    reports: Vec<SendReport>,
    pub(super) claims: Vec<Claimed>,
    /// Those in line that ask for something else now: as they were, and as they will be.
    pub(super) replaced: Vec<(Candidate, Box<IntentRecord>)>,
    pub(super) decided: Vec<(Nonce, Deciding)>,
    pub(super) told_above_cap: Option<bool>,
    pub(super) commands: Vec<CommandId>,
    pub(super) recovered: Recovered,
    protect: Option<Protection>,
    acknowledges_regression: bool,
}

impl Writing {
    pub(super) fn binds(&self) -> usize {
        let signed = self.items.iter().filter(|item| item.candidate.is_some()).count();
        signed + self.loans.iter().filter(|loan| loan.is_fresh).count()
    }

    pub(super) fn bytes(&self) -> usize {
        let given = self.given.iter().map(|(attempt, _)| attempt);
        self.items.iter().map(|item| &item.attempt).chain(given).map(|attempt| attempt.raw.len()).sum()
    }

    pub(super) fn costs(&self) -> impl Iterator<Item = Amount> {
        self.items.iter().map(|item| item.cost).chain(self.given.iter().map(|(_, cost)| *cost))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = TxId> {
        let binds = self.items.iter().filter_map(|item| Some(item.candidate.as_ref()?.tx.id));
        let lent = self.loans.iter().map(|loan| &loan.candidate);
        let adopted = self.recovered.taken_ids();
        let replaced = self.replaced.iter().map(|(candidate, _)| candidate);
        let others = self.doomed.iter().chain(lent).chain(replaced);
        binds.chain(adopted).chain(others.map(|candidate| candidate.tx.id))
    }
}

impl Lane {
    pub(super) fn plan_commit(&mut self, now: Tick, step: &mut Step) {
        if self.writing.is_some() {
            return;
        }
        if now < self.write_after {
            step.wake(self.write_after);
            return;
        }
        let mut commit = LaneCommit::new(&self.lease);
        let mut writing = Writing::default();
        let filled = if self.regressed {
            self.acknowledge_regression(&mut commit, &mut writing)
        } else {
            self.fill_commit(now, &mut commit, &mut writing, step)
        };
        if let Err(error) = filled {
            // A defect of ours, not of the data: nothing of this commit is written, and people are told.
            step.effects.push(Effect::Notice { nonce: None, text: NodeText::new(&format!("cannot write: {error}")) });
            self.give_back(writing);
            self.write_after = now.saturating_add(self.setup.limits.resend_longest);
            step.wake(self.write_after);
            return;
        }
        if commit.is_empty() {
            self.give_back(writing);
            return;
        }
        if mistakes::made(Mistake::SendBeforeCommit) && !writing.items.is_empty() {
            step.effects.push(Effect::Broadcast(writing.items.iter().map(SignedItem::outgoing).collect()));
        }
        writing.cursor = commit.cursor().map(|change| change.to().clone());
        self.writing = Some(writing);
        self.line.has_looked = false;
        step.effects.push(Effect::Commit(Box::new(commit)));
    }

    fn acknowledge_regression(&mut self, commit: &mut LaneCommit, writing: &mut Writing) -> Result<(), CommitError> {
        let cursor = self.cursor.get_or_insert_with(|| never_begun(&self.setup));
        let detail =
            NodeText::new("the database lost commits, or was restored; what was sent since has to be reconciled");
        commit.protect(cursor, Protection { code: ProtectCode::StoreRegressed, detail })?;
        writing.acknowledges_regression = true;
        Ok(())
    }

    fn fill_commit(
        &mut self,
        now: Tick,
        commit: &mut LaneCommit,
        writing: &mut Writing,
        step: &mut Step,
    ) -> Result<(), CommitError> {
        writing.above = self.purse.account.and_then(|account| account.final_block);
        commit.bind_above(writing.above);
        self.write_ended_loans(now, commit, writing)?;
        if let Some(cursor) = self.cursor.clone() {
            self.write_recovery(&cursor, self.database_now(now), commit, writing)?;
            #[cfg(feature = "mistakes")]
            self.lose_by_mistake(commit, writing)?;
            self.settle_loans(commit, writing);
        }
        self.write_changes(commit, writing)?;
        self.write_expired(now, commit, writing, step)?;
        self.write_doomed(commit, writing)?;
        for report in self.reports.drain(..) {
            commit.report(report.clone());
            writing.reports.push(report);
        }
        let Some(cursor) = self.cursor.clone() else { return Ok(()) };
        self.write_commands(now, &cursor, commit, writing)?;
        if let Some(protection) = self.protect.take() {
            commit.protect(&cursor, protection.clone())?;
            writing.protect = Some(protection);
        }
        if let Some((low, text)) = self.balance_news(&cursor) {
            commit.set_low_balance(&cursor, low, NodeText::new(&text))?;
        }
        self.write_signed(&cursor, commit, writing)?;
        self.write_loans(&cursor, commit, writing)?;
        self.write_decisions(now, &cursor, commit, writing)?;
        self.write_claims(now, &cursor, commit, writing, step)?;
        self.write_fee_news(&cursor, commit, writing)?;
        self.write_closed(&cursor, commit, writing)?;
        if commit.is_empty() && self.unreplicated && self.has_something_to_send(now) {
            // Nothing to say; but only a commit that is replicated lets the sends go out.
            commit.set_in_flight(&cursor, !self.slots.is_empty())?;
        }
        if commit.cursor().is_some()
            && let Some(account) = self.purse.account
            && let Some(finalized) = account.finalized
            && finalized >= cursor.final_nonce
            && finalized <= cursor.next_nonce
        {
            commit.observe_counts(&cursor, account.latest, finalized)?;
        }
        Ok(())
    }

    fn write_changes(&mut self, commit: &mut LaneCommit, writing: &mut Writing) -> Result<(), IllegalTransition> {
        let may_end = self.may_end();
        let most = self.setup.policy.confirmations.required;
        let tail = self.chain.as_ref().map(|chain| &chain.tail);
        let mut still_dirty = BTreeSet::new();
        for nonce in &self.dirty {
            let steps = self.slots.update(*nonce, |slot| {
                let steps = slot.due_transitions(may_end, tail, most);
                slot.tell = false;
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
            writing.changed.insert(*nonce, tx);
        }
        self.dirty = still_dirty;
        Ok(())
    }

    fn write_doomed(&mut self, commit: &mut LaneCommit, writing: &mut Writing) -> Result<(), IllegalTransition> {
        if !self.slots.unmined().is_empty() {
            // Since it was found to revert, an earlier one was orphaned (S19).
            self.line.doubt_reverts();
        }
        if !self.line.has_doomed() || self.cursor.as_ref().is_some_and(|cursor| cursor.state.is_store_regressed()) {
            return Ok(());
        }
        for candidate in self.line.take_doomed() {
            if let Stage::Doomed(reason, text) = &candidate.stage {
                commit.change(candidate.tx.change(Transition::FailInQueue(*reason, text.clone()))?);
            }
            writing.doomed.push(candidate);
        }
        Ok(())
    }

    /// Binds, and other attempts of slots. A lane that stops, or is paused, in this very commit binds nothing; and what was
    /// mined when it was signed may be orphaned by now, so the window is measured once more (N12).
    fn write_signed(
        &mut self,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        let mut room = self.window_left();
        let (binds, mut next) = {
            let to = commit.cursor().map_or(cursor, |change| change.to());
            (!to.is_protected() && !to.paused && self.may_bind(), to.next_nonce)
        };
        let mut remedied = BTreeSet::new();
        let mut signed = VecDeque::from(std::mem::take(&mut self.signed));
        while let Some(item) = signed.pop_front() {
            let is_next = |candidate: &Candidate| self.line.first().is_none_or(|first| candidate.tx.seq < first.tx.seq);
            match &item.candidate {
                // What was signed behind one that is in line again has the wrong nonce (N11).
                Some(candidate) if binds && room > 0 && item.attempt.nonce == next && is_next(candidate) => {
                    if let Err(error) = commit.bind(cursor, &candidate.tx, item.attempt.clone()) {
                        self.unplan(item);
                        self.signed.extend(signed);
                        return Err(error);
                    }
                    room -= 1;
                    next = next.next()?;
                    writing.items.push(item);
                }
                Some(_) => self.unplan(item),
                // One attempt for a slot at a time.
                None if !remedied.insert(item.attempt.nonce) => {}
                None if self.still_needs(&item, writing) => {
                    let nonce = item.attempt.nonce;
                    if self.slots.get(nonce).is_some_and(OpenSlot::is_recyclable) {
                        commit.reservation(ReservationStep::Fill { nonce });
                    }
                    if let Err(error) = self.write_order(&item, commit, writing) {
                        self.slots.update(nonce, |slot| slot.remedy = Remedy::None);
                        self.signed.extend(signed);
                        return Err(error);
                    }
                    commit.attempt(item.attempt.clone());
                    writing.items.push(item);
                }
                None => {
                    let again = self.slots.update(item.attempt.nonce, |slot| {
                        slot.remedy = Remedy::None;
                        slot.needs_another()
                    });
                    self.asks_again |= again == Some(true);
                }
            }
        }
        Ok(())
    }

    /// False if it ended while this was signed, or was explained by something else, or went to a caller, or is about to.
    fn still_needs(&self, item: &SignedItem, writing: &Writing) -> bool {
        let (attempt, lends) = (&item.attempt, self.borrower_is_next());
        let is_ordered = |slot: &OpenSlot| {
            let by = slot.order.as_ref().map(|order| order.by);
            // What was made for nobody's order does not do for this one, and what was ordered is not made for anybody else.
            by == item.ordered_by && by.is_none_or(|by| self.commands.iter().any(|command| command.id == by))
        };
        let needs = |slot: &OpenSlot| slot.needs_another() && !slot.is_over() && !(lends && slot.is_recyclable());
        // What went out since it was priced has to be outbid as well.
        let outbids = |slot: &OpenSlot| enough(attempt.fees, slot.to_outbid().map(|sent| sent.fees)).is_ok();
        let fits = |slot: &OpenSlot| slot.next_ordinal() == attempt.ordinal && needs(slot) && is_ordered(slot);
        // A cancel may have come before it, in this very commit.
        let is_canceled = self.bound_at(attempt.nonce, writing).is_some_and(|(_, bound)| {
            item.ordered_by.is_some() && attempt.kind.carries_payload() && matches!(bound.goal, Goal::Cancel(_))
        });
        self.slots.get(attempt.nonce).is_some_and(|slot| fits(slot) && outbids(slot))
            && !writing.recovered.concerns(attempt.nonce)
            && !is_canceled
    }

    /// Signed bytes are dropped unsent, and no nonce was used: the intent is in line again.
    pub(super) fn unplan(&mut self, item: SignedItem) {
        if let Some(mut candidate) = item.candidate {
            candidate.stage = Stage::Waiting;
            self.line.put_back(candidate);
        }
        self.purse.read_soon();
    }

    /// Closes the lowest slots that have ended, or end with this commit.
    fn write_closed(&mut self, cursor: &Cursor, commit: &mut LaneCommit, writing: &Writing) -> Result<(), CommitError> {
        // A lent nonce that comes back outlives the intent that it was lent to.
        let mut ended: HashSet<Nonce> =
            writing.changed.iter().filter(|(_, tx)| tx.state.name().is_terminal()).map(|(nonce, _)| *nonce).collect();
        ended.retain(|nonce| !writing.taken_back.contains(nonce));
        let mut open = cursor.open_nonce;
        for slot in self.slots.iter() {
            let is_over = slot.is_over() || ended.contains(&slot.nonce) || writing.recovered.has_lost(slot.nonce);
            if slot.nonce != open || !is_over {
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
        let Some(writing) = self.writing.take() else { return };
        match outcome {
            CommitOutcome::Done { at, replicated } => {
                self.write_failures = 0;
                self.write_after = if replicated { now } else { now.saturating_add(self.setup.limits.retry) };
                self.unreplicated = !replicated;
                self.database_time = (at, now);
                self.take_for_true(writing, at, now);
            }
            CommitOutcome::NotWritten => {
                self.write_failures = self.write_failures.saturating_add(1);
                let pause = self.setup.limits.retry.saturating_mul(1 << self.write_failures.min(4));
                self.write_after = now.saturating_add(pause);
                self.give_back(writing);
            }
        }
    }

    fn take_for_true(&mut self, writing: Writing, at: Timestamp, now: Tick) {
        if writing.acknowledges_regression {
            self.regressed = false;
        }
        if let Some(cursor) = writing.cursor {
            self.cursor = Some(cursor);
        }
        self.commands_done.extend(writing.commands.iter().copied());
        self.commands.retain(|command| !writing.commands.contains(&command.id));
        for nonce in writing.taken_back {
            self.slots.update(nonce, |slot| slot.lending = Lending::Recyclable);
        }
        for (nonce, mut tx) in writing.changed {
            tx.updated_at = at;
            self.slots.update(nonce, |slot| {
                slot.tx = Some(tx).filter(|tx| !tx.state.name().is_terminal());
                slot.follow_state(now);
            });
            self.dirty.insert(nonce);
        }
        let mut watched = Vec::new();
        for loan in writing.loans {
            self.take_loan_for_true(loan, writing.above, at);
        }
        for (candidate, mut tx) in writing.replaced {
            tx.updated_at = at;
            self.line.distrust();
            self.line.put_back(Candidate { tx, stage: Stage::Waiting });
            drop(candidate);
        }
        let of_given = |(attempt, cost)| SignedItem { candidate: None, attempt, gas_limit: 0, cost, ordered_by: None };
        let given = writing.given.into_iter().map(of_given);
        let offered: BTreeSet<Nonce> = writing.items.iter().map(|item| item.attempt.nonce).collect();
        for SignedItem { candidate, attempt, gas_limit, cost, ordered_by } in writing.items.into_iter().chain(given) {
            let nonce = attempt.nonce;
            watched.push(Watched { hash: attempt.hash, known: None, look_up: false });
            self.by_hash.insert(attempt.hash, nonce);
            if let Some(Candidate { mut tx, .. }) = candidate {
                let mut slot = OpenSlot::empty(nonce, SlotKind::Intent(tx.id));
                tx.bound(nonce, at);
                slot.tx = Some(tx);
                slot.above = writing.above;
                self.slots.insert(slot);
            }
            self.slots.update(nonce, |slot| {
                if ordered_by.is_some() && attempt.kind == AttemptKind::Replace {
                    slot.payload_was_replaced();
                }
                slot.hold(&attempt, cost, gas_limit, at);
                slot.remedy = Remedy::None;
                // What nodes have said of the one before is not said of this one.
                (slot.pressure, slot.rejected) = (None, false);
                slot.order = slot.order.take().filter(|order| Some(order.by) != ordered_by);
                if ordered_by.is_some() || !attempt.kind.carries_payload() {
                    // Somebody has decided: it is tried anew.
                    slot.tries = 0;
                }
                slot.sending = Sending::Due { at: now, claim: false };
            });
            self.dirty.insert(nonce);
        }
        self.take_recovered(writing.recovered, at, now);
        self.take_claims(writing.claims, &offered, now);
        for (nonce, deciding) in writing.decided {
            self.slots.update(nonce, |slot| slot.decision = deciding);
        }
        self.told_above_cap = writing.told_above_cap.unwrap_or(self.told_above_cap);
        // Registered before the first send, which is planned after this.
        if !watched.is_empty() {
            self.effects.push(Effect::Watch(watched));
        }
        self.close();
    }

    fn close(&mut self) {
        let Some(open) = self.cursor.as_ref().map(|cursor| cursor.open_nonce) else { return };
        let closed = self.slots.close_below(open);
        self.newest_closed = newest(closed.values().filter_map(|slot| slot.mined_in()).chain(self.newest_closed));
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

    /// Nothing was written: everything is as it was, and is planned again.
    fn give_back(&mut self, writing: Writing) {
        self.dirty.extend(writing.changed.keys());
        self.give_back_recovered(writing.recovered);
        let lent = writing.loans.into_iter().map(|loan| loan.candidate);
        for candidate in writing.doomed.into_iter().chain(lent) {
            self.line.put_back(candidate);
        }
        if !writing.given.is_empty() {
            self.purse.read_soon();
        }
        let mut items = writing.items;
        items.append(&mut self.signed);
        self.signed = items;
        let mut reports = writing.reports;
        reports.append(&mut self.reports);
        self.reports = reports;
        for (candidate, _) in writing.replaced {
            self.line.put_back(candidate);
        }
        for Claimed { nonce, .. } in writing.claims {
            self.slots.update(nonce, |slot| {
                if slot.sending == Sending::Claiming {
                    slot.sending = Sending::Due { at: Tick::default(), claim: true };
                }
            });
        }
        if self.protect.is_none() {
            self.protect = writing.protect;
        }
    }
}

/// Why nothing is reconciled with this chain.
pub(super) fn contradicted(broken: &Protection) -> String {
    format!("{}; an operator can accept the chain as it is (`gapless chain accept`)", broken.detail)
}

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
