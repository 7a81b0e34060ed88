//! Random numbers from a seed (splitmix64).

use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct SeededRng(u64);

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        SeededRng(seed)
    }

    /// An independent generator for a concurrent task, so that its numbers do not depend on other tasks.
    pub(crate) fn fork(&mut self) -> Self {
        SeededRng(self.next())
    }

    /// A number below a limit.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    pub(crate) fn up_to(&mut self, span: Duration) -> Duration {
        Duration::from_millis(self.below(span.as_millis() as u64 + 1))
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
