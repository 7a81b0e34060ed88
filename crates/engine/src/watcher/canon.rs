//! The newest part of the canonical chain: headers linked by parent hash, and our hashes in each block.

use std::collections::VecDeque;
use std::sync::Arc;

use gapless_chain::Header;
use gapless_domain::{B256, BlockLink, BlockRef, Tail};

/// Number of blocks for the measurement of the block time.
const TIMED_BLOCKS: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Canon {
    blocks: VecDeque<LinkedBlock>,
    /// The newest final block; all below it are final too. It only moves forward while it is canonical, even if the
    /// chain has become shorter.
    finalized: Option<BlockRef>,
}

#[derive(Debug)]
pub(super) struct LinkedBlock {
    pub(super) link: BlockLink,
    /// Unknown for blocks that were saved before this node started.
    timestamp: Option<u64>,
    pub(super) ours: Vec<B256>,
}

/// The position of a block relative to the kept part of the canonical chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// In the kept part.
    Canonical,
    /// Another block is canonical at its height.
    Orphaned,
    /// Below the kept part.
    Older,
    /// Above the head.
    Newer,
}

impl LinkedBlock {
    fn of(header: &Header) -> Self {
        let link = BlockLink { block: header.block, parent_hash: header.parent_hash };
        LinkedBlock { link, timestamp: Some(header.timestamp), ours: Vec::new() }
    }
}

impl Canon {
    /// Restores a saved head.
    pub(super) fn restore(tail: &Tail, finalized: Option<BlockRef>) -> Self {
        let numbers = tail.first_number()..=tail.last().number;
        let kept = |link| LinkedBlock { link, timestamp: None, ours: Vec::new() };
        let blocks = numbers.filter_map(|number| tail.get(number)).map(kept).collect();
        Canon { blocks, finalized }
    }

