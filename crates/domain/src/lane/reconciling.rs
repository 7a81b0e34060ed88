//! Reconciling: carries out the changes that a scan calls for, by command or by policy.
//!
//! Reconciling never lowers a nonce, and never moves an intent whose nonce is not finally consumed by another
//! transaction. Nonces of foreign transactions are adopted with their evidence. A transaction that matches one of our
//! intents is assigned to it, so that the intent is not sent a second time.

use std::collections::HashSet;

use crate::attempt::{AttemptKind, NewAttempt};
use crate::audit::NewAudit;
use crate::block::BlockRef;
use crate::command::{Command, CommandKind, CommandResult, LostRule};
use crate::cursor::{Cursor, LaneState, ProtectCode};
use crate::event::LaneEventKind;
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::lane_commit::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::payload::Payload;
use crate::signing::Outline;
use crate::slot::SlotKind;
use crate::text::{CommandReport, NodeText};
use crate::time::{Tick, Timestamp};

use super::Lane;
use super::effect::{Effect, WatchRequest};
use super::fact::ScannedTx;
use super::open_slot::{OpenSlot, Sending};
use super::pending_commit::PendingCommit;
use super::queue::{Candidate, Stage};
use super::reconcile_plan::{Adoption, Attachment, Lost, ReconcilePlan, carries};
use super::scanning::ScanFindings;

/// Reconciliation in the commit in flight, to be applied once the commit is durable.
#[derive(Debug, Default)]
pub(super) struct Reconciled {
    found: Option<ScanFindings>,
    pub(super) attached: Vec<(NewAttempt, Outline)>,
    pub(super) lost: Vec<(Nonce, Option<IntentRecord>)>,
    adopted: Vec<Adopted>,
    /// Candidates whose intents were found on chain.
    taken: Vec<Candidate>,
}

/// An adopted nonce.
#[derive(Debug)]
struct Adopted {
    nonce: Nonce,
    /// The intent that the transaction belongs to.
    of: Option<FoundIntent>,
}

/// An intent that was found on chain.
#[derive(Debug)]
struct FoundIntent {
    tx: IntentRecord,
    attempt: NewAttempt,
    outline: Outline,
    above: Option<BlockRef>,
}

impl Reconciled {
    /// True if existing slots change.
    pub(super) fn changes_slots(&self) -> bool {
        !(self.attached.is_empty() && self.lost.is_empty() && self.adopted.is_empty())
    }

    /// Intents that leave the queue.
    pub(super) fn taken_ids(&self) -> impl Iterator<Item = TxId> {
        self.taken.iter().map(|candidate| candidate.tx.id)
    }

    pub(super) fn has_lost(&self, nonce: Nonce) -> bool {
        self.lost.iter().any(|(lost, _)| *lost == nonce)
    }

    pub(super) fn touches(&self, nonce: Nonce) -> bool {
        let attached = self.attached.iter().any(|(attempt, _)| attempt.nonce == nonce);
        attached || self.has_lost(nonce)
    }
}

impl Lane {
    /// Uses the newest scan, if there is one.
    pub(super) fn write_reconciliation(
        &mut self,
        cursor: &Cursor,
        at: Timestamp,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        let Some(found) = self.scans.take_found() else { return Ok(()) };
        // Intents that are signed or at the signer are still queued: foreign transactions may match them.
        if self.signing.iter().flatten().any(|item| item.candidate.is_some()) {
            self.scans.put_back(found);
            return Ok(());
        }
        let signed = std::mem::take(&mut self.signed).into_iter();
        let (binds, others): (Vec<_>, Vec<_>) = signed.partition(|item| item.candidate.is_some());
        self.signed = others;
        binds.into_iter().for_each(|item| self.return_to_queue(item));
        let plan = self.reconcile_plan(cursor, &found, at);
        let asked: Vec<Command> = self.commands.iter().filter(|command| found.is_for(command.id)).cloned().collect();
        let mut decided = false;
        for command in &asked {
            let result = match &command.kind {
                CommandKind::Unprotect => self.unprotect(cursor, &plan, command, commit)?,
                CommandKind::Resync { lost, dry_run: true } => self.dry_run(cursor, &plan, *lost),
                // One resync per scan, because a later one needs a new scan.
                CommandKind::Resync { .. } if decided => continue,
                CommandKind::Resync { lost, .. } => {
                    decided = true;
                    self.resync(cursor, &plan, *lost, commit, pending)?
                }
                _ => continue,
            };
            commit.command_done(command, result);
            pending.commands.push(command.id);
        }
        if !decided {
            self.reconcile_by_policy(cursor, plan, commit, pending)?;
        }
        // If nothing came of the scan, its findings are dropped.
        if !pending.commands.is_empty() || pending.reconciled.changes_slots() {
            pending.reconciled.found = Some(found);
        }
        Ok(())
    }

