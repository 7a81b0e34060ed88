//! The newest part of the canonical chain: headers linked by parent hash, and which of our hashes stand in each.

use std::collections::VecDeque;
use std::sync::Arc;

use gapless_chain::Header;
use gapless_domain::{B256, BlockLink, BlockRef, Tail};

#[derive(Debug, Default)]
pub(super) struct Canon {
    blocks: VecDeque<Linked>,
    /// Everything up to this number is final. It only moves forward while it is canonical, also if the chain is shorter now
    /// than it was.
    final_number: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Linked {
    pub(super) link: BlockLink,
    /// Not known of what was kept from before this node started.
    timestamp: Option<u64>,
    pub(super) ours: Vec<B256>,
}

/// Where a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On the canonical chain, as far as it is kept.
    Canonical,
    /// Another block is canonical at its height.
    Orphaned,
    /// Older than everything kept.
    Older,
    /// Newer than everything kept.
    Newer,
}

impl Linked {
    fn of(header: &Header) -> Self {
        let link = BlockLink { block: header.block, parent_hash: header.parent_hash };
        Linked { link, timestamp: Some(header.timestamp), ours: Vec::new() }
    }
}

impl Canon {
    /// What was kept from before.
    pub(super) fn restore(tail: &Tail, finalized: Option<BlockRef>) -> Self {
        let numbers = tail.first_number()..=tail.last().number;
        let kept = |link| Linked { link, timestamp: None, ours: Vec::new() };
        let blocks = numbers.filter_map(|number| tail.get(number)).map(kept).collect();
        Canon { blocks, final_number: finalized.map(|block| block.number) }
    }

