//! The blocks that an endpoint has shown at each height.
//!
//! A reorg replaces a block by another one, once. An endpoint that returns to a block which it had already replaced has
//! two nodes on two forks behind it, and each answer comes from one of them. An honest node may return once. Several
//! returns within a short stretch of the chain are flipping.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::B256;

/// Heights that are kept, counted from the newest.
const HEIGHTS: usize = 64;
/// Replaced blocks that are kept for one height.
const MAX_REPLACED: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct ShownBlocks {
    heights: BTreeMap<u64, ShownHeight>,
    /// The height of each counted return.
    returns: Vec<u64>,
    /// The heights of the current return. A return to a fork happens at all heights of the fork and counts once.
    current_return: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
struct ShownHeight {
    current: B256,
    replaced: Vec<B256>,
}

impl ShownBlocks {
    /// An endpoint with this many returns within the kept heights is flipping.
    pub(super) const MAX_RETURNS: usize = 3;

    /// Notes the block that an endpoint shows at a height.
    pub(super) fn note(&mut self, number: u64, hash: B256) {
        let lowest = self.heights.first_key_value().map(|(lowest, _)| *lowest);
        let Some(shown) = self.heights.get_mut(&number) else {
            if self.heights.len() < HEIGHTS || lowest.is_some_and(|lowest| number > lowest) {
                self.heights.insert(number, ShownHeight { current: hash, replaced: Vec::new() });
                self.drop_old_heights();
            }
            return;
        };
        if shown.current == hash {
            return;
        }
        let is_return = shown.replaced.contains(&hash);
        let before = std::mem::replace(&mut shown.current, hash);
        shown.replaced.retain(|replaced| *replaced != hash);
        shown.replaced.push(before);
        if shown.replaced.len() > MAX_REPLACED {
            shown.replaced.remove(0);
        }
        if !is_return {
            self.current_return.clear();
        } else if self.current_return.is_empty() || !self.current_return.insert(number) {
            self.current_return = BTreeSet::from([number]);
            self.returns.push(number);
        }
    }

    pub(super) fn is_flipping(&self) -> bool {
        self.returns.len() >= Self::MAX_RETURNS
    }

    fn drop_old_heights(&mut self) {
        while self.heights.len() > HEIGHTS {
            self.heights.pop_first();
        }
        if let Some((lowest, _)) = self.heights.first_key_value() {
            let lowest = *lowest;
            self.returns.retain(|height| *height >= lowest);
            self.current_return.retain(|height| *height >= lowest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(fork: u8, number: u64) -> B256 {
        let mut hash = B256::repeat_byte(fork);
        hash.0[..8].copy_from_slice(&number.to_be_bytes());
        hash
    }

    /// The number of returns of an endpoint that shows these blocks one after the other.
    fn flips(blocks: impl IntoIterator<Item = (u64, u8)>) -> usize {
        let mut shown = ShownBlocks::default();
        for (number, fork) in blocks {
            shown.note(number, block(fork, number));
            assert_eq!(shown.is_flipping(), shown.returns.len() >= ShownBlocks::MAX_RETURNS);
        }
        shown.returns.len()
    }

    #[test]
    fn reorg_is_no_flip_and_return_is_one() {
        let one_height = |forks: &[u8]| flips(forks.iter().map(|fork| (7, *fork)));
        assert_eq!(one_height(&[1, 1, 1]), 0);
        assert_eq!(one_height(&[1, 2, 2]), 0, "a reorg");
        assert_eq!(one_height(&[1, 2, 3, 4]), 0, "three reorgs");
        assert_eq!(one_height(&[1, 2, 1]), 1);
        assert_eq!(one_height(&[1, 2, 1, 2, 1]), 3);
        assert_eq!(one_height(&[1, 2, 3, 1]), 1);
    }

    #[test]
    fn return_to_a_deep_fork_is_one_flip() {
        let fork = |fork: u8| (10..15).map(move |number| (number, fork));
        assert_eq!(flips(fork(1).chain(fork(2)).chain(fork(1))), 1);
        assert_eq!(flips(fork(1).chain(fork(2)).chain(fork(1)).chain(fork(2)).chain(fork(1))), 3);
    }

    #[test]
    fn returns_at_several_heights_add_up() {
        assert_eq!(flips((1..=4).flat_map(|number| [(number, 1), (number, 2), (number, 1)])), 4);
    }

    #[test]
    fn returns_below_the_kept_heights_are_dropped() {
        let last = HEIGHTS as u64 + 1;
        let flipping = || [1, 2, 1, 2, 1].map(|fork| (1, fork));
        assert_eq!(flips(flipping().into_iter().chain((2..last).map(|number| (number, 1)))), 3);
        assert_eq!(flips(flipping().into_iter().chain((2..=last).map(|number| (number, 1)))), 0);
    }

    #[test]
    fn kept_heights_and_blocks_are_bounded() {
        let mut shown = ShownBlocks::default();
        for number in 0..1_000 {
            shown.note(number, block(1, number));
        }
        shown.note(3, block(1, 3));
        assert_eq!(shown.heights.len(), HEIGHTS);
        assert_eq!(
            shown.heights.first_key_value().unwrap().0,
            &(1_000 - HEIGHTS as u64),
            "a dropped height is not added again"
        );
        for fork in 0..100 {
            shown.note(999, block(fork, 999));
        }
        assert!(shown.heights[&999].replaced.len() <= MAX_REPLACED);
    }
}