    fn unprotect(
        &mut self,
        cursor: &Cursor,
        plan: &ReconcilePlan,
        command: &Command,
        commit: &mut LaneCommit,
    ) -> Result<CommandResult, CommitError> {
        let LaneState::Protect(protection) = &cursor.state else {
            return Ok(CommandResult::Done(CommandReport::new("the lane is not in PROTECT")));
        };
        if protection.code == ProtectCode::StoreRegressed {
            let text =
                "the database lost commits: run `resync`; it compares the ledger with the chain and ends PROTECT";
            return Ok(CommandResult::Refused(CommandReport::new(text)));
        }
        let cause = plan.obstacle.as_ref().map(|(_, text)| text.clone()).or_else(|| plan.undecided());
        if let Some(cause) = cause {
            return Ok(CommandResult::Refused(CommandReport::new(&format!("the cause of PROTECT persists: {cause}"))));
        }
        self.protect = None;
        commit.unprotect(cursor, !self.slots.is_empty(), command.issued_by.clone())?;
        let text = format!("PROTECT ended ({})", protection.code.as_str());
        Ok(CommandResult::Done(CommandReport::new(&text)))
    }

    /// Report of a dry run.
    fn dry_run(&self, cursor: &Cursor, plan: &ReconcilePlan, rule: LostRule) -> CommandResult {
        let mut text = String::from("dry run, nothing was changed; resync would:\n");
        text.push_str(&plan.lines(rule));
        match self.refusal(cursor, plan, rule) {
            Some(refusal) => text.push_str(&format!("but it would be refused now: {refusal}\n")),
            None if plan.more => text.push_str("PROTECT would stay: more nonces need adoption\n"),
            None if cursor.is_protected() => text.push_str("PROTECT would end\n"),
            None => {}
        }
        CommandResult::Done(CommandReport::new(&text))
    }

    /// Reason why a resync is refused.
    fn refusal(&self, cursor: &Cursor, plan: &ReconcilePlan, rule: LostRule) -> Option<String> {
        if let Some((_, obstacle)) = &plan.obstacle {
            return Some(obstacle.clone());
        }
        let fails = rule == LostRule::Fail && plan.lost.iter().any(|lost| lost.tx.is_some());
        let text = "after a loss of commits no intent may end before the lane is reconciled: use `requeue`";
        (fails && cursor.state.is_store_regressed()).then(|| text.to_owned())
    }

