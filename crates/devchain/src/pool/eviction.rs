//! Evictions from a full pool.

use std::sync::Arc;

use alloy_primitives::B256;

use super::account_txs::{AccountTxs, PoolEntry};
use super::error::PoolError;
use super::{HeadContext, Pool, slots};
use crate::tx::Tx;

impl Pool {
    /// Makes room for a transaction by evicting cheaper ones, or refuses it.
    pub(super) fn make_room(&mut self, tx: &Tx, context: HeadContext<'_>) -> Result<(), PoolError> {
        let capacity = self.limits.global_slots + self.limits.global_queue;
        let mut missing = (self.slots + slots(tx)).saturating_sub(capacity);
        if missing == 0 {
            return Ok(());
        }
        let mut cheapest: Vec<Arc<Tx>> = self.by_hash.values().cloned().collect();
        cheapest.sort_by_key(|tx| (price(tx, context.base_fee), tx.hash));
        if cheapest.first().is_some_and(|worst| price(tx, context.base_fee) <= price(worst, context.base_fee)) {
            return Err(PoolError::Underpriced);
        }
        let mut victims: Vec<B256> = Vec::new();
        for victim in &cheapest {
            if missing == 0 || price(victim, context.base_fee) >= price(tx, context.base_fee) {
                break;
            }
            missing = missing.saturating_sub(slots(victim));
            victims.push(victim.hash);
        }
        if missing > 0 {
            return Err(PoolError::Full);
        }
        let is_gapped = tx.nonce() > self.next_nonce(tx.from, context);
        let takes_pending = |hash: &B256| {
            let Some(victim) = self.get(*hash) else { return false };
            self.pending.get(&victim.from).is_some_and(|list| list.get(victim.nonce()).is_some())
        };
        if is_gapped && victims.iter().any(takes_pending) {
            return Err(PoolError::FutureReplacesPending);
        }
        for victim in victims {
            self.evict(victim);
        }
        Ok(())
    }

    /// Enforces the global limit of pending transactions. The accounts with the most pending transactions lose their
    /// last ones, down to `account_slots` each.
    pub(super) fn truncate_pending(&mut self) {
        // A cheap check that most pools pass.
        if self.is_replaying || self.by_hash.len() <= self.limits.global_slots {
            return;
        }
        let mut count: usize = self.pending.values().map(AccountTxs::len).sum();
        while count > self.limits.global_slots {
            let longest = self.pending.iter().map(|(account, list)| (list.len(), *account)).max();
            let Some((_, account)) = longest.filter(|(length, _)| *length > self.limits.account_slots) else { return };
            let Some(last) = self.pending.get(&account).and_then(|list| list.iter().next_back()) else { return };
            let hash = last.tx.hash;
            self.evict(hash);
            count -= 1;
        }
    }

    /// Enforces the global limit of queued transactions. The latest arrivals are evicted first.
    pub(super) fn truncate_queue(&mut self) {
        if self.is_replaying || self.by_hash.len() <= self.limits.global_queue {
            return;
        }
        let count: usize = self.queued.values().map(AccountTxs::len).sum();
        let excess = count.saturating_sub(self.limits.global_queue);
        if excess == 0 {
            return;
        }
        let mut entries: Vec<PoolEntry> = self.queued.values().flat_map(AccountTxs::iter).cloned().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.arrival));
        for entry in entries.into_iter().take(excess) {
            self.evict(entry.tx.hash);
        }
    }

    fn evict(&mut self, hash: B256) {
        if self.remove(hash).is_some() {
            self.evicted.push(hash);
        }
    }
}

/// Sort key for evictions: the tip at the current base fee, then the fee caps.
fn price(tx: &Tx, base_fee: u64) -> (Option<u128>, u128, u128) {
    (tx.effective_tip(base_fee), tx.fee_cap(), tx.tip_cap())
}
