//! The health of an endpoint as a receiver of transactions. Some endpoints answer every read and take no transactions:
//! they are read-only, or hang on sends. Their other answers say nothing about that.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gapless_chain::{Classified, Reason, Verdict};
use gapless_domain::Backoff;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::locked;
use crate::endpoint::now;

/// Broadcasts that may be in flight to one endpoint. Each endpoint has its own limit, so that a hanging one does not
/// block the others.
const MAX_IN_FLIGHT: usize = 1_024;
/// After this many broadcasts in a row without a verdict on a transaction the endpoint is paused.
const MAX_FAILURES_IN_A_ROW: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A final refusal waits this long for an endpoint without a verdict on any transaction.
const VERDICT_AWAITED_FOR: Duration = Duration::from_secs(10 * 60);

#[derive(Debug)]
pub(crate) struct SendHealth {
    in_flight: Arc<Semaphore>,
    state: Mutex<SendState>,
}

#[derive(Clone, Copy, Debug)]
struct SendState {
    failures_in_a_row: u32,
    /// The beginning of a time without a verdict on any transaction.
    silent_since: Option<Instant>,
    backoff: Backoff,
    paused_until: Option<Instant>,
}

impl Default for SendState {
    fn default() -> Self {
        let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        SendState { failures_in_a_row: 0, silent_since: None, backoff, paused_until: None }
    }
}

impl Default for SendHealth {
    fn default() -> Self {
        SendHealth { in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)), state: Mutex::default() }
    }
}

impl SendHealth {
    /// A permit for one more broadcast, to be held until the broadcast has ended.
    pub(crate) fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.in_flight).try_acquire_owned().ok()
    }

    /// Records the answers to one broadcast.
    pub(crate) fn record(&self, answers: &[Classified], random: u64) {
        let has_verdict =
            answers.iter().any(|answer| !matches!(answer.verdict, Verdict::Unavailable | Verdict::RateLimited));
        let is_mute = answers.iter().any(|answer| answer.reason == Reason::TimedOut || takes_no_transactions(answer));
        let mut state = locked(&self.state);
        if has_verdict {
            *state = SendState::default();
        } else if is_mute {
            state.fail(now(), random);
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        locked(&self.state).paused_until.is_some_and(|until| until > now())
    }

    /// The endpoint has not been without a verdict for too long.
    pub(super) fn may_still_answer(&self) -> bool {
        locked(&self.state).silent_since.is_none_or(|since| since.elapsed() < VERDICT_AWAITED_FOR)
    }
}

impl SendState {
    fn fail(&mut self, now: Instant, random: u64) {
        self.silent_since.get_or_insert(now);
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        // Broadcasts that were in flight together and fail together make one pause.
        if self.failures_in_a_row >= MAX_FAILURES_IN_A_ROW && self.paused_until.is_none_or(|until| until <= now) {
            self.paused_until = Some(now + self.backoff.next(random));
        }
    }
}

/// The endpoint takes no transactions, from us or at all. Its answer says nothing about the transaction.
pub(crate) fn takes_no_transactions(classified: &Classified) -> bool {
    matches!(classified.reason, Reason::MethodMissing | Reason::Unauthorized)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::without_verdict;

    #[tokio::test(start_paused = true)]
    async fn endpoint_without_verdicts_gets_growing_pauses() {
        let sends = SendHealth::default();
        let mute = [without_verdict(Reason::TimedOut, "")];
        let mut pauses = Vec::new();
        for turn in 0..8 {
            sends.record(&mute, 0);
            sends.record(&mute, 0);
            assert_eq!(sends.is_paused(), turn > 0);
            if turn == 0 {
                sends.record(&mute, 0);
            }
            let begin = now();
            while sends.is_paused() {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            pauses.push(begin.elapsed().as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60, 60, 60]);
        assert!(sends.may_still_answer());
        tokio::time::advance(VERDICT_AWAITED_FOR).await;
        assert!(!sends.may_still_answer());
        sends.record(&[without_verdict(Reason::Unreachable, ""), without_verdict(Reason::FeeTooLow, "")], 0);
        assert!(sends.may_still_answer() && !sends.is_paused());
    }

    #[test]
    fn transport_failures_and_rate_limits_make_no_pause() {
        let sends = SendHealth::default();
        for _ in 0..9 {
            sends.record(&[without_verdict(Reason::Unreachable, ""), without_verdict(Reason::RateLimited, "")], 0);
        }
        assert!(!sends.is_paused());
        let permits: Vec<_> = std::iter::from_fn(|| sends.try_acquire()).collect();
        assert_eq!(permits.len(), MAX_IN_FLIGHT);
        drop(permits);
        assert!(sends.try_acquire().is_some());
    }
}
