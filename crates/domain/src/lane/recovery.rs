//! Reconciling the ledger with the chain: what a survey leads to, by an operator's word or by the policy.
//!
//! Nothing here lowers a nonce, and nothing moves an intent whose nonce is not used up by something else, finally. What strangers
//! have used is adopted with its evidence; what turns out to be an intent of ours after all is not sent a second time.

use std::collections::HashSet;

use crate::attempt::{AttemptKind, NewAttempt};
use crate::audit::NewAudit;
use crate::block::BlockRef;
use crate::command::{Command, CommandKind, CommandResult, LostRule};
use crate::cursor::{Cursor, LaneState, ProtectCode};
use crate::event::LaneEventKind;
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::ledger::{CommitError, LaneCommit};
use crate::nonce::Nonce;
use crate::payload::Payload;
use crate::plan::Outline;
use crate::slot::SlotKind;
use crate::text::{CommandReport, NodeText};
use crate::time::{Tick, Timestamp};

use super::Lane;
use super::effect::{Effect, Watched};
use super::fact::OnChain;
use super::line::{Candidate, Stage};
use super::open_slot::{OpenSlot, Sending};
use super::reckoning::{Adoption, Attachment, Lost, Plan, carries};
use super::survey::Found;
use super::writing::Writing;

/// What a commit has recovered, to be taken for true once it is durable.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    found: Option<Found>,
    pub(super) attached: Vec<(NewAttempt, Outline)>,
    pub(super) lost: Vec<(Nonce, Option<IntentRecord>)>,
    adopted: Vec<Adopted>,
    /// Out of the line, for what was adopted as theirs.
    taken: Vec<Candidate>,
}

#[derive(Debug)]
struct Adopted {
    nonce: Nonce,
    /// The intent that it turned out to be.
    of: Option<FoundIntent>,
}

#[derive(Debug)]
struct FoundIntent {
    tx: IntentRecord,
    attempt: NewAttempt,
    outline: Outline,
    above: Option<BlockRef>,
}

impl Recovered {
    /// Does it change slots that were there before?
    pub(super) fn changes_slots(&self) -> bool {
        !(self.attached.is_empty() && self.lost.is_empty() && self.adopted.is_empty())
    }

    /// Those who leave the line by it.
    pub(super) fn taken_ids(&self) -> impl Iterator<Item = TxId> {
        self.taken.iter().map(|candidate| candidate.tx.id)
    }

    pub(super) fn has_lost(&self, nonce: Nonce) -> bool {
        self.lost.iter().any(|(lost, _)| *lost == nonce)
    }

    pub(super) fn concerns(&self, nonce: Nonce) -> bool {
        let attached = self.attached.iter().any(|(attempt, _)| attempt.nonce == nonce);
        attached || self.has_lost(nonce)
    }
}

impl Lane {
    /// Draws the conclusions of the newest survey, if there is one.
    pub(super) fn write_recovery(
        &mut self,
        cursor: &Cursor,
        at: Timestamp,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        let Some(found) = self.surveys.take_found() else { return Ok(()) };
        // Those who are at the signer, or signed and not written, are in line too: strangers may have done what they ask for.
        if self.signing.iter().flatten().any(|item| item.candidate.is_some()) {
            self.surveys.give_back(found);
            return Ok(());
        }
        let signed = std::mem::take(&mut self.signed).into_iter();
        let (binds, others): (Vec<_>, Vec<_>) = signed.partition(|item| item.candidate.is_some());
        self.signed = others;
        binds.into_iter().for_each(|item| self.unplan(item));
        let plan = self.recovery_plan(cursor, &found, at);
        let asked: Vec<Command> = self.commands.iter().filter(|command| found.is_for(command.id)).cloned().collect();
        let mut decided = false;
        for command in &asked {
            let result = match &command.kind {
                CommandKind::Unprotect => self.unprotect(cursor, &plan, command, commit)?,
                CommandKind::Resync { lost, dry_run: true } => self.foretell(cursor, &plan, *lost),
                // One at a time: the next one needs a new survey.
                CommandKind::Resync { .. } if decided => continue,
                CommandKind::Resync { lost, .. } => {
                    decided = true;
                    self.resync(cursor, &plan, *lost, commit, writing)?
                }
                _ => continue,
            };
            commit.command_done(command, result);
            writing.commands.push(command.id);
        }
        if !decided {
            self.recover_by_policy(cursor, plan, commit, writing)?;
        }
        // If nothing came of it, the next doubt needs a survey of its own.
        if !writing.commands.is_empty() || writing.recovered.changes_slots() {
            writing.recovered.found = Some(found);
        }
        Ok(())
    }

