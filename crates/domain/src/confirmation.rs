//! Confirmation notices: the list of linked blocks on top of a transaction, as consumers follow it.
//!
//! The first notice carries the whole list. So does every notice that does not continue the previous one; it starts a
//! new fork. Other notices carry only the new blocks. Under load, notices may be skipped: the ledger keeps the last
//! block that consumers were notified of, and the next notice is made by comparing that block with the chain. A skipped
//! notice therefore never hides a fork.

use crate::block::{BlockLink, BlockRef};

/// A change of one transaction's list of confirmations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfirmationNotice {
    /// True if the consumer must discard the list that it has.
    pub new_fork: bool,
    /// The whole list for a new fork; otherwise the blocks after the last notice.
    pub links: Vec<BlockLink>,
}

impl ConfirmationNotice {
    /// The first notice: a list of one block.
    pub fn first(link: BlockLink) -> Self {
        ConfirmationNotice { new_fork: true, links: vec![link] }
    }

    /// The notice that turns the list up to `notified` into `list`; `None` if both lists are equal.
    ///
    /// Blocks are linked by hash, so the last block stands for the whole list.
    pub fn between(notified: BlockRef, list: &[BlockLink]) -> Option<Self> {
        let known = list.iter().position(|link| link.block == notified);
        let links = list.get(known.map_or(0, |known| known.saturating_add(1))..).unwrap_or_default();
        let notice = ConfirmationNotice { new_fork: known.is_none(), links: links.to_vec() };
        (!notice.links.is_empty()).then_some(notice)
    }

    /// The last block of the notice.
    pub fn tip(&self) -> Option<BlockRef> {
        self.links.last().map(|link| link.block)
    }

    /// Updates the consumer's list.
    pub fn apply(&self, list: &mut Vec<BlockLink>) {
        if self.new_fork {
            list.clear();
        }
        list.extend_from_slice(&self.links);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;

    fn list(upto: u64, forked_from: u64) -> Vec<BlockLink> {
        let hash = |number: u64| B256::with_last_byte(number as u8 + if number >= forked_from { 100 } else { 0 });
        let link =
            |number: u64| BlockLink { block: BlockRef { number, hash: hash(number) }, parent_hash: hash(number - 1) };
        (5..=upto).map(link).collect()
    }

    #[test]
    fn notice_after_known_block_carries_new_blocks() {
        let notified = list(6, 99).last().unwrap().block;
        let notice = ConfirmationNotice::between(notified, &list(8, 99)).unwrap();
        assert_eq!((notice.new_fork, notice.links.len()), (false, 2));
        assert_eq!(ConfirmationNotice::between(notified, &list(6, 99)), None);
    }

    #[test]
    fn notice_after_fork_carries_whole_list() {
        let notified = list(8, 99).last().unwrap().block;
        let notice = ConfirmationNotice::between(notified, &list(7, 7)).unwrap();
        assert_eq!((notice.new_fork, notice.links.clone()), (true, list(7, 7)));
        let mut consumer = list(8, 99);
        notice.apply(&mut consumer);
        assert_eq!(consumer, list(7, 7));
    }

    #[test]
    fn notice_for_empty_list_is_none() {
        assert_eq!(ConfirmationNotice::between(list(8, 99)[0].block, &[]), None);
    }
}
