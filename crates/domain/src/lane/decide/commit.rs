//! The order in which the rules fill a commit.

use crate::cursor::{ProtectCode, Protection};
use crate::ledger::CommitError;
use crate::text::NodeText;
use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::decide::start::never_begun;
use crate::lane::draft::Draft;
use crate::lane::effect::{Effect, Step};

impl Lane {
    /// Builds a commit and begins to write it. False if it is not the time for one.
    pub(in crate::lane) fn plan_commit(&mut self, now: Tick, step: &mut Step) -> bool {
        if self.commits.draft.is_some() {
            return false;
        }
        if now < self.commits.not_before {
            step.wake(self.commits.not_before);
            return false;
        }
        let mut draft = Draft::new(&self.lease, self.ledger.cursor.clone(), now, self.database_now(now));
        let filled =
            if self.ledger.regressed { self.acknowledge_regression(&mut draft) } else { self.fill(&mut draft) };
        step.append(std::mem::take(&mut draft.step));
        if let Err(error) = filled {
            // A defect of Gapless, not of the data: nothing of this commit is written, and a notice is logged.
            let text = NodeText::new(&format!("cannot build the commit: {error}"));
            step.effects.push(Effect::Notice { nonce: None, text });
            self.drop_draft(draft);
            self.commits.not_before = now.saturating_add(self.setup.limits.pauses.resend_longest);
            step.wake(self.commits.not_before);
            return false;
        }
        if draft.commit.is_empty() {
            self.drop_draft(draft);
            return true;
        }
        step.effects.push(Effect::Commit(Box::new(draft.commit.clone())));
        self.commits.draft = Some(draft);
        self.queue.commit_began();
        true
    }

    /// Writes that the lane knows of the lost commits. The lane writes nothing else before.
    fn acknowledge_regression(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        let cursor = self.ledger.cursor.get_or_insert_with(|| never_begun(&self.setup));
        let detail = NodeText::new(
            "the database lost commits or was restored; run resync to reconcile the transactions that were sent since",
        );
        draft.commit.protect(cursor, Protection { code: ProtectCode::StoreRegressed, detail }).map(drop)
    }

    fn fill(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        draft.commit.bind_above(self.funds.account.and_then(|account| account.final_block));
        self.write_expired_reservations(draft)?;
        if draft.base().is_some() {
            self.write_reconciliation(draft)?;
            self.settle_reservations(draft);
        }
        self.write_changes(draft)?;
        self.write_expired(draft)?;
        self.write_failing(draft)?;
        self.write_reports(draft);
        if draft.base().is_none() {
            return Ok(());
        }
        self.write_commands(draft)?;
        if let Some(protection) = self.commits.protection.take() {
            draft.protect(protection)?;
        }
        self.write_balance(draft)?;
        self.write_signed(draft)?;
        self.write_reservations(draft)?;
        self.write_decisions(draft)?;
        self.write_claims(draft)?;
        self.write_fee_cap_event(draft)?;
        self.write_closed(draft)?;
        if draft.commit.is_empty() && self.commits.unreplicated && self.has_something_to_send(draft.now) {
            // There is nothing to write, but sends wait for a replicated commit.
            draft.set_in_flight(!self.ledger.slots.is_empty())?;
        }
        self.write_counts(draft)
    }

    fn write_reports(&mut self, draft: &mut Draft) {
        draft.taken.reports = std::mem::take(&mut self.outbox.reports);
        for report in &draft.taken.reports {
            draft.commit.report(report.clone());
        }
    }

    /// Writes the account's nonces, if the cursor is written anyway.
    fn write_counts(&self, draft: &mut Draft) -> Result<(), CommitError> {
        if let (Some(_), Some(base)) = (draft.commit.cursor(), draft.base())
            && let Some(account) = self.funds.account
            && let Some(finalized) = account.finalized
            && (base.final_nonce..=base.next_nonce).contains(&finalized)
        {
            draft.observe_counts(account.latest, finalized)?;
        }
        Ok(())
    }
}