    fn unprotect(
        &mut self,
        cursor: &Cursor,
        plan: &Plan,
        command: &Command,
        commit: &mut LaneCommit,
    ) -> Result<CommandResult, CommitError> {
        let LaneState::Protect(protection) = &cursor.state else {
            return Ok(CommandResult::Done(CommandReport::new("it was not in PROTECT")));
        };
        if protection.code == ProtectCode::StoreRegressed {
            let text =
                "the database lost commits: `resync` compares what is left with the chain, and ends PROTECT if it fits";
            return Ok(CommandResult::Refused(CommandReport::new(text)));
        }
        let cause = plan.obstacle.as_ref().map(|(_, text)| text.clone()).or_else(|| plan.undecided());
        if let Some(cause) = cause {
            return Ok(CommandResult::Refused(CommandReport::new(&format!("the cause persists: {cause}"))));
        }
        self.protect = None;
        commit.unprotect(cursor, !self.slots.is_empty(), command.issued_by.clone())?;
        Ok(CommandResult::Done(CommandReport::new(&format!("no longer in PROTECT ({})", protection.code.as_str()))))
    }

    fn foretell(&self, cursor: &Cursor, plan: &Plan, rule: LostRule) -> CommandResult {
        let mut text = String::from("nothing was changed; this is what it would do\n");
        text.push_str(&plan.lines(rule));
        match self.hindrance(cursor, plan, rule) {
            Some(hindrance) => text.push_str(&format!("but it would be refused now: {hindrance}\n")),
            None if plan.more => text.push_str("and PROTECT would stay: there is more to adopt\n"),
            None if cursor.is_protected() => text.push_str("and PROTECT would end\n"),
            None => {}
        }
        CommandResult::Done(CommandReport::new(&text))
    }

    fn hindrance(&self, cursor: &Cursor, plan: &Plan, rule: LostRule) -> Option<String> {
        if let Some((_, obstacle)) = &plan.obstacle {
            return Some(obstacle.clone());
        }
        let fails = rule == LostRule::Fail && plan.lost.iter().any(|lost| lost.tx.is_some());
        let text = "after a loss of commits nothing may end before the lane is reconciled: queue them again, and cancel them then";
        (fails && cursor.state.is_store_regressed()).then(|| text.to_owned())
    }

