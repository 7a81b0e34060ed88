//! The pauses between rounds, and the size of look-up requests.

use std::time::Duration;

use gapless_domain::{Backoff, Tick};

use super::WatcherOptions;

/// Rounds poll four times per block time.
const POLLS_PER_BLOCK: u64 = 4;

/// The watcher's pace: fast while there is work, slower while the endpoints fail.
#[derive(Debug)]
pub(super) struct WatchPace {
    /// The pauses since the head could not be followed; `None` while it can.
    backoff: Option<Backoff>,
    is_following: bool,
    /// Consecutive rounds in which any step failed.
    failed_rounds: u32,
    /// Work is left that needs no new head.
    pub(super) has_more_work: bool,
    /// Hashes in one look-up request. Halved after a failure, so that a hash that fails the request is isolated in the
    /// end.
    pub(super) look_up_size: usize,
}

impl WatchPace {
    pub(super) fn new(look_up_size: usize) -> Self {
        WatchPace { backoff: None, is_following: true, failed_rounds: 0, has_more_work: false, look_up_size }
    }

    /// Could the head be followed in the last round?
    pub(super) fn is_following(&self) -> bool {
        self.is_following
    }

    pub(super) fn head_followed(&mut self, is_ok: bool) {
        self.is_following = is_ok;
        if is_ok {
            self.backoff = None;
        }
    }

    pub(super) fn round_ended(&mut self, is_ok: bool) {
        self.failed_rounds = if is_ok { 0 } else { self.failed_rounds.saturating_add(1) };
    }

    /// The number of consecutive failed rounds, if this one is to be logged: a short failure is not, a long one
    /// sometimes.
    pub(super) fn failed_rounds_to_log(&self) -> Option<u32> {
        Some(self.failed_rounds).filter(|rounds| *rounds == 3 || rounds.is_multiple_of(100))
    }

    /// The pause before the next round: a part of the block time; longer after failures.
    pub(super) fn pause(&mut self, block_time_ms: Option<u64>, options: &WatcherOptions, now: Tick) -> Duration {
        let measured = block_time_ms.map(|ms| Duration::from_millis(ms / POLLS_PER_BLOCK));
        let regular = measured.unwrap_or(options.poll_min * 4).max(options.poll_min);
        if !self.is_following {
            let backoff = self.backoff.get_or_insert_with(|| Backoff::new(regular * 2, options.poll_max));
            return backoff.next(spread(now));
        }
        if self.has_more_work { options.poll_min } else { regular.min(options.poll_max) }
    }

    pub(super) fn record_look_up(&mut self, is_ok: bool, most: usize) {
        let size = if is_ok { self.look_up_size.saturating_mul(2).min(most) } else { self.look_up_size / 2 };
        self.look_up_size = size.max(1);
    }
}

/// A number for the jitter of a pause. Two nodes hardly ever have run for the same number of nanoseconds, and a
/// simulated run repeats it.
fn spread(now: Tick) -> u64 {
    /// 2^64 divided by the golden ratio: neighbouring inputs give distant outputs.
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    u64::try_from(now.elapsed().as_nanos()).unwrap_or(u64::MAX).wrapping_mul(GOLDEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_grows_with_failures_and_resets_when_following() {
        let options = WatcherOptions::default();
        let mut pace = WatchPace::new(8);
        let now = Tick::default();
        let millis = |pace: &mut WatchPace| pace.pause(Some(1000), &options, now).as_millis();
        assert_eq!(millis(&mut pace), 250);
        pace.head_followed(false);
        assert_eq!(
            [millis(&mut pace), millis(&mut pace), millis(&mut pace), millis(&mut pace)],
            [500, 1000, 2000, 2000]
        );
        pace.head_followed(true);
        assert_eq!(millis(&mut pace), 250);
        pace.has_more_work = true;
        assert_eq!(millis(&mut pace), 50);
    }

    #[test]
    fn failed_look_up_halves_the_request_size() {
        let mut pace = WatchPace::new(8);
        let sizes = [false, false, false, false, true, true, true, true].map(|is_ok| {
            pace.record_look_up(is_ok, 8);
            pace.look_up_size
        });
        assert_eq!(sizes, [4, 2, 1, 1, 2, 4, 8, 8]);
    }
}
