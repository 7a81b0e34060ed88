//! Confirmation notices of mined slots.
//!
//! The transition `mine` carries the first confirmation, and the transition `settle` carries the last ones. The notices
//! in between are limited: a new head allows a bounded number of slots to write one, in rotation. A notice compares the
//! chain with the last notice, so a slot that waits loses nothing, not even a fork (R04).

use std::sync::Arc;

use super::Lane;
use super::fact::ChainFacts;
use super::open_slot::MiningState;

impl Lane {
    /// True if a slot waits for new heads to write confirmation notices.
    pub fn follows_heads(&self) -> bool {
        !self.notice_queue.is_empty() && self.setup.limits.notices_per_head > 0
    }

    pub(super) fn has_finality_violation(&self) -> bool {
        self.chain.as_ref().is_some_and(|chain| chain.finality_violation.is_some())
    }

    pub(super) fn chain_changed(&mut self, chain: Arc<ChainFacts>) {
        // A lane that never started has nothing to contradict; it only does not start.
        if let Some(broken) = chain.finality_violation.as_ref().filter(|_| self.cursor.is_some()) {
            self.want_protect(broken.code, broken.detail.as_str());
        }
        self.chain = Some(chain);
        #[cfg(feature = "mistakes")]
        if crate::mistakes::made(crate::mistakes::Mistake::ReorgIgnored) {
            self.end_by_height();
        }
        let mut room = self.setup.limits.notices_per_head;
        for _ in 0..self.notice_queue.len() {
            if room == 0 {
                return;
            }
            let Some(nonce) = self.notice_queue.pop_front() else { return };
            let grows = self.slots.update(nonce, |slot| {
                slot.in_notice_queue = matches!(slot.mining, MiningState::Mined(_));
                slot.notice_due = slot.in_notice_queue;
                slot.in_notice_queue
            });
            if grows == Some(true) {
                room -= 1;
                self.dirty.insert(nonce);
                self.notice_queue.push_back(nonce);
            }
        }
    }
}