    /// Begins anew with blocks in order, each linked to the one before.
    pub(super) fn restart<'a>(headers: impl IntoIterator<Item = &'a Header>) -> Self {
        Canon { blocks: headers.into_iter().map(Linked::of).collect(), final_number: None }
    }

    pub(super) fn head(&self) -> Option<BlockRef> {
        self.blocks.back().map(|linked| linked.link.block)
    }

    pub(super) fn first_number(&self) -> Option<u64> {
        self.blocks.front().map(|linked| linked.link.block.number)
    }

    pub(super) fn get(&self, number: u64) -> Option<BlockLink> {
        self.blocks.get(self.index(number)?).map(|linked| linked.link)
    }

    pub(super) fn tail(&self) -> Option<Tail> {
        Tail::of(self.blocks.iter().map(|linked| linked.link))
    }

    /// At most `most` confirmations of what stands in the block at this height.
    pub(super) fn list(&self, number: u64, most: u32) -> Arc<[BlockLink]> {
        let Some(index) = self.index(number) else { return Arc::default() };
        self.blocks.iter().skip(index).take(most as usize).map(|linked| linked.link).collect()
    }

    pub(super) fn place(&self, block: BlockRef) -> Place {
        let (Some(first), Some(head)) = (self.first_number(), self.head()) else { return Place::Newer };
        if block.number < first {
            Place::Older
        } else if block.number > head.number {
            Place::Newer
        } else if self.get(block.number).is_some_and(|link| link.block == block) {
            Place::Canonical
        } else {
            Place::Orphaned
        }
    }

    /// One of our hashes stands in this canonical block.
    pub(super) fn note(&mut self, block: BlockRef, hash: B256) {
        if let Some(linked) = self.index(block.number).and_then(|index| self.blocks.get_mut(index))
            && linked.link.block == block
            && !linked.ours.contains(&hash)
        {
            linked.ours.push(hash);
        }
    }

    /// Takes the newest block off: it is no longer canonical.
    pub(super) fn pop(&mut self) -> Option<Linked> {
        let linked = self.blocks.pop_back()?;
        // Another block will stand at its height, and nobody was told of that one.
        let below = linked.link.block.number.checked_sub(1);
        self.final_number = self.final_number.and_then(|number| below.map(|below| number.min(below)));
        Some(linked)
    }

    /// Puts the next block on, which must link to the head.
    pub(super) fn push(&mut self, header: &Header) -> bool {
        let links = self
            .head()
            .is_none_or(|head| header.parent_hash == head.hash && header.block.number == head.number.saturating_add(1));
        if links {
            self.blocks.push_back(Linked::of(header));
        }
        links
    }

    /// The newest final block, if it is kept.
    pub(super) fn final_block(&self) -> Option<BlockRef> {
        self.get(self.final_number?).map(|link| link.block)
    }

    pub(super) fn is_final(&self, number: u64) -> bool {
        self.final_number.is_some_and(|upto| number <= upto)
    }

    /// Everything up to the block at this height is final. Returns those blocks that were not before and in which something
    /// of ours stands.
    pub(super) fn finalize(&mut self, upto: u64) -> Vec<(BlockRef, Vec<B256>)> {
        let Some(head) = self.head() else { return Vec::new() };
        let upto = upto.min(head.number);
        let is_new = |linked: &&Linked| {
            let number = linked.link.block.number;
            number <= upto && !self.is_final(number) && !linked.ours.is_empty()
        };
        let found = self.blocks.iter().filter(is_new).map(|linked| (linked.link.block, linked.ours.clone())).collect();
        self.final_number = self.final_number.max(Some(upto));
        found
    }

    /// Forgets what lies below this height.
    pub(super) fn trim(&mut self, below: u64) {
        while self.blocks.len() > 1 && self.first_number().is_some_and(|first| first < below) {
            self.blocks.pop_front();
        }
    }

    /// Milliseconds from block to block, over what is kept.
    pub(super) fn block_time_ms(&self) -> Option<u64> {
        let timed = || self.blocks.iter().filter_map(|linked| Some((linked.link.block.number, linked.timestamp?)));
        let ((first, began), (last, ended)) = (timed().next()?, timed().next_back()?);
        let blocks = last.checked_sub(first).filter(|blocks| *blocks > 0)?;
        Some(ended.saturating_sub(began).saturating_mul(1000) / blocks)
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first_number()?)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(number: u64, fork: u8, parent_fork: u8) -> Header {
        let hash = |number: u64, fork: u8| {
            B256::from(
                [[0; 23].as_slice(), &[fork], &number.to_be_bytes()].concat().as_slice().try_into().unwrap_or([0; 32]),
            )
        };
        Header {
            block: BlockRef { number, hash: hash(number, fork) },
            parent_hash: hash(number.saturating_sub(1), parent_fork),
            timestamp: number * 2,
            base_fee: None,
        }
    }

    fn canon(upto: u64) -> Canon {
        Canon::restart((1..=upto).map(|number| header(number, 0, 0)).collect::<Vec<_>>().iter())
    }

    #[test]
    fn only_what_links_is_put_on() {
        let mut canon = canon(3);
        assert!(!canon.push(&header(5, 0, 0)), "a hole");
        assert!(!canon.push(&header(4, 1, 1)), "another fork");
        assert!(canon.push(&header(4, 0, 0)));
    }

    #[test]
    fn a_block_is_placed_by_its_hash() {
        let canon = canon(5);
        assert_eq!(canon.place(header(3, 0, 0).block), Place::Canonical);
        assert_eq!(canon.place(header(3, 1, 0).block), Place::Orphaned);
        assert_eq!(canon.place(header(6, 0, 0).block), Place::Newer);
        assert_eq!(canon.place(header(0, 0, 0).block), Place::Older);
    }

    #[test]
    fn finality_is_told_once() {
        let mut canon = canon(6);
        let ours = B256::repeat_byte(7);
        canon.note(header(4, 0, 0).block, ours);
        assert_eq!(canon.finalize(3), Vec::new());
        assert_eq!(canon.finalize(4), vec![(header(4, 0, 0).block, vec![ours])]);
        assert_eq!(canon.finalize(4), Vec::new());
        assert_eq!(canon.finalize(3), Vec::new());
        assert_eq!(canon.final_block(), Some(header(4, 0, 0).block), "a lower answer is ignored");
        canon.finalize(99);
        assert_eq!(canon.final_block(), Some(header(6, 0, 0).block), "nobody has linked what is newer");
    }

    /// A fork below what was final: what stands there now is told as well.
    #[test]
    fn finality_is_told_anew_for_other_blocks() {
        let mut canon = canon(9);
        canon.finalize(7);
        for _ in 0..5 {
            assert!(canon.pop().is_some());
        }
        assert!(canon.push(&header(5, 1, 0)));
        let ours = B256::repeat_byte(7);
        canon.note(header(5, 1, 0).block, ours);
        assert!(canon.is_final(4), "canonical, and final before");
        assert!(!canon.is_final(5));
        assert_eq!(canon.finalize(5), vec![(header(5, 1, 0).block, vec![ours])]);
    }

    /// Counts are read at the final block, and one that is lower than before would look like a chain that went back.
    #[test]
    fn the_final_block_does_not_go_back_with_the_head() {
        let mut canon = canon(9);
        canon.finalize(7);
        assert!(canon.pop().is_some() && canon.pop().is_some());
        assert!(canon.push(&header(8, 1, 0)));
        canon.finalize(6);
        assert_eq!(canon.final_block(), Some(header(7, 0, 0).block));
        assert!(canon.pop().is_some() && canon.pop().is_some());
        assert_eq!(canon.final_block(), Some(header(6, 0, 0).block), "that one is orphaned");
    }

    #[test]
    fn what_was_kept_comes_back() {
        let mut before = canon(9);
        before.finalize(7);
        let after = Canon::restore(&before.tail().unwrap(), before.final_block());
        assert_eq!((after.head(), after.final_block()), (before.head(), before.final_block()));
        assert_eq!(after.list(8, 5).len(), 2);
        assert_eq!(after.block_time_ms(), None);
    }

    #[test]
    fn the_block_time_is_learned() {
        assert_eq!(canon(5).block_time_ms(), Some(2000));
        assert_eq!(canon(1).block_time_ms(), None);
    }
}
