//! Which blocks an endpoint has shown at which height.
//!
//! A reorg replaces a block by another one, once. An endpoint that comes back to a block that it had already left for another is of
//! two minds: behind it are two nodes on two forks, and whatever it says is of the one or of the other. One such return may
//! happen to an honest node; several within a short stretch of the chain are a habit.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::B256;

/// Heights that are remembered, counted from the newest.
const HEIGHTS: usize = 64;
/// Blocks that are remembered as left, of one height.
const LEFT_MAX: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Forks {
    heights: BTreeMap<u64, Shown>,
    /// The heights of the returns that count.
    returns: Vec<u64>,
    /// The heights of one return: a fork that is taken up again is taken up at all of its heights.
    run: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
struct Shown {
    now: B256,
    left: Vec<B256>,
}

impl Forks {
    /// So many returns within the remembered heights, and the endpoint is not asked for a while.
    pub(super) const FLIPS_MAX: usize = 3;

    /// Notes what an endpoint shows at a height.
    pub(super) fn see(&mut self, number: u64, hash: B256) {
        let lowest = self.heights.first_key_value().map(|(lowest, _)| *lowest);
        let Some(shown) = self.heights.get_mut(&number) else {
            if self.heights.len() < HEIGHTS || lowest.is_some_and(|lowest| number > lowest) {
                self.heights.insert(number, Shown { now: hash, left: Vec::new() });
                self.forget();
            }
            return;
        };
        if shown.now == hash {
            return;
        }
        let is_return = shown.left.contains(&hash);
        let before = std::mem::replace(&mut shown.now, hash);
        shown.left.retain(|left| *left != hash);
        shown.left.push(before);
        if shown.left.len() > LEFT_MAX {
            shown.left.remove(0);
        }
        if !is_return {
            self.run.clear();
        } else if self.run.is_empty() || !self.run.insert(number) {
            self.run = BTreeSet::from([number]);
            self.returns.push(number);
        }
    }

    pub(super) fn is_flipping(&self) -> bool {
        self.returns.len() >= Self::FLIPS_MAX
    }

    fn forget(&mut self) {
        while self.heights.len() > HEIGHTS {
            self.heights.pop_first();
        }
        if let Some((lowest, _)) = self.heights.first_key_value() {
            let lowest = *lowest;
            self.returns.retain(|height| *height >= lowest);
            self.run.retain(|height| *height >= lowest);
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

    /// How often an endpoint flips that shows these, one after the other.
    fn flips(shown: impl IntoIterator<Item = (u64, u8)>) -> usize {
        let mut forks = Forks::default();
        for (number, fork) in shown {
            forks.see(number, block(fork, number));
            assert_eq!(forks.is_flipping(), forks.returns.len() >= Forks::FLIPS_MAX);
        }
        forks.returns.len()
    }

    #[test]
    fn only_a_return_is_a_flip() {
        let one_height = |forks: &[u8]| flips(forks.iter().map(|fork| (7, *fork)));
        assert_eq!(one_height(&[1, 1, 1]), 0);
        assert_eq!(one_height(&[1, 2, 2]), 0, "a reorg");
        assert_eq!(one_height(&[1, 2, 3, 4]), 0, "three reorgs");
        assert_eq!(one_height(&[1, 2, 1]), 1);
        assert_eq!(one_height(&[1, 2, 1, 2, 1]), 3);
        assert_eq!(one_height(&[1, 2, 3, 1]), 1);
    }

    #[test]
    fn a_fork_that_is_taken_up_again_is_one_flip_however_deep_it_is() {
        let fork = |fork: u8| (10..15).map(move |number| (number, fork));
        assert_eq!(flips(fork(1).chain(fork(2)).chain(fork(1))), 1);
        assert_eq!(flips(fork(1).chain(fork(2)).chain(fork(1)).chain(fork(2)).chain(fork(1))), 3);
    }

    #[test]
    fn one_flip_at_each_of_several_heights_is_a_habit_too() {
        assert_eq!(flips((1..=4).flat_map(|number| [(number, 1), (number, 2), (number, 1)])), 4);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let last = HEIGHTS as u64 + 1;
        let flipping = || [1, 2, 1, 2, 1].map(|fork| (1, fork));
        assert_eq!(flips(flipping().into_iter().chain((2..last).map(|number| (number, 1)))), 3);
        assert_eq!(flips(flipping().into_iter().chain((2..=last).map(|number| (number, 1)))), 0);
    }

    #[test]
    fn it_remembers_so_much_and_not_more() {
        let mut forks = Forks::default();
        for number in 0..1_000 {
            forks.see(number, block(1, number));
        }
        forks.see(3, block(1, 3));
        assert_eq!(forks.heights.len(), HEIGHTS);
        assert_eq!(
            forks.heights.first_key_value().unwrap().0,
            &(1_000 - HEIGHTS as u64),
            "the past is not taken up again"
        );
        for fork in 0..100 {
            forks.see(999, block(fork, 999));
        }
        assert!(forks.heights[&999].left.len() <= LEFT_MAX);
    }
}
