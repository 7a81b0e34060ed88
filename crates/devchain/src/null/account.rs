//! An account: its nonces, and its transactions that wait to be mined.

use std::collections::{BTreeMap, VecDeque};

use super::tx::NullTx;

#[derive(Debug, Default)]
pub(super) struct NullAccount {
    /// The nonce that is mined next.
    pub(super) next: u64,
    /// The first missing nonce. All transactions before it can be mined.
    pub(super) first_missing: u64,
    /// Transactions by nonce: without gaps from `next` to `first_missing`, with gaps after it.
    waiting: BTreeMap<u64, NullTx>,
    /// Transaction counts after the blocks that changed them: one entry per kept block, and one older entry.
    counts: VecDeque<CountAt>,
}

#[derive(Clone, Copy, Debug)]
struct CountAt {
    block: u64,
    count: u64,
}

impl NullAccount {
    pub(super) fn waiting(&self, nonce: u64) -> Option<&NullTx> {
        self.waiting.get(&nonce)
    }

    pub(super) fn can_be_mined(&self) -> bool {
        self.next < self.first_missing
    }

    /// Stores a transaction until it is mined, and returns the one that it replaces.
    pub(super) fn put(&mut self, tx: NullTx) -> Option<NullTx> {
        let replaced = self.waiting.insert(tx.nonce, tx);
        while self.waiting.contains_key(&self.first_missing) {
            self.first_missing += 1;
        }
        replaced
    }

    /// Moves at most `most` minable transactions into a block.
    pub(super) fn mine(&mut self, most: usize, block: u64, oldest_block: u64, into: &mut Vec<NullTx>) {
        let before = self.next;
        while self.can_be_mined() && self.next - before < most as u64 {
            into.extend(self.waiting.remove(&self.next));
            self.next += 1;
        }
        while self.counts.get(1).is_some_and(|second| second.block <= oldest_block) {
            self.counts.pop_front();
        }
        self.counts.push_back(CountAt { block, count: self.next });
    }

    /// Number of mined transactions as of a kept block.
    pub(super) fn count_at(&self, block: u64) -> u64 {
        let later = self.counts.partition_point(|at| at.block <= block);
        later.checked_sub(1).and_then(|last| self.counts.get(last)).map_or(0, |at| at.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256};

    fn tx(nonce: u64) -> NullTx {
        let (hash, from) = (B256::ZERO, Address::ZERO);
        NullTx { hash, from, nonce, gas_used: 0, tip_cap: 0, fee_cap: 0, ty: 2, raw: Box::default() }
    }

    #[test]
    fn nonce_gap_holds_back_later_transactions() {
        let mut account = NullAccount::default();
        for nonce in [0, 2, 3] {
            account.put(tx(nonce));
        }
        let mut mined = Vec::new();
        account.mine(10, 1, 0, &mut mined);
        assert_eq!((mined.len(), account.next, account.first_missing), (1, 1, 1));
        account.put(tx(1));
        account.mine(2, 2, 0, &mut mined);
        assert_eq!((mined.len(), account.next, account.first_missing), (3, 3, 4));
        assert!(account.can_be_mined());
    }

    #[test]
    fn counts_are_kept_as_long_as_their_blocks() {
        let mut account = NullAccount::default();
        for nonce in 0..6 {
            account.put(tx(nonce));
            account.mine(1, 10 * (nonce + 1), 35, &mut Vec::new());
        }
        assert_eq!([35, 40, 59, 60, 99].map(|block| account.count_at(block)), [3, 4, 5, 6, 6]);
        assert!(account.counts.len() <= 5);
        assert_eq!(NullAccount::default().count_at(5), 0);
    }
}
