//! Which pending transactions go into a block, and in what order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use super::list::{Entry, List};
use crate::tx::Tx;

/// The candidates for one block: by tip, then by arrival; within an account by nonce.
#[derive(Debug)]
pub(crate) struct Selection {
    accounts: Vec<VecDeque<Entry>>,
    /// The first candidate of each account: its tip, when it came, whose it is.
    heads: BinaryHeap<(u128, Reverse<u64>, usize)>,
    base_fee: u64,
}

impl Selection {
    pub(super) fn new<'a>(lists: impl Iterator<Item = &'a List>, base_fee: u64) -> Self {
        let mut selection = Self { accounts: Vec::new(), heads: BinaryHeap::new(), base_fee };
        for list in lists {
            // One that does not pay the base fee holds up those behind it: they need its nonce.
            let payable = list.iter().take_while(|entry| entry.tx.effective_tip(base_fee).is_some());
            selection.accounts.push(payable.cloned().collect());
            selection.offer(selection.accounts.len() - 1);
        }
        selection
    }

    /// The best candidate, which stays where it is until [`Self::taken`] or [`Self::skip_account`].
    pub(crate) fn best(&self) -> Option<Arc<Tx>> {
        let (_, _, account) = self.heads.peek()?;
        self.accounts[*account].front().map(|entry| entry.tx.clone())
    }

    /// The best candidate is in the block; the account's next one may follow.
    pub(crate) fn taken(&mut self) {
        if let Some((_, _, account)) = self.heads.pop() {
            self.accounts[account].pop_front();
            self.offer(account);
        }
    }

    /// The best candidate cannot be in the block, so nothing of its account can.
    pub(crate) fn skip_account(&mut self) {
        self.heads.pop();
    }

    fn offer(&mut self, account: usize) {
        let Some(entry) = self.accounts[account].front() else { return };
        if let Some(tip) = entry.tx.effective_tip(self.base_fee) {
            self.heads.push((tip, Reverse(entry.arrival), account));
        }
    }
}
