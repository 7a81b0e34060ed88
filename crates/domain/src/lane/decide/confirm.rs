//! Confirming: what the watcher reports about hashes and heads, and the changes of intents that follow.
//!
//! The transition `mine` carries the first confirmation, and the transition `settle` carries the last ones. The notices
//! in between are limited: a new head allows a bounded number of slots to write one, in rotation. A notice compares the
//! chain with the last notice, so a slot that waits loses nothing, not even a fork (R04).

use std::sync::Arc;

use alloy_primitives::B256;

use crate::block::BlockRef;
use crate::cursor::ProtectCode;
use crate::ledger::CommitError;
use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::draft::Draft;
use crate::lane::effect::{Effect, WatchRequest};
use crate::lane::fact::{ChainFacts, MinedTx, Sighting};
use crate::lane::open_slot::OpenSlot;
use crate::lane::slot_work::{MiningState, Notice};

/// A sighting that contradicts the known state of the slot.
enum UnexpectedSighting {
    /// The final block that held the slot's transaction is no longer canonical.
    Orphaned(BlockRef),
    FinalElsewhere(B256),
}

impl Lane {
    /// True if a slot waits for new heads to write confirmation notices.
    pub fn follows_heads(&self) -> bool {
        !self.chain.notice_queue.is_empty() && self.setup.limits.notices_per_head > 0
    }

    pub(in crate::lane) fn has_finality_violation(&self) -> bool {
        self.chain.finality_violation().is_some()
    }

    pub(in crate::lane) fn chain_changed(&mut self, chain: Arc<ChainFacts>) {
        // A lane that never started has nothing to contradict; it only does not start.
        if let Some(broken) = chain.finality_violation.as_ref().filter(|_| self.ledger.cursor.is_some()) {
            self.want_protect(broken.code, broken.detail.as_str());
        }
        self.chain.facts = Some(chain);
        let mut room = self.setup.limits.notices_per_head;
        for _ in 0..self.chain.notice_queue.len() {
            if room == 0 {
                return;
            }
            let Some(nonce) = self.chain.notice_queue.pop_front() else { return };
            let grows = self.ledger.slots.update(nonce, |slot| {
                let is_mined = matches!(slot.mining, MiningState::Mined(_));
                slot.notice = if is_mined { Notice::Due } else { Notice::None };
                is_mined
            });
            if grows == Some(true) {
                room -= 1;
                self.chain.notice_queue.push_back(nonce);
            }
        }
    }

    pub(in crate::lane) fn observe(&mut self, sighting: Sighting, now: Tick) {
        let (Sighting::StillMined { hash, .. }
        | Sighting::Unmined { hash, .. }
        | Sighting::Final { hash, .. }
        | Sighting::NotFound { hash }
        | Sighting::Mined(MinedTx { hash, .. })) = &sighting;
        let Some(nonce) = self.chain.by_hash.get(hash).copied() else { return };
        let answer = self.ledger.slots.update(nonce, |slot| {
            let changed = slot.observe(sighting, now)?;
            let grows = matches!(slot.mining, MiningState::Mined(_)) && slot.notice == Notice::None;
            if grows {
                slot.notice = Notice::Queued;
            }
            Ok((changed, grows))
        });
        match answer {
            Some(Ok((changed, grows))) => {
                if changed {
                    self.queue.retry_postponed();
                }
                if grows && self.setup.limits.notices_per_head > 0 {
                    self.chain.notice_queue.push_back(nonce);
                }
            }
            Some(Err(UnexpectedSighting::Orphaned(block))) => {
                let number = block.number;
                let text = format!("final block {number}, which contains nonce {nonce}, was orphaned");
                self.want_protect(ProtectCode::DeepReorg, &text);
            }
            // The transaction is final in another block than the known one: ask for its inclusion.
            Some(Err(UnexpectedSighting::FinalElsewhere(hash))) => {
                self.outbox.effects.push(Effect::Watch(vec![WatchRequest { hash, known_block: None, look_up: true }]));
            }
            None => {}
        }
    }

    /// Writes the changes of intents that the chain and the nodes call for.
    pub(in crate::lane) fn write_changes(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        let may_end = self.may_end();
        let most = self.setup.policy.confirmations.required;
        let tail = self.chain.facts.as_ref().map(|chain| &chain.tail);
        for nonce in self.ledger.slots.changed() {
            if draft.has_lost(nonce) {
                continue;
            }
            let due = self.ledger.slots.update(nonce, |slot| {
                let due = slot.due_transitions(may_end, tail, most);
                if slot.notice == Notice::Due {
                    slot.notice = Notice::Queued;
                }
                due
            });
            for transition in due.unwrap_or_default() {
                draft.change(nonce, transition, &self.ledger.slots)?;
            }
        }
        Ok(())
    }

    /// False after a loss of commits, until an operator has reconciled: no intent may become terminal.
    pub(in crate::lane) fn may_end(&self) -> bool {
        self.ledger.cursor.as_ref().is_some_and(|cursor| !cursor.state.is_store_regressed())
    }
}

impl OpenSlot {
    /// Applies a sighting of one of the slot's hashes. Returns true if it is a new inclusion.
    fn observe(&mut self, sighting: Sighting, now: Tick) -> Result<bool, UnexpectedSighting> {
        match sighting {
            Sighting::Mined(mined) => return Ok(self.mined(mined)),
            Sighting::StillMined { hash, block } => self.still_mined(hash, block),
            Sighting::Unmined { hash, block } if self.is_final_in(hash, block) => {
                self.no_longer_final(now);
                return Err(UnexpectedSighting::Orphaned(block));
            }
            Sighting::Unmined { hash, block } => drop(self.unmined(hash, block, now)),
            Sighting::Final { hash, block, list } => {
                if !self.finalized(hash, block, list) {
                    return Err(UnexpectedSighting::FinalElsewhere(hash));
                }
            }
            Sighting::NotFound { hash } => self.hash_not_found(hash, now),
        }
        Ok(false)
    }
}
