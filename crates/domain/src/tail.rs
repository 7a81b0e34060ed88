//! The newest part of a canonical chain.

use alloy_primitives::B256;

use crate::block::{BlockLink, BlockRef};

/// Linked blocks without a gap, at least one. A block hash covers all blocks below it, so a tail that contains a block
/// also fixes the chain up to that block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    first: u64,
    /// Parent hash of the first block, followed by the hashes of the blocks.
    hashes: Vec<B256>,
}

/// State that a watcher saves for its successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub tail: Tail,
    /// The newest final block. It only moves forward.
    pub finalized: Option<BlockRef>,
    /// Genesis hash, pinned at the first read. Another genesis means another chain.
    pub genesis: Option<B256>,
}

impl Tail {
    pub fn new(first: BlockLink) -> Self {
        Tail { first: first.block.number, hashes: vec![first.parent_hash, first.block.hash] }
    }

    /// Reads a tail from its first block number and [`Tail::hashes`]. `None` if it contains no block.
    pub fn restore(first: u64, hashes: Vec<B256>) -> Option<Self> {
        let blocks = u64::try_from(hashes.len()).ok()?.checked_sub(1)?;
        first.checked_add(blocks)?;
        (blocks > 0).then_some(Tail { first, hashes })
    }

    /// A tail of blocks in order. `None` if the blocks are not linked, or if there is no block.
    pub fn of(links: impl IntoIterator<Item = BlockLink>) -> Option<Self> {
        let mut links = links.into_iter();
        let mut tail = Tail::new(links.next()?);
        links.all(|link| tail.push(link)).then_some(tail)
    }

    /// Appends a block. Returns false, and changes nothing, if the block's parent is not the last block.
    pub fn push(&mut self, link: BlockLink) -> bool {
        let last = self.last();
        let links = link.parent_hash == last.hash && Some(link.block.number) == last.number.checked_add(1);
        if links {
            self.hashes.push(link.block.hash);
        }
        links
    }

    pub fn first_number(&self) -> u64 {
        self.first
    }

    /// Parent hash of the first block, followed by the hash of each block.
    pub fn hashes(&self) -> &[B256] {
        &self.hashes
    }

    pub fn last(&self) -> BlockRef {
        let number = self.first.saturating_add(self.blocks().saturating_sub(1));
        BlockRef { number, hash: self.hashes.last().copied().unwrap_or_default() }
    }

    pub fn get(&self, number: u64) -> Option<BlockLink> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let (parent_hash, hash) = (*self.hashes.get(index)?, *self.hashes.get(index.checked_add(1)?)?);
        Some(BlockLink { block: BlockRef { number, hash }, parent_hash })
    }

    pub fn contains(&self, block: BlockRef) -> bool {
        self.get(block.number).is_some_and(|link| link.block == block)
    }

    /// True if the tail has another block at the same height.
    pub fn contradicts(&self, block: BlockRef) -> bool {
        self.get(block.number).is_some_and(|link| link.block != block)
    }

    /// At most `most` blocks, starting with `block`; empty if the tail does not contain it.
    pub fn list_from(&self, block: BlockRef, most: u32) -> Vec<BlockLink> {
        if !self.contains(block) {
            return Vec::new();
        }
        let numbers = block.number..block.number.saturating_add(u64::from(most));
        numbers.map_while(|number| self.get(number)).collect()
    }

    fn blocks(&self) -> u64 {
        self.hashes.len().saturating_sub(1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(number: u64, fork: u8, parent_fork: u8) -> BlockLink {
        let hash = |number: u64, fork: u8| B256::with_last_byte(number as u8 * 16 + fork);
        BlockLink {
            block: BlockRef { number, hash: hash(number, fork) },
            parent_hash: hash(number.wrapping_sub(1), parent_fork),
        }
    }

    #[test]
    fn push_of_unlinked_block_is_rejected() {
        let mut tail = Tail::new(link(3, 0, 0));
        assert!(!tail.push(link(5, 0, 0)), "a hole");
        assert!(!tail.push(link(4, 0, 1)), "another fork");
        assert!(tail.push(link(4, 0, 0)));
        assert_eq!(tail.last(), link(4, 0, 0).block);
        assert_eq!((tail.get(2), tail.get(3), tail.get(5)), (None, Some(link(3, 0, 0)), None));
    }

    #[test]
    fn block_lookup_compares_hash_and_height() {
        let tail = Tail::of((3..=6).map(|number| link(number, 0, 0))).unwrap();
        assert!(tail.contains(link(5, 0, 0).block) && !tail.contains(link(5, 1, 0).block));
        assert!(tail.contradicts(link(5, 1, 0).block) && !tail.contradicts(link(7, 1, 0).block));
        assert_eq!(tail.list_from(link(5, 0, 0).block, 9), vec![link(5, 0, 0), link(6, 0, 0)]);
        assert_eq!(tail.list_from(link(4, 0, 0).block, 2), vec![link(4, 0, 0), link(5, 0, 0)]);
        assert_eq!(tail.list_from(link(4, 1, 0).block, 2), Vec::new());
    }

    #[test]
    fn tail_survives_save_and_restore() {
        let tail = Tail::of((3..=6).map(|number| link(number, 0, 0))).unwrap();
        assert_eq!(Tail::restore(tail.first_number(), tail.hashes().to_vec()), Some(tail));
        assert_eq!(Tail::restore(3, vec![B256::ZERO]), None);
        assert_eq!(Tail::restore(u64::MAX, vec![B256::ZERO; 3]), None);
        assert_eq!(Tail::of([link(3, 0, 0), link(4, 0, 1)]), None);
    }
}
