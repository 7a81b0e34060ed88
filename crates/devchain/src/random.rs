//! A seeded random generator: the same seed gives the same sequence.

use alloy_primitives::keccak256;

/// A small generator (SplitMix64). It decides on faults and reorgs, and is not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct SeededRandom {
    state: u64,
}

impl SeededRandom {
    pub(crate) fn new(seed: u64, salt: &[u8]) -> Self {
        let mut bytes = seed.to_be_bytes().to_vec();
        bytes.extend_from_slice(salt);
        let mut state = [0; 8];
        state.copy_from_slice(&keccak256(bytes)[..8]);
        Self { state: u64::from_be_bytes(state) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`. A limit of 0 counts as 1.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}
