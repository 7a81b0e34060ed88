//! The newest part of the canonical chain: headers linked by parent hash, and which of our hashes stand in each block.

use std::collections::VecDeque;

use gapless_chain::Header;
use gapless_domain::{B256, BlockRef};

/// Everything at or below `final_number` is final by depth. Blocks older than the first one kept are final as well.
#[derive(Debug, Default)]
pub(super) struct Canon {
    blocks: VecDeque<Linked>,
    /// Blocks up to this number were told to be final.
    final_told: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Linked {
    pub(super) header: Header,
    pub(super) ours: Vec<B256>,
}

/// Where a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On the canonical chain, as far as it is kept.
    Canonical,
    /// Another block is canonical at its height.
    Orphaned,
    /// Older than everything kept: final, if it is canonical.
    Older,
    /// Newer than everything kept.
    Newer,
}

impl Canon {
    /// Begins anew with blocks in order, each linked to the one before.
    pub(super) fn restart(headers: impl IntoIterator<Item = Header>) -> Self {
        let blocks = headers.into_iter().map(|header| Linked { header, ours: Vec::new() }).collect();
        Canon { blocks, final_told: None }
    }

    pub(super) fn head(&self) -> Option<&Header> {
        self.blocks.back().map(|linked| &linked.header)
    }

    pub(super) fn first_number(&self) -> Option<u64> {
        self.blocks.front().map(|linked| linked.header.block.number)
    }

    pub(super) fn get(&self, number: u64) -> Option<&Header> {
        let index = number.checked_sub(self.first_number()?)?;
        self.blocks.get(usize::try_from(index).ok()?).map(|linked| &linked.header)
    }

    pub(super) fn place(&self, block: BlockRef) -> Place {
        let (Some(first), Some(head)) = (self.first_number(), self.head()) else { return Place::Newer };
        if block.number < first {
            Place::Older
        } else if block.number > head.block.number {
            Place::Newer
        } else if self.get(block.number).is_some_and(|header| header.block.hash == block.hash) {
            Place::Canonical
        } else {
            Place::Orphaned
        }
    }

    /// One of our hashes stands in this canonical block.
    pub(super) fn note(&mut self, block: BlockRef, hash: B256) {
        let Some(first) = self.first_number() else { return };
        let index = block.number.checked_sub(first).and_then(|index| usize::try_from(index).ok());
        if let Some(linked) = index.and_then(|index| self.blocks.get_mut(index))
            && linked.header.block == block
            && !linked.ours.contains(&hash)
        {
            linked.ours.push(hash);
        }
    }

    /// Takes the newest block off: it is no longer canonical.
    pub(super) fn pop(&mut self) -> Option<Linked> {
        let linked = self.blocks.pop_back()?;
        // Another block will stand at its height, and nobody was told of that one.
        self.final_told = self.final_told.map(|told| told.min(linked.header.block.number.saturating_sub(1)));
        Some(linked)
    }

    /// Puts the next block on, which must link to the head.
    pub(super) fn push(&mut self, header: Header) -> bool {
        let links = self.head().is_none_or(|head| {
            header.parent_hash == head.block.hash && header.block.number == head.block.number.saturating_add(1)
        });
        if links {
            self.blocks.push_back(Linked { header, ours: Vec::new() });
        }
        links
    }

    /// The newest final block among those that are kept. It only moves forward while it is canonical, also if the chain is
    /// shorter now than it was.
    pub(super) fn final_block(&self, depth: u32) -> Option<BlockRef> {
        let head = self.head()?.block.number;
        let number = head.saturating_sub(u64::from(depth.max(1)) - 1);
        let number = self.final_told.map_or(number, |told| told.max(number));
        self.get(number.max(self.first_number()?)).map(|header| header.block)
    }

