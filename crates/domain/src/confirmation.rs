//! How consumers follow the confirmations of a transaction: a list of linked blocks, beginning with its own.
//!
//! The first notice, and every one that no longer continues what was told before, is a new fork and carries the whole list;
//! the others carry only what is new. Notices may be left out under load: what was told last is in the ledger, and the next
//! one is made by comparing that with the chain, so a fork in between is never lost.

use crate::block::{BlockLink, BlockRef};
use crate::mistakes::{Mistake, made};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfirmationNotice {
    /// The consumer throws away what it has.
    pub new_fork: bool,
    /// The whole list if this is a new fork; else what comes after what was told.
    pub links: Vec<BlockLink>,
}

impl ConfirmationNotice {
    /// The beginning of a list.
    pub fn first(link: BlockLink) -> Self {
        ConfirmationNotice { new_fork: true, links: vec![link] }
    }

    /// What has to be told to whoever knows the list up to `told`, so that it has `list`; `None` if it has.
    ///
    /// Blocks are linked, so the last one that was told stands for all of them.
    pub fn between(told: BlockRef, list: &[BlockLink]) -> Option<Self> {
        let continues =
            |link: &BlockLink| link.block == told || (made(Mistake::ForkContinues) && link.block.number == told.number);
        let known = list.iter().position(continues);
        let links = list.get(known.map_or(0, |known| known.saturating_add(1))..).unwrap_or_default();
        let notice = ConfirmationNotice { new_fork: known.is_none(), links: links.to_vec() };
        (!notice.links.is_empty()).then_some(notice)
    }

    /// The last block that is told by it.
    pub fn tip(&self) -> Option<BlockRef> {
        self.links.last().map(|link| link.block)
    }

    /// What a consumer does with it.
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
    fn whoever_knows_the_beginning_is_told_the_rest() {
        let told = list(6, 99).last().unwrap().block;
        let notice = ConfirmationNotice::between(told, &list(8, 99)).unwrap();
        assert_eq!((notice.new_fork, notice.links.len()), (false, 2));
        assert_eq!(ConfirmationNotice::between(told, &list(6, 99)), None);
    }

    #[test]
    fn whoever_knows_another_list_is_told_the_whole() {
        let told = list(8, 99).last().unwrap().block;
        let notice = ConfirmationNotice::between(told, &list(7, 7)).unwrap();
        assert_eq!((notice.new_fork, notice.links.clone()), (true, list(7, 7)));
        let mut consumer = list(8, 99);
        notice.apply(&mut consumer);
        assert_eq!(consumer, list(7, 7));
    }

    #[test]
    fn nothing_is_told_of_a_list_that_nobody_knows() {
        assert_eq!(ConfirmationNotice::between(list(8, 99)[0].block, &[]), None);
    }
}
