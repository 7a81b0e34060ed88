//! Randomness that a seed decides.

use std::time::Duration;

/// A SplitMix64 generator. Each random decision has its own stream of numbers, named by a text, so that a world with
/// one fault less runs as before for as long as possible.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64, stream: &str) -> Self {
        // FNV-1a of the stream's name. The order in which streams are created does not matter.
        let name = stream
            .bytes()
            .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ name);
        dice.roll();
        dice
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `end - 1`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number from `first` to `last`, both included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// True with a probability of `chance` in a thousand.
    pub fn permille(&mut self, chance: u32) -> bool {
        self.below(1000) < u64::from(chance)
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { of.get(self.index(of.len())).copied() }
    }

    pub fn duration(&mut self, least: Duration, most: Duration) -> Duration {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.between(micros(least), micros(most)))
    }

    /// Dice with a stream of their own, for a task that runs at the same time.
    pub fn fork(&mut self) -> Self {
        Dice(self.roll())
    }

    /// True once in so many times.
    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// A duration from zero up to `span`, both included.
    pub fn up_to(&mut self, span: Duration) -> Duration {
        self.duration(Duration::ZERO, span)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// The time that a request takes on a network: near `usual` in most cases, sometimes 5 or 20 times as long.
    pub fn latency(&mut self, usual: Duration) -> Duration {
        let factor = match self.below(100) {
            0 => 20,
            1..=5 => 5,
            _ => 1,
        };
        self.duration(usual / 4, usual * factor)
    }
}