    fn resync(
        &mut self,
        cursor: &Cursor,
        plan: &Plan,
        rule: LostRule,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<CommandResult, CommitError> {
        if let Some(hindrance) = self.hindrance(cursor, plan, rule) {
            return Ok(CommandResult::Refused(CommandReport::new(&hindrance)));
        }
        let mut lines = plan.lines(rule);
        self.apply(cursor, plan, rule, commit, writing)?;
        if cursor.state.is_store_regressed() && plan.is_unexplained() {
            // It may be the replacement of an intent that is in line, and that is forgotten: nothing is sent before people have looked.
            commit.set_paused(cursor, true, NodeText::new(MAY_BE_OURS))?;
            lines.push_str(MAY_BE_OURS);
        }
        let summary = NodeText::new(&plan.summary());
        commit.lane_event(cursor, LaneEventKind::Resynced, summary.clone())?;
        if !plan.more {
            // Whatever was about to stop it is reconciled with it.
            self.protect = None;
            if cursor.is_protected() {
                commit.unprotect(cursor, true, summary)?;
            }
        }
        Ok(CommandResult::Done(CommandReport::new(&lines)))
    }

    /// What may be done without an operator: all of it, if the policy is to adopt. Else only what a borrower of a nonce has sent.
    fn recover_by_policy(
        &mut self,
        cursor: &Cursor,
        mut plan: Plan,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        // After a loss of commits, what looks like a stranger's may be ours: people look at it first.
        let adopts = self.adopts() && plan.obstacle.is_none() && !cursor.state.is_store_regressed();
        if !adopts {
            if !self.adopts()
                && let Some((code, text)) = plan.accusation()
            {
                self.want_protect(code, &text);
            }
            plan.attach.retain(|attachment| attachment.lent);
            (plan.lost, plan.adopt, plan.start_at) = (Vec::new(), Vec::new(), None);
        }
        if plan.is_empty() {
            return Ok(());
        }
        let detail = CommandReport::new(&plan.lines(LostRule::Requeue));
        self.apply(cursor, &plan, LostRule::Requeue, commit, writing)?;
        commit.audit(NewAudit { actor: NodeText::new(NewAudit::POLICY), action: "adopt", detail });
        commit.lane_event(cursor, LaneEventKind::Resynced, NodeText::new(&plan.summary()))?;
        let by_counts = |code| {
            use ProtectCode as P;
            matches!(code, P::ReservationRequest | P::ForeignTransaction | P::PendingAhead | P::HistoryWithoutStart)
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

    fn apply(
        &mut self,
        cursor: &Cursor,
        plan: &Plan,
        rule: LostRule,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        let recovered = &mut writing.recovered;
        // What comes back from a borrower with this very commit is looked at again when it is back.
        let stays = |nonce: Nonce| !writing.taken_back.contains(&nonce);
        for Attachment { sent, ordinal, .. } in plan.attach.iter().filter(|found| stays(found.sent.tx.plan.nonce)) {
            let slot = self.slots.get(sent.tx.plan.nonce);
            // Where there is no intent, it fills the nonce as well as a filler of ours.
            let tx = slot.and_then(|slot| slot.tx.as_ref());
            let kind = tx.map_or(AttemptKind::Fill, |tx| kind_for(sent, tx));
            let attempt = NewAttempt { kind, ..attempt_of(sent, *ordinal) };
            commit.attempt(attempt.clone());
            recovered.attached.push((attempt, Outline::of(&sent.tx.plan)));
        }
        let adopted: HashSet<TxId> = plan.adopt.iter().filter_map(|adoption| Some(adoption.of.as_ref()?.1)).collect();
        // Those that are found again at another nonce.
        let mut queued = Vec::new();
        let may_end = !cursor.state.is_store_regressed();
        for Lost { nonce, tx, why } in plan.lost.iter().filter(|lost| stays(lost.nonce)) {
            let again = match tx {
                // It is needed once more below.
                Some(tx) if adopted.contains(&tx.id) => {
                    queued.extend(commit.lose_nonce(tx, LostRule::Requeue, false, NodeText::new(why))?);
                    None
                }
                Some(tx) => commit.lose_nonce(tx, rule, may_end, NodeText::new(why))?,
                None => None,
            };
            self.dirty.remove(nonce);
            recovered.lost.push((*nonce, again));
        }
        if let Some(start) = plan.start_at {
            commit.start_at(cursor, start)?;
        }
        for Adoption { nonce, evidence, of } in &plan.adopt {
            if let Some((_, id)) = of
                && let Some(index) = self.line.waiting.iter().position(|candidate| candidate.tx.id == *id)
                && let Some(candidate) = self.line.take(index)
            {
                queued.push(IntentRecord::clone(&candidate.tx));
                recovered.taken.push(candidate);
            }
            let tx = of.as_ref().and_then(|(_, id)| queued.iter().find(|tx| tx.id == *id));
            let (Some((sent, _)), Some(tx)) = (of, tx) else {
                commit.adopt_foreign(cursor, *nonce, NodeText::new(evidence))?;
                recovered.adopted.push(Adopted { nonce: *nonce, of: None });
                continue;
            };
            let attempt = NewAttempt { kind: kind_for(sent, tx), ..attempt_of(sent, 0) };
            let above = sent.link().parent();
            commit.adopt_for(cursor, tx, attempt.clone(), above)?;
            let (tx, outline) = (tx.clone(), Outline::of(&sent.tx.plan));
            let of = Some(FoundIntent { tx, attempt, outline, above });
            recovered.adopted.push(Adopted { nonce: *nonce, of });
        }
        Ok(())
    }

    /// The commit is durable.
    pub(super) fn take_recovered(&mut self, recovered: Recovered, at: Timestamp, now: Tick) {
        let Recovered { attached, lost, adopted, .. } = recovered;
        let mut watched = Vec::new();
        let look_up = |hash| Watched { hash, known: None, look_up: true };
        if !(attached.is_empty() && lost.is_empty() && adopted.is_empty()) {
            self.survey_helped();
            self.purse.read_soon();
        }
        for (attempt, outline) in attached {
            self.by_hash.insert(attempt.hash, attempt.nonce);
            watched.push(look_up(attempt.hash));
            // It was seen in a block, but not by the watcher: if that is orphaned before, nobody will say so.
            let later = now.saturating_add(self.setup.limits.resend_longest);
            self.slots.update(attempt.nonce, |slot| {
                slot.hold(&attempt, outline.cost, outline.gas_limit, at);
                slot.sending = Sending::Due { at: later, claim: false };
                slot.lost_looks = None;
            });
        }
        for (nonce, tx) in lost {
            self.slots.lose(nonce);
            #[cfg(feature = "mistakes")]
            self.reuse_by_mistake(nonce);
            if let Some(mut tx) = tx {
                tx.updated_at = at;
                // A look that began before does not know that it is in line again.
                self.line.distrust();
                self.line.put_back(Candidate { tx: Box::new(tx), stage: Stage::Waiting });
            }
        }
        for Adopted { nonce, of } in adopted {
            let Some(FoundIntent { mut tx, attempt, outline, above }) = of else {
                self.slots.insert(OpenSlot::empty(nonce, SlotKind::Foreign));
                continue;
            };
            let mut slot = OpenSlot::empty(nonce, SlotKind::Intent(tx.id));
            tx.bound(nonce, at);
            slot.tx = Some(Box::new(tx));
            slot.above = above;
            slot.hold(&attempt, outline.cost, outline.gas_limit, at);
            self.by_hash.insert(attempt.hash, nonce);
            watched.push(look_up(attempt.hash));
            self.slots.insert(slot);
            self.dirty.insert(nonce);
        }
        if !watched.is_empty() {
            self.effects.push(Effect::Watch(watched));
        }
    }

    pub(super) fn give_back_recovered(&mut self, recovered: Recovered) {
        for candidate in recovered.taken {
            self.line.put_back(candidate);
        }
        self.dirty.extend(recovered.lost.iter().map(|(nonce, _)| *nonce));
        if let Some(found) = recovered.found {
            self.surveys.give_back(found);
        }
    }
}

/// What a transaction that is found on chain was to an intent.
fn kind_for(sent: &OnChain, tx: &IntentRecord) -> AttemptKind {
    let is_replaced = matches!(&tx.replacement, Some(Payload::Evm(call)) if carries(sent, call));
    if is_replaced { AttemptKind::Replace } else { AttemptKind::Original }
}

const MAY_BE_OURS: &str = "the lane is paused: what the chain has, and the ledger cannot explain, may be of requests that the database has \
    lost, or replacements of what is in line; cancel what has happened, then resume\n";

fn attempt_of(sent: &OnChain, ordinal: u16) -> NewAttempt {
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