    /// Our hashes in blocks that have become final since this was last asked.
    pub(super) fn newly_final(&mut self, depth: u32) -> Vec<(B256, BlockRef)> {
        let Some(upto) = self.final_block(depth).map(|block| block.number) else { return Vec::new() };
        let after = self.final_told;
        let told = |number: u64| after.is_some_and(|after| number <= after);
        let of = |linked: &Linked| {
            let block = linked.header.block;
            linked.ours.iter().map(move |hash| (*hash, block)).collect::<Vec<_>>()
        };
        let blocks = self.blocks.iter().take_while(|linked| linked.header.block.number <= upto);
        let found = blocks.filter(|linked| !told(linked.header.block.number)).flat_map(of).collect();
        self.final_told = Some(after.map_or(upto, |after| after.max(upto)));
        found
    }

    pub(super) fn is_final(&self, number: u64, depth: u32) -> bool {
        self.final_block(depth).is_some_and(|block| number <= block.number)
    }

    /// Forgets what lies deeper than `keep` blocks.
    pub(super) fn trim(&mut self, keep: usize) {
        while self.blocks.len() > keep {
            self.blocks.pop_front();
        }
    }

    /// Milliseconds from block to block, over what is kept.
    pub(super) fn block_time_ms(&self) -> Option<u64> {
        let (first, last) = (self.blocks.front()?, self.blocks.back()?);
        let blocks = u64::try_from(self.blocks.len()).ok()?.checked_sub(1).filter(|blocks| *blocks > 0)?;
        Some(last.header.timestamp.saturating_sub(first.header.timestamp).saturating_mul(1000) / blocks)
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
        Canon::restart((1..=upto).map(|number| header(number, 0, 0)))
    }

    #[test]
    fn only_what_links_is_put_on() {
        let mut canon = canon(3);
        assert!(!canon.push(header(5, 0, 0)), "a hole");
        assert!(!canon.push(header(4, 1, 1)), "another fork");
        assert!(canon.push(header(4, 0, 0)));
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
    fn finality_is_told_once_and_goes_by_depth() {
        let mut canon = canon(5);
        let ours = B256::repeat_byte(7);
        canon.note(header(4, 0, 0).block, ours);
        assert_eq!(canon.newly_final(3), Vec::new());
        assert!(canon.push(header(6, 0, 0)));
        assert_eq!(canon.newly_final(3), vec![(ours, header(4, 0, 0).block)]);
        assert_eq!(canon.newly_final(3), Vec::new());
    }

    /// A fork below what was final: what stands there now is told as well.
    #[test]
    fn finality_is_told_anew_for_other_blocks() {
        let mut canon = canon(9);
        assert_eq!(canon.newly_final(3), Vec::new());
        for _ in 0..5 {
            assert!(canon.pop().is_some());
        }
        assert!(canon.push(header(5, 1, 0)));
        let ours = B256::repeat_byte(7);
        canon.note(header(5, 1, 0).block, ours);
        assert!(canon.is_final(4, 3), "canonical, and final before");
        assert!(!canon.is_final(5, 3));
        for number in 6..=7 {
            assert!(canon.push(header(number, 1, 1)));
        }
        assert_eq!(canon.newly_final(3), vec![(ours, header(5, 1, 0).block)]);
    }

    /// Counts are read at the final block, and one that is lower than before would look like a chain that went back.
    #[test]
    fn the_final_block_does_not_go_back_with_the_head() {
        let mut canon = canon(9);
        canon.newly_final(3);
        assert_eq!(canon.final_block(3), Some(header(7, 0, 0).block));
        assert!(canon.pop().is_some() && canon.pop().is_some());
        assert!(canon.push(header(8, 1, 0)));
        assert_eq!(canon.final_block(3), Some(header(7, 0, 0).block));
        assert!(canon.pop().is_some() && canon.pop().is_some());
        assert_eq!(canon.final_block(3), Some(header(6, 0, 0).block), "that one is orphaned");
    }

    #[test]
    fn the_block_time_is_learned() {
        assert_eq!(canon(5).block_time_ms(), Some(2000));
        assert_eq!(canon(1).block_time_ms(), None);
    }
}
