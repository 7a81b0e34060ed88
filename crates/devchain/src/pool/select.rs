//! Selection and order of pending transactions for a block.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use super::account_txs::{AccountTxs, PoolEntry};
use crate::tx::Tx;

/// The candidates for one block: by tip, then by arrival, and within an account by nonce.
#[derive(Debug)]
pub(crate) struct Selection {
    accounts: Vec<VecDeque<PoolEntry>>,
    /// The first candidate of each account: tip, arrival, account index.
    heads: BinaryHeap<(u128, Reverse<u64>, usize)>,
    base_fee: u64,
}

impl Selection {
    pub(super) fn new<'a>(lists: impl Iterator<Item = &'a AccountTxs>, base_fee: u64) -> Self {
        let mut selection = Self { accounts: Vec::new(), heads: BinaryHeap::new(), base_fee };
        for list in lists {
            // A transaction below the base fee blocks the later ones of its account, because they need its nonce.
            let payable = list.iter().take_while(|entry| entry.tx.effective_tip(base_fee).is_some());
            selection.accounts.push(payable.cloned().collect());
            selection.push_candidate(selection.accounts.len() - 1);
        }
        selection
    }

    /// The best candidate. It stays a candidate until [`Self::pop_best`] or [`Self::skip_account`].
    pub(crate) fn best(&self) -> Option<Arc<Tx>> {
        let (_, _, account) = self.heads.peek()?;
        self.accounts[*account].front().map(|entry| entry.tx.clone())
    }

    /// Removes the best candidate, which is in the block now. The account's next transaction becomes a candidate.
    pub(crate) fn pop_best(&mut self) {
        if let Some((_, _, account)) = self.heads.pop() {
            self.accounts[account].pop_front();
            self.push_candidate(account);
        }
    }

    /// Removes the account of the best candidate, which does not fit into the block.
    pub(crate) fn skip_account(&mut self) {
        self.heads.pop();
    }

    fn push_candidate(&mut self, account: usize) {
        let Some(entry) = self.accounts[account].front() else { return };
        if let Some(tip) = entry.tx.effective_tip(self.base_fee) {
            self.heads.push((tip, Reverse(entry.arrival), account));
        }
    }
}
