//! Reconciling the ledger with the chain: what a survey leads to, by an operator's word or by the policy.
//!
//! Nothing here lowers a nonce, and nothing moves an intent whose nonce is not used up by something else, finally. What strangers
//! have used is adopted with its evidence; what turns out to be an intent of ours after all is not sent a second time.

use std::collections::HashSet;

use crate::amount::Amount;
use crate::attempt::{AttemptKind, NewAttempt};
use crate::audit::NewAudit;
use crate::command::{Command, CommandKind, CommandResult, LostRule};
use crate::cursor::{Cursor, LaneState, ProtectCode};
use crate::event::LaneEventKind;
use crate::id::TxId;
use crate::lane_commit::{CommitError, LaneCommit};
use crate::managed_tx::ManagedTx;
use crate::nonce::Nonce;
use crate::payload::Payload;
use crate::slot::SlotKind;
use crate::text::{NodeText, Report};
use crate::time::Timestamp;
use crate::transition::Transition;

use super::Lane;
use super::effect::{Effect, Watched};
use super::fact::OnChain;
use super::line::{Candidate, Stage};
use super::open_slot::{OpenSlot, Seen, Sending};
use super::survey::{Found, Trace};
use super::writing::{Writing, contradicted};

/// What would be done, and what stands in the way.
#[derive(Debug, Default)]
struct Plan {
    /// Transactions that are not ours and explain their slot all the same.
    attach: Vec<Attachment>,
    lost: Vec<Lost>,
    adopt: Vec<Adoption>,
    /// A lane that never began begins here.
    start_at: Option<Nonce>,
    /// There is more to adopt than one reconciliation may.
    more: bool,
    remarks: Vec<String>,
    /// A stranger's transaction in a block that is not final yet.
    stranger: Option<String>,
    /// While this is so, nothing is done.
    obstacle: Option<(ProtectCode, String)>,
}

#[derive(Debug)]
struct Attachment {
    sent: OnChain,
    ordinal: u16,
    /// It stands at a nonce that was lent: nobody has to decide about it.
    lent: bool,
}

#[derive(Debug)]
struct Lost {
    nonce: Nonce,
    tx: Option<ManagedTx>,
    why: String,
}

#[derive(Debug)]
struct Adoption {
    nonce: Nonce,
    evidence: String,
    /// It does what this intent wants, which the ledger believes to be waiting.
    of: Option<(OnChain, TxId)>,
}

/// What a commit has recovered, to be taken for true once it is durable.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    found: Option<Found>,
    attached: Vec<(NewAttempt, Amount)>,
    lost: Vec<(Nonce, Option<ManagedTx>)>,
    adopted: Vec<(Nonce, Option<(ManagedTx, NewAttempt, Amount)>)>,
    /// Out of the line, for what was adopted as theirs.
    taken: Vec<Candidate>,
}

impl Lane {
    /// Draws the conclusions of the newest survey, if there is one.
    pub(super) fn write_recovery(
        &mut self,
        cursor: &Cursor,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        let Some(found) = self.surveys.take_found() else { return Ok(()) };
        let plan = self.recovery_plan(cursor, &found);
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
        writing.recovered.found = Some(found);
        Ok(())
    }

