//! Carries out the changes that a scan calls for, by command or by policy.
//!
//! Reconciling never lowers a nonce, and never moves an intent whose nonce is not finally consumed by another
//! transaction. Nonces of foreign transactions are adopted with their evidence. A transaction that matches one of our
//! intents is assigned to it, so that the intent is not sent a second time.

use std::collections::HashSet;

use crate::attempt::{AttemptKind, NewAttempt};
use crate::audit::NewAudit;
use crate::command::LostRule;
use crate::cursor::{Cursor, LaneState, ProtectCode};
use crate::event::LaneEventKind;
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::ledger::CommitError;
use crate::signing::Outline;
use crate::text::{CommandReport, NodeText};

use crate::lane::Lane;
use crate::lane::command::execute_scanned;
use crate::lane::draft::Draft;
use crate::lane::fact::ScannedTx;
use crate::lane::reconcile::plan::{Adoption, Attachment, Lost, ReconcilePlan, carries};

impl Lane {
    /// Uses the newest scan, if there is one.
    pub(in crate::lane) fn write_reconciliation(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        let (Some(cursor), Some(found)) = (draft.base().cloned(), self.scans.take_found()) else { return Ok(()) };
        // Intents that are signed or at the signer are still queued: foreign transactions may match them.
        if self.signer.in_flight.iter().flatten().any(|item| item.candidate.is_some()) {
            self.scans.put_back(found);
            return Ok(());
        }
        let signed = std::mem::take(&mut self.signer.signed).into_iter();
        let (binds, others): (Vec<_>, Vec<_>) = signed.partition(|item| item.candidate.is_some());
        self.signer.signed = others;
        binds.into_iter().for_each(|item| self.return_to_queue(item));
        let plan = self.reconcile_plan(&cursor, &found, draft.at);
        if !execute_scanned(self, draft, &found, &plan)? {
            self.reconcile_by_policy(&cursor, plan, draft)?;
        }
        // If nothing came of the scan, its findings are dropped.
        if !draft.commit.commands_done().is_empty() || draft.reconciles() {
            draft.taken.found = Some(found);
        }
        Ok(())
    }

    /// Changes that need no operator: all of them if the policy is to adopt, otherwise only transactions of reserved
    /// nonces.
    fn reconcile_by_policy(
        &mut self,
        cursor: &Cursor,
        mut plan: ReconcilePlan,
        draft: &mut Draft,
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
        self.apply_plan(&plan, LostRule::Requeue, draft)?;
        draft.commit.audit(NewAudit { actor: NodeText::new(NewAudit::POLICY), action: "adopt", detail });
        draft.lane_event(LaneEventKind::Resynced, NodeText::new(&plan.summary()))?;
        let by_counts = |code| {
            use ProtectCode as P;
            matches!(code, P::ExternalNonce | P::ForeignTransaction | P::PendingAhead | P::HistoryWithoutStart)
        };
        if let LaneState::Protect(protection) = &cursor.state
            && adopts
            && !plan.more
            && by_counts(protection.code)
        {
            draft.unprotect(true, NodeText::new(NewAudit::POLICY))?;
        }
        Ok(())
    }

    /// Adds the changes of the plan to the commit.
    pub(in crate::lane) fn apply_plan(
        &mut self,
        plan: &ReconcilePlan,
        rule: LostRule,
        draft: &mut Draft,
    ) -> Result<(), CommitError> {
        self.attach_found(plan, draft);
        let mut queued = self.lose_nonces(plan, rule, draft)?;
        if let Some(start) = plan.start_at {
            draft.start_at(start)?;
        }
        for Adoption { nonce, evidence, of } in &plan.adopt {
            let Some((sent, id)) = of else {
                draft.adopt_foreign(*nonce, NodeText::new(evidence))?;
                continue;
            };
            if let Some(candidate) = self.queue.find(*id).and_then(|index| self.queue.take(index)) {
                queued.push(IntentRecord::clone(&candidate.tx));
                draft.taken.candidates.push(candidate);
            }
            let Some(tx) = queued.iter().find(|tx| tx.id == *id) else {
                draft.adopt_foreign(*nonce, NodeText::new(evidence))?;
                continue;
            };
            let attempt = NewAttempt { kind: kind_for(sent, tx), ..attempt_of(sent, 0) };
            draft.adopt_for(tx, attempt, &Outline::of(&sent.tx.plan, self.setup.rules), sent.link().parent())?;
        }
        Ok(())
    }

    /// Adds transactions that explain their slots as attempts. Nonces whose reservation ends in this commit are
    /// reconciled later.
    fn attach_found(&self, plan: &ReconcilePlan, draft: &mut Draft) {
        for Attachment { sent, ordinal, .. } in &plan.attach {
            let nonce = sent.tx.plan.nonce;
            if draft.ends_reservation(nonce) {
                continue;
            }
            // Without an intent, the transaction fills the nonce like a filler.
            let tx = self.ledger.slots.get(nonce).and_then(|slot| slot.tx.as_ref());
            let kind = tx.map_or(AttemptKind::Fill, |tx| kind_for(sent, tx));
            draft.attach(
                NewAttempt { kind, ..attempt_of(sent, *ordinal) },
                &Outline::of(&sent.tx.plan, self.setup.rules),
            );
        }
    }

    /// Takes consumed nonces from their intents. Returns the intents that the plan has found at another nonce.
    fn lose_nonces(
        &mut self,
        plan: &ReconcilePlan,
        rule: LostRule,
        draft: &mut Draft,
    ) -> Result<Vec<IntentRecord>, CommitError> {
        let adopted: HashSet<TxId> = plan.adopt.iter().filter_map(|adoption| Some(adoption.of.as_ref()?.1)).collect();
        let may_end = draft.base().is_some_and(|cursor| !cursor.state.is_store_regressed());
        let mut found_again = Vec::new();
        for Lost { nonce, tx, why } in &plan.lost {
            if draft.ends_reservation(*nonce) {
                continue;
            }
            if tx.as_ref().is_some_and(|tx| adopted.contains(&tx.id)) {
                found_again.extend(draft.lose(*nonce, tx.as_ref(), LostRule::Requeue, false, why)?);
            } else {
                draft.lose(*nonce, tx.as_ref(), rule, may_end, why)?;
            }
        }
        Ok(found_again)
    }
}

/// Kind of a found transaction, seen from its intent.
fn kind_for(sent: &ScannedTx, tx: &IntentRecord) -> AttemptKind {
    let is_replaced = tx.replacement.as_ref().is_some_and(|payload| carries(sent, payload));
    if is_replaced { AttemptKind::Replace } else { AttemptKind::Original }
}

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