    fn resync(
        &mut self,
        cursor: &Cursor,
        plan: &ReconcilePlan,
        rule: LostRule,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<CommandResult, CommitError> {
        if let Some(refusal) = self.refusal(cursor, plan, rule) {
            return Ok(CommandResult::Refused(CommandReport::new(&refusal)));
        }
        let mut lines = plan.lines(rule);
        self.apply(cursor, plan, rule, commit, pending)?;
        if cursor.state.is_store_regressed() && plan.is_unexplained() {
            // The transaction may be the lost replacement of a queued intent. Nothing is sent before people have
            // checked.
            commit.set_paused(cursor, true, NodeText::new(MAY_BE_OURS))?;
            lines.push_str(MAY_BE_OURS);
        }
        let summary = NodeText::new(&plan.summary());
        commit.lane_event(cursor, LaneEventKind::Resynced, summary.clone())?;
        if !plan.more {
            // The pending reason for PROTECT is reconciled as well.
            self.protect = None;
            if cursor.is_protected() {
                commit.unprotect(cursor, true, summary)?;
            }
        }
        Ok(CommandResult::Done(CommandReport::new(&lines)))
    }

    /// Changes that need no operator: all of them if the policy is to adopt, otherwise only transactions of reserved
    /// nonces.
    fn reconcile_by_policy(
        &mut self,
        cursor: &Cursor,
        mut plan: ReconcilePlan,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        // After a loss of commits, a transaction that looks foreign may be ours. An operator must check it first.
        let adopts = self.adopts() && plan.obstacle.is_none() && !cursor.state.is_store_regressed();
        if !adopts {
            if !self.adopts()
                && let Some((code, text)) = plan.protect_cause()
            {
                self.want_protect(code, &text);
            }
            plan.attach.retain(|attachment| attachment.is_reserved);
            (plan.lost, plan.adopt, plan.start_at) = (Vec::new(), Vec::new(), None);
        }
        if plan.is_empty() {
            return Ok(());
        }
        let detail = CommandReport::new(&plan.lines(LostRule::Requeue));
        self.apply(cursor, &plan, LostRule::Requeue, commit, pending)?;
        commit.audit(NewAudit { actor: NodeText::new(NewAudit::POLICY), action: "adopt", detail });
        commit.lane_event(cursor, LaneEventKind::Resynced, NodeText::new(&plan.summary()))?;
        let by_counts = |code| {
            use ProtectCode as P;
            matches!(code, P::ExternalNonce | P::ForeignTransaction | P::PendingAhead | P::HistoryWithoutStart)
        };
        if let LaneState::Protect(protection) = &cursor.state
            && adopts
            && !plan.more
            && by_counts(protection.code)
        {
            commit.unprotect(cursor, true, NodeText::new(NewAudit::POLICY))?;
        }
        Ok(())
    }

    /// Adds the changes of the plan to the commit.
    fn apply(
        &mut self,
        cursor: &Cursor,
        plan: &ReconcilePlan,
        rule: LostRule,
        commit: &mut LaneCommit,
        pending: &mut PendingCommit,
    ) -> Result<(), CommitError> {
        let reconciled = &mut pending.reconciled;
        // Nonces whose reservation ends in this commit are reconciled later.
        let stays = |nonce: Nonce| !pending.ended_reservations.contains(&nonce);
        for Attachment { sent, ordinal, .. } in plan.attach.iter().filter(|found| stays(found.sent.tx.plan.nonce)) {
            let slot = self.slots.get(sent.tx.plan.nonce);
            // Without an intent, the transaction fills the nonce like a filler.
            let tx = slot.and_then(|slot| slot.tx.as_ref());
            let kind = tx.map_or(AttemptKind::Fill, |tx| kind_for(sent, tx));
            let attempt = NewAttempt { kind, ..attempt_of(sent, *ordinal) };
            commit.attempt(attempt.clone());
            reconciled.attached.push((attempt, Outline::of(&sent.tx.plan)));
        }
        let adopted: HashSet<TxId> = plan.adopt.iter().filter_map(|adoption| Some(adoption.of.as_ref()?.1)).collect();
        // Intents that are found again at another nonce.
        let mut queued = Vec::new();
        let may_end = !cursor.state.is_store_regressed();
        for Lost { nonce, tx, why } in plan.lost.iter().filter(|lost| stays(lost.nonce)) {
            let again = match tx {
                // The record is needed again below.
                Some(tx) if adopted.contains(&tx.id) => {
                    queued.extend(commit.lose_nonce(tx, LostRule::Requeue, false, NodeText::new(why))?);
                    None
                }
                Some(tx) => commit.lose_nonce(tx, rule, may_end, NodeText::new(why))?,
                None => None,
            };
            self.dirty.remove(nonce);
            reconciled.lost.push((*nonce, again));
        }
        if let Some(start) = plan.start_at {
            commit.start_at(cursor, start)?;
        }
        for Adoption { nonce, evidence, of } in &plan.adopt {
            if let Some((_, id)) = of
                && let Some(index) = self.queue.candidates.iter().position(|candidate| candidate.tx.id == *id)
                && let Some(candidate) = self.queue.take(index)
            {
                queued.push(IntentRecord::clone(&candidate.tx));
                reconciled.taken.push(candidate);
            }
            let tx = of.as_ref().and_then(|(_, id)| queued.iter().find(|tx| tx.id == *id));
            let (Some((sent, _)), Some(tx)) = (of, tx) else {
                commit.adopt_foreign(cursor, *nonce, NodeText::new(evidence))?;
                reconciled.adopted.push(Adopted { nonce: *nonce, of: None });
                continue;
            };
            let attempt = NewAttempt { kind: kind_for(sent, tx), ..attempt_of(sent, 0) };
            let above = sent.link().parent();
            commit.adopt_for(cursor, tx, attempt.clone(), above)?;
            let (tx, outline) = (tx.clone(), Outline::of(&sent.tx.plan));
            let of = Some(FoundIntent { tx, attempt, outline, above });
            reconciled.adopted.push(Adopted { nonce: *nonce, of });
        }
        Ok(())
    }

    /// Applies the reconciliation of a committed commit.
    pub(super) fn apply_reconciled(&mut self, reconciled: Reconciled, at: Timestamp, now: Tick) {
        let Reconciled { attached, lost, adopted, .. } = reconciled;
        let mut watched = Vec::new();
        let look_up = |hash| WatchRequest { hash, known_block: None, look_up: true };
        if !(attached.is_empty() && lost.is_empty() && adopted.is_empty()) {
            self.scan_helped();
            self.funds.read_soon();
        }
        for (attempt, outline) in attached {
            self.by_hash.insert(attempt.hash, attempt.nonce);
            watched.push(look_up(attempt.hash));
            // The watcher has not seen the block. If the block is orphaned before, no sighting will say so.
            let later = now.saturating_add(self.setup.limits.resend_longest);
            self.slots.update(attempt.nonce, |slot| {
                slot.add_attempt(&attempt, outline.cost, outline.gas_limit, at);
                slot.sending = Sending::Due { at: later, claim: false };
                slot.missed_lookups = None;
            });
        }
        for (nonce, tx) in lost {
            self.slots.lose(nonce);
            #[cfg(feature = "mistakes")]
            self.reuse_by_mistake(nonce);
            if let Some(mut tx) = tx {
                tx.updated_at = at;
                // A peek that began before does not list the requeued intent.
                self.queue.ignore_peek_in_flight();
                self.queue.put_back(Candidate { tx: Box::new(tx), stage: Stage::Waiting });
            }
        }
        for Adopted { nonce, of } in adopted {
            let Some(FoundIntent { mut tx, attempt, outline, above }) = of else {
                self.slots.insert(OpenSlot::empty(nonce, SlotKind::Foreign));
                continue;
            };
            let mut slot = OpenSlot::empty(nonce, SlotKind::Intent(tx.id));
            tx.apply_bind(nonce, at);
            slot.tx = Some(Box::new(tx));
            slot.above = above;
            slot.add_attempt(&attempt, outline.cost, outline.gas_limit, at);
            self.by_hash.insert(attempt.hash, nonce);
            watched.push(look_up(attempt.hash));
            self.slots.insert(slot);
            self.dirty.insert(nonce);
        }
        if !watched.is_empty() {
            self.effects.push(Effect::Watch(watched));
        }
    }

    pub(super) fn roll_back_reconciled(&mut self, reconciled: Reconciled) {
        for candidate in reconciled.taken {
            self.queue.put_back(candidate);
        }
        self.dirty.extend(reconciled.lost.iter().map(|(nonce, _)| *nonce));
        if let Some(found) = reconciled.found {
            self.scans.put_back(found);
        }
    }
}

/// Kind of a found transaction, seen from its intent.
fn kind_for(sent: &ScannedTx, tx: &IntentRecord) -> AttemptKind {
    let is_replaced = matches!(&tx.replacement, Some(Payload::Evm(call)) if carries(sent, call));
    if is_replaced { AttemptKind::Replace } else { AttemptKind::Original }
}

const MAY_BE_OURS: &str = "the lane is paused: transactions that the ledger cannot explain may belong to lost \
    requests, or be replacements of queued intents; cancel the intents that were already carried out, then resume\n";

fn attempt_of(sent: &ScannedTx, ordinal: u16) -> NewAttempt {
    let (plan, signed) = (&sent.tx.plan, &sent.tx.signed);
    NewAttempt {
        nonce: plan.nonce,
        ordinal,
        kind: AttemptKind::Original,
        hash: signed.hash,
        raw: signed.raw.clone(),
        fees: plan.fees,
    }
}
