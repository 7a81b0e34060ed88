//! Exponential back-off with jitter.

use std::time::Duration;

/// The pauses between retries: the first one, then each twice as long, up to the longest one.
///
/// Each pause is shortened by up to a quarter, so that processes that failed together do not retry together. The caller
/// passes the random number: the domain has no randomness of its own, and a simulated run repeats its pauses. `backon`
/// was not taken: it draws its random numbers itself, its jitter exceeds the longest pause, and it cannot be reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    retries: u32,
}

impl Backoff {
    /// A pause loses at most this part of its length.
    const JITTER_PART: u32 = 4;

    pub const fn new(first: Duration, longest: Duration) -> Self {
        Backoff { first, longest, retries: 0 }
    }

    /// The next pause. Any `u64` is a valid random number; 0 gives the pause without jitter.
    pub fn next(&mut self, random: u64) -> Duration {
        let doubled = 1_u32.checked_shl(self.retries).unwrap_or(u32::MAX);
        let pause = self.first.saturating_mul(doubled).min(self.longest);
        self.retries = self.retries.saturating_add(1);
        pause - share(pause / Self::JITTER_PART, random)
    }

    /// The next pause is the first one again.
    pub fn reset(&mut self) {
        self.retries = 0;
    }
}

/// The part of a duration that a random number chooses, from nothing to almost all of it.
fn share(whole: Duration, random: u64) -> Duration {
    let nanos = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX);
    let chosen = (u128::from(nanos) * u128::from(random)) >> 64;
    Duration::from_nanos(u64::try_from(chosen).unwrap_or(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(8);

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let pauses: Vec<u128> = (0..7).map(|_| backoff.next(0).as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000]);
        for _ in 0..100 {
            assert_eq!(backoff.next(0), LONGEST);
        }
        backoff.reset();
        assert_eq!(backoff.next(0), FIRST);
    }

    #[test]
    fn jitter_shortens_a_pause_by_at_most_a_quarter() {
        for random in [0, 1, u64::MAX / 3, u64::MAX / 2, u64::MAX] {
            let pause = Backoff::new(LONGEST, LONGEST).next(random);
            assert!(pause <= LONGEST && pause >= LONGEST * 3 / 4, "{pause:?}");
            assert_eq!(pause, Backoff::new(LONGEST, LONGEST).next(random), "the same number gives the same pause");
        }
        assert_ne!(Backoff::new(FIRST, LONGEST).next(u64::MAX), FIRST);
        assert_eq!(Backoff::new(Duration::ZERO, LONGEST).next(u64::MAX), Duration::ZERO);
        assert_eq!(Backoff::new(Duration::MAX, Duration::MAX).next(0), Duration::MAX);
    }
}