    /// Restarts at this block. The final block stays, until it is found not to be on this chain.
    pub(super) fn restart(head: &Header, finalized: Option<BlockRef>) -> Self {
        Canon { blocks: VecDeque::from([LinkedBlock::of(head)]), finalized }
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

    /// The newest blocks, at most `most`.
    pub(super) fn tail(&self, most: u64) -> Option<Tail> {
        let skipped = (self.blocks.len() as u64).saturating_sub(most.max(1));
        Tail::of(self.blocks.iter().skip(usize::try_from(skipped).ok()?).map(|linked| linked.link))
    }

    /// At most `most` confirmations of a transaction in the block at this height.
    pub(super) fn confirmations(&self, number: u64, most: u32) -> Arc<[BlockLink]> {
        let Some(index) = self.index(number) else { return Arc::default() };
        self.blocks.iter().skip(index).take(most as usize).map(|linked| linked.link).collect()
    }

    pub(super) fn position(&self, block: BlockRef) -> Position {
        let (Some(first), Some(head)) = (self.first_number(), self.head()) else { return Position::Newer };
        if block.number < first {
            Position::Older
        } else if block.number > head.number {
            Position::Newer
        } else if self.get(block.number).is_some_and(|link| link.block == block) {
            Position::Canonical
        } else {
            Position::Orphaned
        }
    }

    /// Records one of our hashes in a canonical block. Does nothing for a block below the kept part.
    pub(super) fn record(&mut self, block: BlockRef, hash: B256) {
        if let Some(linked) = self.index(block.number).and_then(|index| self.blocks.get_mut(index))
            && linked.link.block == block
            && !linked.ours.contains(&hash)
        {
            linked.ours.push(hash);
        }
    }

    /// Removes the head: it is no longer canonical.
    pub(super) fn pop(&mut self) -> Option<LinkedBlock> {
        let linked = self.blocks.pop_back()?;
        // The next block at this height was not reported as final to any lane.
        if self.is_final(linked.link.block.number) {
            let parent = linked.link.block.number.checked_sub(1);
            self.finalized = parent.map(|number| BlockRef { number, hash: linked.link.parent_hash });
        }
        Some(linked)
    }

    /// Does this block link to the head?
    pub(super) fn is_next(&self, header: &Header) -> bool {
        self.head().is_none_or(|head| {
            header.parent_hash == head.hash && Some(header.block.number) == head.number.checked_add(1)
        })
    }

    /// Appends a block if it links to the head.
    pub(super) fn push(&mut self, header: &Header) -> bool {
        let links = self.is_next(header);
        if links {
            self.blocks.push_back(LinkedBlock::of(header));
        }
        links
    }

    /// Adds a block below the oldest one if it links.
    pub(super) fn push_below(&mut self, header: &Header) -> bool {
        let links = self.blocks.front().is_some_and(|first| {
            first.link.parent_hash == header.block.hash
                && Some(first.link.block.number) == header.block.number.checked_add(1)
        });
        if links {
            self.blocks.push_front(LinkedBlock::of(header));
        }
        links
    }

    /// Is another block linked at the height of the final one?
    pub(super) fn contradicts_final(&self) -> bool {
        self.finalized.is_some_and(|block| self.position(block) == Position::Orphaned)
    }

    /// The newest final block; it may be below the kept part.
    pub(super) fn final_block(&self) -> Option<BlockRef> {
        self.finalized
    }

    pub(super) fn is_final(&self, number: u64) -> bool {
        self.finalized.is_some_and(|upto| number <= upto.number)
    }

    /// Blocks up to this one that are not final yet and hold our hashes.
    pub(super) fn ours_up_to(&self, upto: BlockRef) -> Vec<(BlockRef, Vec<B256>)> {
        let is_new = |linked: &&LinkedBlock| {
            let number = linked.link.block.number;
            number <= upto.number && !self.is_final(number) && !linked.ours.is_empty()
        };
        self.blocks.iter().filter(is_new).map(|linked| (linked.link.block, linked.ours.clone())).collect()
    }

    /// Makes everything up to this block final. A block below the final one is ignored.
    pub(super) fn finalize(&mut self, upto: BlockRef) {
        if self.position(upto) == Position::Canonical && !self.is_final(upto.number) {
            self.finalized = Some(upto);
        }
    }

    /// Drops blocks below this height. Returns dropped blocks with our hashes that were not reported as final: the
    /// blocks that are not final, and all blocks while no finality is reported.
    pub(super) fn trim(&mut self, below: u64, is_reported: bool) -> Vec<LinkedBlock> {
        let mut forgotten = Vec::new();
        while self.blocks.len() > 1
            && let Some(linked) = self.blocks.pop_front_if(|linked| linked.link.block.number < below)
        {
            let was_reported = is_reported && self.is_final(linked.link.block.number);
            if !linked.ours.is_empty() && !was_reported {
                forgotten.push(linked);
            }
        }
        forgotten
    }

    /// Milliseconds from block to block, over the newest ones. Some genesis blocks have no timestamp.
    pub(super) fn block_time_ms(&self) -> Option<u64> {
        let timed = |linked: &LinkedBlock| Some((linked.link.block.number, linked.timestamp?));
        let newest = self.blocks.iter().rev().take(TIMED_BLOCKS).filter_map(timed);
        let mut timed = newest.filter(|(number, _)| *number > 0);
        let (last, ended) = timed.next()?;
        let (first, began) = timed.next_back()?;
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
        let mut canon = Canon::restart(&header(1, 0, 0), None);
        assert!((2..=upto).all(|number| canon.push(&header(number, 0, 0))));
        canon
    }

    #[test]
    fn push_below_rejects_unlinked_block() {
        let mut canon = Canon::restart(&header(5, 0, 0), None);
        assert!(!canon.push_below(&header(3, 0, 0)), "a missing block");
        assert!(!canon.push_below(&header(4, 1, 0)), "another fork");
        assert!(canon.push_below(&header(4, 0, 0)));
        assert_eq!((canon.first_number(), canon.position(header(4, 0, 0).block)), (Some(4), Position::Canonical));
    }

    #[test]
    fn trim_returns_blocks_not_reported_as_final() {
        // While no finality is reported, final blocks are returned too.
        for (is_reported, wanted) in [(false, vec![3, 4]), (true, vec![4])] {
            let mut canon = canon(9);
            (3..=5).for_each(|number| canon.record(header(number, 0, 0).block, B256::with_last_byte(number as u8)));
            canon.finalize(header(3, 0, 0).block);
            let forgotten: Vec<u64> =
                canon.trim(5, is_reported).iter().map(|linked| linked.link.block.number).collect();
            assert_eq!((forgotten, canon.first_number()), (wanted, Some(5)));
            assert_eq!(canon.final_block(), Some(header(3, 0, 0).block), "even below the kept part");
        }
    }

    #[test]
    fn push_rejects_unlinked_block() {
        let mut canon = canon(3);
        assert!(!canon.push(&header(5, 0, 0)), "a missing block");
        assert!(!canon.push(&header(4, 1, 1)), "another fork");
        assert!(canon.push(&header(4, 0, 0)));
    }

    #[test]
    fn position_is_decided_by_hash() {
        let canon = canon(5);
        assert_eq!(canon.position(header(3, 0, 0).block), Position::Canonical);
        assert_eq!(canon.position(header(3, 1, 0).block), Position::Orphaned);
        assert_eq!(canon.position(header(6, 0, 0).block), Position::Newer);
        assert_eq!(canon.position(header(0, 0, 0).block), Position::Older);
    }

    #[test]
    fn block_becomes_final_once() {
        let mut canon = canon(6);
        let ours = B256::repeat_byte(7);
        canon.record(header(4, 0, 0).block, ours);
        assert_eq!(canon.ours_up_to(header(3, 0, 0).block), Vec::new());
        assert_eq!(canon.ours_up_to(header(4, 0, 0).block), vec![(header(4, 0, 0).block, vec![ours])]);
        canon.finalize(header(4, 0, 0).block);
        assert_eq!(canon.ours_up_to(header(4, 0, 0).block), Vec::new());
        canon.finalize(header(3, 0, 0).block);
        assert_eq!(canon.final_block(), Some(header(4, 0, 0).block), "a lower answer is ignored");
        canon.finalize(header(5, 1, 0).block);
        canon.finalize(header(7, 0, 0).block);
        assert_eq!(canon.final_block(), Some(header(4, 0, 0).block), "these are not linked");
    }

    /// A fork below the final block: our hashes in its blocks become final again.
    #[test]
    fn fork_below_final_block_becomes_final_again() {
        let mut canon = canon(9);
        canon.finalize(header(7, 0, 0).block);
        for _ in 0..5 {
            assert!(canon.pop().is_some());
        }
        assert!(canon.push(&header(5, 1, 0)));
        let ours = B256::repeat_byte(7);
        canon.record(header(5, 1, 0).block, ours);
        assert!(canon.is_final(4), "canonical, and final before");
        assert!(!canon.is_final(5));
        assert_eq!(canon.ours_up_to(header(5, 1, 0).block), vec![(header(5, 1, 0).block, vec![ours])]);
    }

    /// Nonces are read at the final block, and a lower one than before would look like a chain that went back.
    #[test]
    fn final_block_stays_when_head_goes_back() {
        let mut canon = canon(9);
        canon.finalize(header(7, 0, 0).block);
        assert!(canon.pop().is_some() && canon.pop().is_some());
        assert!(canon.push(&header(8, 1, 0)));
        canon.finalize(header(6, 0, 0).block);
        assert_eq!(canon.final_block(), Some(header(7, 0, 0).block));
        assert!(canon.pop().is_some() && canon.pop().is_some());
        assert_eq!(canon.final_block(), Some(header(6, 0, 0).block), "the former one is orphaned");
    }

    #[test]
    fn restored_canon_equals_saved_head() {
        let mut before = canon(9);
        before.finalize(header(7, 0, 0).block);
        let after = Canon::restore(&before.tail(99).unwrap(), before.final_block());
        assert_eq!((after.head(), after.final_block()), (before.head(), before.final_block()));
        assert_eq!(after.confirmations(8, 5).len(), 2);
        assert_eq!(after.block_time_ms(), None);
    }

    #[test]
    fn block_time_is_measured() {
        assert_eq!(canon(5).block_time_ms(), Some(2000));
        assert_eq!(canon(1).block_time_ms(), None);
    }
}
