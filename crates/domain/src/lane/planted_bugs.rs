//! Planted bugs of the lane (see [`crate::mistakes`]) that need more than one line in place.

use crate::attempt::SendOutcome;
use crate::block::{Execution, Inclusion};
use crate::command::LostRule;
use crate::ledger::CommitError;
use crate::mistakes::{Mistake, made};
use crate::nonce::Nonce;
use crate::state::Progress;

use crate::lane::Lane;
use crate::lane::draft::Draft;
use crate::lane::fact::{AccountFacts, SentTx};
use crate::lane::open_slot::OpenSlot;
use crate::lane::slot_work::MiningState;

impl Lane {
    /// Treats nonces as free that may be consumed.
    pub(super) fn lose_by_mistake(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        let rule = if made(Mistake::RejectedFreesNonce) { LostRule::Fail } else { LostRule::Requeue };
        for nonce in self.freed_by_mistake() {
            let slot = self.ledger.slots.get(nonce).filter(|slot| slot.is_unmined() && !slot.is_reserved());
            let Some(tx) = slot.and_then(|slot| slot.tx.clone()) else { continue };
            let is_mined = tx.state.bound().is_some_and(|bound| matches!(bound.progress, Progress::Mined(_)));
            if is_mined || draft.explains(nonce) || !self.may_end() {
                continue;
            }
            draft.lose(nonce, Some(&tx), rule, true, "planted bug: the nonce is treated as free")?;
        }
        Ok(())
    }

    fn freed_by_mistake(&self) -> Vec<Nonce> {
        let timed_out = |outcome| matches!(outcome, SendOutcome::Unknown | SendOutcome::Unavailable);
        let frees = |outcome| {
            (made(Mistake::RecycleAfterTimeout) && timed_out(outcome))
                || (made(Mistake::RejectedFreesNonce) && outcome.is_refusal())
        };
        let by_answer = self.outbox.reports.iter().filter(|report| frees(report.outcome)).map(|report| report.nonce);
        let is_missing = |slot: &OpenSlot| slot.attempts.iter().any(|held| held.missing);
        let by_receipt = |nonce: &Nonce| {
            made(Mistake::RequeueOnNullReceipt) && self.ledger.slots.get(*nonce).is_some_and(is_missing)
        };
        by_answer.chain(self.ledger.slots.unmined().iter().copied().filter(by_receipt)).collect()
    }

    /// Binds the newest freed nonce again.
    pub(super) fn reuse_by_mistake(&mut self, nonce: Nonce) {
        let reuses = made(Mistake::RecycleAfterTimeout) || made(Mistake::RejectedFreesNonce);
        let is_free = reuses && self.binds_under_way() == 0;
        if let Some(cursor) = self.ledger.cursor.as_mut().filter(|_| is_free)
            && nonce.next() == Ok(cursor.next_nonce)
            && nonce >= cursor.open_nonce
        {
            cursor.next_nonce = nonce;
            self.ledger.slots.remove(nonce);
        }
    }

    /// Treats the attempt as mined and final.
    pub(super) fn treat_too_low_as_final(&mut self, sent: &SentTx) {
        let Some(tail) = self.chain.facts.as_ref().map(|chain| &chain.tail) else { return };
        let Some(link) = tail.get(tail.last().number) else { return };
        self.ledger.slots.update(sent.nonce, |slot| {
            if let Some(kind) = slot.kind_of(sent.hash).filter(|_| slot.is_unmined()) {
                let inclusion = Inclusion {
                    hash: sent.hash,
                    kind,
                    block: link.block,
                    parent_hash: link.parent_hash,
                    execution: Execution::Success,
                    work_used: 0,
                    unit_price: crate::amount::Amount::ZERO,
                };
                slot.mining = MiningState::Final(inclusion, None);
            }
        });
    }

    /// Counts confirmations by height alone.
    pub(super) fn end_by_height(&mut self) {
        let Some(chain) = self.chain.facts.clone() else { return };
        let most = self.setup.policy.confirmations.required;
        for nonce in &self.chain.notice_queue {
            self.ledger.slots.update(*nonce, |slot| {
                if let MiningState::Mined(inclusion) = &slot.mining
                    && inclusion.block.number.saturating_add(u64::from(most)) <= chain.tail.last().number + 1
                {
                    let list = chain.tail.list_from(inclusion.block, most);
                    slot.mining = MiningState::Final(inclusion.clone(), Some(list.into()));
                }
            });
        }
    }

    /// Continues from the account's nonce.
    pub(super) fn jump_to_chain(&mut self, account: AccountFacts) {
        self.funds.ahead_reads = 0;
        if let Some(cursor) = &mut self.ledger.cursor {
            cursor.next_nonce = cursor.next_nonce.max(account.latest).max(account.pending);
            if self.ledger.slots.is_empty() {
                cursor.open_nonce = cursor.next_nonce;
            }
        }
    }
}
