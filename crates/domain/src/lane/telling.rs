//! Who is told of new confirmations.
//!
//! The first confirmation goes with the change that says where it was mined, the last ones with the change that ends it, and
//! what lies between is told as there is room: a head makes a bounded number of slots tell, in turn. What a notice says comes
//! from comparing the chain with what was told last, so that whoever has to wait loses nothing, least of all a fork (R04).

use std::sync::Arc;

use super::Lane;
use super::fact::ChainFacts;
use super::open_slot::Seen;

impl Lane {
    /// Does it have something that grows with the chain?
    pub fn follows_heads(&self) -> bool {
        !self.growing.is_empty() && self.setup.limits.notices_per_head > 0
    }

    pub(super) fn chain_is_broken(&self) -> bool {
        self.chain.as_ref().is_some_and(|chain| chain.broken.is_some())
    }

    pub(super) fn chain_moved(&mut self, chain: Arc<ChainFacts>) {
        // One that never began has nothing that could be contradicted; it just does not begin.
        if let Some(broken) = chain.broken.as_ref().filter(|_| self.cursor.is_some()) {
            self.want_protect(broken.code, broken.detail.as_str());
        }
        self.chain = Some(chain);
        #[cfg(feature = "mistakes")]
        if crate::mistakes::made(crate::mistakes::Mistake::ReorgIgnored) {
            self.end_by_height();
        }
        let mut room = self.setup.limits.notices_per_head;
        for _ in 0..self.growing.len() {
            if room == 0 {
                return;
            }
            let Some(nonce) = self.growing.pop_front() else { return };
            let grows = self.slots.update(nonce, |slot| {
                slot.grows = matches!(slot.seen, Seen::Mined(_));
                slot.tell = slot.grows;
                slot.grows
            });
            if grows == Some(true) {
                room -= 1;
                self.dirty.insert(nonce);
                self.growing.push_back(nonce);
            }
        }
    }
}