    fn unprotect(
        &self,
        cursor: &Cursor,
        plan: &Plan,
        command: &Command,
        commit: &mut LaneCommit,
    ) -> Result<CommandResult, CommitError> {
        let LaneState::Protect(protection) = &cursor.state else {
            return Ok(CommandResult::Done(Report::new("it was not in PROTECT")));
        };
        if protection.code == ProtectCode::StoreRegressed {
            let text =
                "the database lost commits: `resync` compares what is left with the chain, and ends PROTECT if it fits";
            return Ok(CommandResult::Refused(Report::new(text)));
        }
        let cause = plan.obstacle.as_ref().map(|(_, text)| text.clone()).or_else(|| plan.undecided());
        if let Some(cause) = cause {
            return Ok(CommandResult::Refused(Report::new(&format!("the cause persists: {cause}"))));
        }
        commit.unprotect(cursor, !self.slots.is_empty(), command.issued_by.clone())?;
        Ok(CommandResult::Done(Report::new(&format!("no longer in PROTECT ({})", protection.code.as_str()))))
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
        CommandResult::Done(Report::new(&text))
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
            return Ok(CommandResult::Refused(Report::new(&hindrance)));
        }
        let lines = plan.lines(rule);
        self.apply(cursor, plan, rule, commit, writing)?;
        let summary = NodeText::new(&plan.summary());
        commit.lane_event(cursor, LaneEventKind::Resynced, summary.clone())?;
        if cursor.is_protected() && !plan.more {
            commit.unprotect(cursor, true, summary)?;
        }
        Ok(CommandResult::Done(Report::new(&lines)))
    }

    /// What may be done without an operator: all of it, if the policy is to adopt. Else only what a borrower of a nonce has sent.
    fn recover_by_policy(
        &mut self,
        cursor: &Cursor,
        mut plan: Plan,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        let adopts = self.adopts() && plan.obstacle.is_none();
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
        let detail = Report::new(&plan.lines(LostRule::Requeue));
        self.apply(cursor, &plan, LostRule::Requeue, commit, writing)?;
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

    fn apply(
        &mut self,
        cursor: &Cursor,
        plan: &Plan,
        rule: LostRule,
        commit: &mut LaneCommit,
        writing: &mut Writing,
    ) -> Result<(), CommitError> {
        let recovered = &mut writing.recovered;
        for Attachment { sent, ordinal, .. } in &plan.attach {
            let attempt = attempt_of(sent, *ordinal);
            commit.attempt(attempt.clone());
            recovered.attached.push((attempt, sent.tx.plan.worst_cost()));
        }
        let adopted: HashSet<TxId> = plan.adopt.iter().filter_map(|adoption| Some(adoption.of.as_ref()?.1)).collect();
        // Those that are found again at another nonce.
        let mut queued = Vec::new();
        for Lost { nonce, tx, why } in &plan.lost {
            self.dirty.remove(nonce);
            let Some(tx) = tx else {
                recovered.lost.push((*nonce, None));
                continue;
            };
            let rule = if adopted.contains(&tx.id) { LostRule::Requeue } else { rule };
            commit.lose_nonce(tx, rule, NodeText::new(why))?;
            let mut again = tx.clone();
            again.apply(&tx.change(Transition::LoseNonce)?, tx.updated_at);
            let waits = rule == LostRule::Requeue && !adopted.contains(&tx.id);
            if !waits {
                queued.push(again.clone());
            }
            recovered.lost.push((*nonce, waits.then_some(again)));
        }
        if let Some(start) = plan.start_at {
            commit.start_at(cursor, start)?;
        }
        for Adoption { nonce, evidence, of } in &plan.adopt {
            if let Some((_, id)) = of
                && let Some(index) = self.line.waiting.iter().position(|candidate| candidate.tx.id == *id)
                && let Some(candidate) = self.line.take(index)
            {
                queued.push(candidate.tx.clone());
                recovered.taken.push(candidate);
            }
            let tx = of.as_ref().and_then(|(_, id)| queued.iter().find(|tx| tx.id == *id));
            let (Some((sent, _)), Some(tx)) = (of, tx) else {
                commit.adopt_foreign(cursor, *nonce, NodeText::new(evidence))?;
                recovered.adopted.push((*nonce, None));
                continue;
            };
            let attempt = attempt_of(sent, 0);
            commit.adopt_for(cursor, tx, attempt.clone())?;
            recovered.adopted.push((*nonce, Some((tx.clone(), attempt, sent.tx.plan.worst_cost()))));
        }
        Ok(())
    }

    fn recovery_plan(&self, cursor: &Cursor, found: &Found) -> Plan {
        let mut plan = Plan { obstacle: self.obstacle(cursor, found), ..Plan::default() };
        for nonce in self.slots.unmined() {
            let Some(slot) = self.slots.get(*nonce).filter(|slot| slot.seen == Seen::Nowhere) else { continue };
            self.plan_slot(slot, found, &mut plan);
        }
        let finalized = found.survey.account.finalized.unwrap_or_default();
        let never_bound = matches!(&cursor.state, LaneState::Protect(p) if p.code == ProtectCode::HistoryWithoutStart);
        if never_bound && finalized > cursor.next_nonce && self.slots.is_empty() {
            plan.start_at = Some(finalized);
        } else {
            self.plan_adoptions(cursor.next_nonce, finalized, found, &mut plan);
        }
        plan
    }

    fn plan_slot(&self, slot: &OpenSlot, found: &Found, plan: &mut Plan) {
        let nonce = slot.nonce;
        let lost = |why: String| Lost { nonce, tx: slot.tx.clone(), why };
        match found.trace(slot) {
            Trace::Unused | Trace::Ours => {}
            Trace::Foreign(sent) => {
                let lent = slot.kind == SlotKind::Reservation;
                let fits = slot.tx.as_ref().is_some_and(|tx| does(sent, tx));
                if lent || fits {
                    plan.attach.push(Attachment { sent: sent.clone(), ordinal: slot.next_ordinal(), lent });
                } else if found.stands_final(sent) {
                    plan.lost.push(lost(format!("nonce {nonce} was used by {}", describe(sent))));
                } else {
                    let text = format!("nonce {nonce} is used by {}, which is not final yet", describe(sent));
                    plan.stranger.get_or_insert_with(|| text.clone());
                    plan.hinder(ProtectCode::ForeignTransaction, text);
                }
                if let Some(other) = self.line.waiting.iter().find(|other| !fits && does(sent, &other.tx)) {
                    plan.remarks.push(format!("{} does what queued intent {} asks for", describe(sent), other.tx.id));
                }
            }
            Trace::WithoutTransaction if found.is_final(nonce) => {
                let way = "an EIP-7702 authorization, or code of the account that creates contracts";
                plan.lost.push(lost(format!("nonce {nonce} was used without a transaction of the account ({way})")));
            }
            Trace::WithoutTransaction => {
                let text = format!("nonce {nonce} is used up by nothing of ours, and that is not final yet");
                plan.hinder(ProtectCode::ForeignTransaction, text);
            }
            Trace::Unread => {
                let oldest = found.survey.oldest;
                let text = format!(
                    "nonce {nonce} is used up, and blocks below {oldest} were not read that could tell by what: \
                     see survey_blocks in the config"
                );
                plan.hinder(ProtectCode::ForeignTransaction, text);
            }
        }
    }

    fn plan_adoptions(&self, next: Nonce, finalized: Nonce, found: &Found, plan: &mut Plan) {
        let mut waiting: Vec<&ManagedTx> = plan.lost.iter().filter_map(|lost| lost.tx.as_ref()).collect();
        waiting.extend(self.line.waiting.iter().map(|candidate| &candidate.tx));
        waiting.sort_by_key(|tx| tx.seq);
        let mut given = HashSet::new();
        let most = self.setup.limits.adopt as u64;
        let end = finalized.get().min(next.get().saturating_add(most));
        let mut adopt = Vec::new();
        for nonce in (next.get()..end).filter_map(|nonce| Nonce::new(nonce).ok()) {
            let sent = found.on_chain(nonce).filter(|sent| found.stands_final(sent));
            let evidence = match sent {
                Some(sent) => describe(sent),
                None => {
                    let (oldest, head) = (found.survey.oldest, found.survey.head.number);
                    format!("the final count; blocks {oldest} to {head} have no transaction of the account for it")
                }
            };
            let of = sent.and_then(|sent| {
                let tx = waiting.iter().find(|tx| !given.contains(&tx.id) && does(sent, tx))?;
                given.insert(tx.id);
                Some((sent.clone(), tx.id))
            });
            adopt.push(Adoption { nonce, evidence, of });
        }
        plan.adopt = adopt;
        plan.more = end < finalized.get();
    }

    /// Why nothing can be reconciled at this moment, whatever the slots look like.
    fn obstacle(&self, cursor: &Cursor, found: &Found) -> Option<(ProtectCode, String)> {
        if let Some(broken) = self.chain.as_ref().and_then(|chain| chain.broken.as_ref()) {
            return Some((broken.code, contradicted(broken)));
        }
        let account = &found.survey.account;
        let Some(finalized) = account.finalized else {
            return Some((ProtectCode::ChainRegressed, "no block of the chain is known to be final yet".to_owned()));
        };
        let next = cursor.next_nonce;
        if finalized < cursor.final_nonce || account.latest < cursor.open_nonce {
            let (latest, most) = (account.latest, cursor.final_nonce.max(cursor.open_nonce));
            let text = format!(
                "the account has sent {latest} transactions, {finalized} of them final, but the ledger has seen {most} final: \
                 this is another history than the ledger's"
            );
            return Some((ProtectCode::ChainRegressed, text));
        }
        let ahead = account.pending.max(account.latest);
        if ahead > next.max(finalized) {
            let text = format!(
                "the account's count is {ahead} with those that are not final, but the ledger knows of {next}: wait until \
                 they are final"
            );
            return Some((ProtectCode::PendingAhead, text));
        }
        if let Some(hole) = self.first_hole() {
            return Some((ProtectCode::MissingSlot, format!("nonce {hole} is below the cursor and has no slot")));
        }
        let unfillable = self.slots.unmined().iter().filter_map(|nonce| self.slots.get(*nonce));
        let unfillable = unfillable.into_iter().find(|slot| slot.rejected && slot.wants_nothing())?;
        Some((ProtectCode::CannotFill, format!("nonce {} cannot be filled: nodes reject it", unfillable.nonce)))
    }

    /// The commit is durable.
    pub(super) fn take_recovered(&mut self, recovered: Recovered, above_block: Option<u64>, at: Timestamp) {
        let Recovered { attached, lost, adopted, .. } = recovered;
        let mut watched = Vec::new();
        let look_up = |hash| Watched { hash, known: None, look_up: true };
        if !(attached.is_empty() && lost.is_empty() && adopted.is_empty()) {
            self.survey_helped();
            self.purse.read_soon();
        }
        for (attempt, cost) in attached {
            self.by_hash.insert(attempt.hash, attempt.nonce);
            watched.push(look_up(attempt.hash));
            self.slots.update(attempt.nonce, |slot| {
                slot.hold(&attempt, cost, at);
                slot.sending = Sending::Rest;
                slot.lost_looks = None;
            });
        }
        for (nonce, tx) in lost {
            self.slots.lose(nonce);
            if let Some(mut tx) = tx {
                tx.updated_at = at;
                // A look that began before does not know that it is in line again.
                self.line.distrust();
                self.line.put_back(Candidate { tx, stage: Stage::Waiting });
            }
        }
        for (nonce, of) in adopted {
            let Some((mut tx, attempt, cost)) = of else {
                self.slots.insert(OpenSlot::empty(nonce, SlotKind::Foreign));
                continue;
            };
            let mut slot = OpenSlot::empty(nonce, SlotKind::Intent(tx.id));
            if let Ok(state) = tx.state.apply(Transition::Bind(nonce)) {
                tx = ManagedTx { state, version: tx.version.saturating_add(1), updated_at: at, ..tx };
            }
            slot.tx = Some(tx);
            slot.above_block = above_block;
            slot.hold(&attempt, cost, at);
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

impl Plan {
    fn is_empty(&self) -> bool {
        self.attach.is_empty() && self.lost.is_empty() && self.adopt.is_empty() && self.start_at.is_none()
    }

    fn hinder(&mut self, code: ProtectCode, text: String) {
        self.obstacle.get_or_insert((code, text));
    }

    /// What somebody has to decide about.
    fn undecided(&self) -> Option<String> {
        let foreign = self.attach.iter().find(|attachment| !attachment.lent);
        let foreign = foreign.map(|attachment| format!("{} is not in the ledger", describe(&attachment.sent)));
        let lost = self.lost.first().map(|lost| lost.why.clone());
        let adopt = self
            .adopt
            .first()
            .map(|adoption| format!("nonce {} was used by somebody else: {}", adoption.nonce, adoption.evidence));
        let start = self.start_at.map(|start| format!("the account has sent {start} transactions already"));
        let what = foreign.or(lost).or(adopt).or(start)?;
        Some(format!("{what} (`resync --dry-run` lists all of it)"))
    }

    /// What puts a lane into PROTECT that does not adopt.
    fn accusation(&self) -> Option<(ProtectCode, String)> {
        let stranger = self.stranger.clone().map(|text| (ProtectCode::ForeignTransaction, text));
        let adopts_only = self.lost.is_empty() && self.attach.iter().all(|attachment| attachment.lent);
        let code = if adopts_only { ProtectCode::ExternalNonce } else { ProtectCode::ForeignTransaction };
        stranger.or_else(|| Some((code, self.undecided()?)))
    }

    fn summary(&self) -> String {
        let of_ours = self.adopt.iter().filter(|adoption| adoption.of.is_some()).count();
        let start = self.start_at.map(|start| format!(", begins at {start}")).unwrap_or_default();
        format!(
            "{} adopted ({of_ours} of them intents of ours), {} attached, {} lost{start}",
            self.adopt.len(),
            self.attach.len(),
            self.lost.len()
        )
    }

    fn lines(&self, rule: LostRule) -> String {
        let mut text = String::new();
        let mut line = |entry: String| text.extend([entry.as_str(), "\n"]);
        for Attachment { sent, .. } in &self.attach {
            line(format!("attach {} to nonce {}, which it explains", describe(sent), sent.tx.plan.nonce));
        }
        for Lost { nonce, tx, why } in &self.lost {
            let found_again = |id: TxId| self.adopt.iter().any(|a| a.of.as_ref().is_some_and(|(_, of)| *of == id));
            line(match (tx, rule) {
                (None, _) => format!("close nonce {nonce}: {why}"),
                (Some(tx), _) if found_again(tx.id) => format!("move intent {}: {why}", tx.id),
                (Some(tx), LostRule::Requeue) => format!("queue intent {} again: {why}", tx.id),
                (Some(tx), LostRule::Fail) => format!("fail intent {}: {why}", tx.id),
            });
        }
        if let Some(start) = self.start_at {
            line(format!("begin at nonce {start}, the account's final count"));
        }
        for Adoption { nonce, evidence, of } in &self.adopt {
            line(match of {
                Some((_, id)) => format!("adopt nonce {nonce} for intent {id}, which {evidence} has done"),
                None => format!("adopt nonce {nonce}: {evidence}"),
            });
        }
        self.remarks.iter().for_each(|remark| line(format!("note: {remark}")));
        if self.is_empty() {
            line("nothing to reconcile".to_owned());
        }
        text
    }
}

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

/// Does it do what the intent asks for?
fn does(sent: &OnChain, tx: &ManagedTx) -> bool {
    let Payload::Evm(call) = tx.intent.payload() else { return false };
    let theirs = &sent.tx.plan.call;
    call.to == theirs.to && call.value == theirs.value && call.data == theirs.data
}

fn describe(sent: &OnChain) -> String {
    let call = &sent.tx.plan.call;
    let to = call.to.map_or_else(|| "nobody (a creation)".to_owned(), |to| to.to_string());
    let (hash, block, bytes) = (sent.tx.signed.hash, sent.block.number, call.data.len());
    format!("transaction {hash} in block {block} (to {to}, value {}, {bytes} bytes of data)", call.value)
}
