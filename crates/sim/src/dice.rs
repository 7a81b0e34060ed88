//! Chance, from a seed.

use std::time::Duration;

/// SplitMix64: small, and good enough to stir a world. Everything that chance decides has dice of its own, so that a world with
/// one fault less is otherwise the same world for as long as possible.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64, what_for: &str) -> Self {
        // FNV-1a, so that the name of a stream decides it, and not its place in a list.
        let name = what_for
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

    /// 0 up to `end`, without it; 0 if there is nothing below it.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// `first` up to `last`, with both.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// True so many times of a thousand.
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

    /// Zero up to `span`, with both.
    pub fn up_to(&mut self, span: Duration) -> Duration {
        self.duration(Duration::ZERO, span)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// Mostly near the middle, now and then much longer: how long things take on a network.
    pub fn latency(&mut self, usual: Duration) -> Duration {
        let factor = match self.below(100) {
            0 => 20,
            1..=5 => 5,
            _ => 1,
        };
        self.duration(usual / 4, usual * factor)
    }
}
