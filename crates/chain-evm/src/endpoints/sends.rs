//! What is known of an endpoint as one that transactions are given to. Some answer every question and take no transaction: they
//! allow reads only, or hang on sends. Their other answers say nothing about that.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gapless_chain::{Classified, Reason, Verdict};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::locked;
use crate::endpoint::now;

/// Broadcasts that may be under way to one endpoint. One that hangs takes no place from the others.
const MAX_SENDS: usize = 1_024;
/// After so many in a row without a word on a transaction it is given none for a while: at first, and at the most.
const IN_A_ROW_MAX: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// A final refusal waits no longer than this for one that says nothing on transactions.
const MISSED_FOR: Duration = Duration::from_secs(10 * 60);

#[derive(Debug)]
pub(crate) struct Sends {
    places: Arc<Semaphore>,
    known: Mutex<Known>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    in_a_row: u32,
    /// Since when it has said nothing on any transaction.
    silent_since: Option<Instant>,
    pauses: u32,
    paused_until: Option<Instant>,
}

impl Default for Sends {
    fn default() -> Self {
        Sends { places: Arc::new(Semaphore::new(MAX_SENDS)), known: Mutex::default() }
    }
}

impl Sends {
    /// A place for one more broadcast, to be kept until it has ended.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// What one broadcast brought.
    pub(crate) fn note(&self, answers: &[Classified]) {
        let has_spoken =
            answers.iter().any(|answer| !matches!(answer.verdict, Verdict::Unavailable | Verdict::RateLimited));
        let is_mute = answers.iter().any(|answer| answer.reason == Reason::TimedOut || had_no_part(answer));
        let mut known = locked(&self.known);
        if has_spoken {
            *known = Known::default();
        } else if is_mute {
            known.fail(now());
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        locked(&self.known).paused_until.is_some_and(|until| until > now())
    }

    /// It has not been silent on transactions for too long.
    pub(super) fn may_speak_soon(&self) -> bool {
        locked(&self.known).silent_since.is_none_or(|since| since.elapsed() < MISSED_FOR)
    }
}

impl Known {
    fn fail(&mut self, now: Instant) {
        self.silent_since.get_or_insert(now);
        self.in_a_row = self.in_a_row.saturating_add(1);
        // Those that were under way together and fail together make one pause.
        if self.in_a_row >= IN_A_ROW_MAX && self.paused_until.is_none_or(|until| until <= now) {
            let pause = FIRST_PAUSE.saturating_mul(1 << self.pauses.min(10)).min(LAST_PAUSE);
            self.pauses = self.pauses.saturating_add(1);
            self.paused_until = Some(now + pause);
        }
    }
}

/// It does not take transactions, from us or at all: it has no part in what becomes of one.
pub(crate) fn had_no_part(classified: &Classified) -> bool {
    matches!(classified.reason, Reason::MethodMissing | Reason::Unauthorized)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::without_verdict;

    #[tokio::test(start_paused = true)]
    async fn who_takes_no_transactions_is_given_a_pause_that_grows_and_is_not_waited_for_for_ever() {
        let sends = Sends::default();
        let mute = [without_verdict(Reason::TimedOut, "")];
        let mut pauses = Vec::new();
        for turn in 0..8 {
            sends.note(&mute);
            sends.note(&mute);
            assert_eq!(sends.is_paused(), turn > 0);
            if turn == 0 {
                sends.note(&mute);
            }
            let begin = now();
            while sends.is_paused() {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            pauses.push(begin.elapsed().as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60, 60, 60]);
        assert!(sends.may_speak_soon());
        tokio::time::advance(MISSED_FOR).await;
        assert!(!sends.may_speak_soon());
        sends.note(&[without_verdict(Reason::Unreachable, ""), without_verdict(Reason::FeeTooLow, "")]);
        assert!(sends.may_speak_soon() && !sends.is_paused());
    }

    #[test]
    fn what_is_the_roads_or_our_own_fault_is_not_counted_here() {
        let sends = Sends::default();
        for _ in 0..9 {
            sends.note(&[without_verdict(Reason::Unreachable, ""), without_verdict(Reason::RateLimited, "")]);
        }
        assert!(!sends.is_paused());
        let places: Vec<_> = std::iter::from_fn(|| sends.place()).collect();
        assert_eq!(places.len(), MAX_SENDS);
        drop(places);
        assert!(sends.place().is_some());
    }
}
