//! The health of an endpoint by its newest requests: a circuit breaker.
//!
//! The circuit opens when the endpoint is unreachable, after several failures in a row, or when too many of the newest
//! requests failed. The endpoint is then left alone for a growing pause. One trial request, the check, closes the
//! circuit again. Only a series of successes resets the pauses: an endpoint that passes its check and fails everything
//! else keeps long pauses.

use std::collections::VecDeque;
use std::time::Duration;

use gapless_domain::Backoff;
use tokio::time::Instant;

/// The number of newest requests that count.
const WINDOW: usize = 50;
/// A share of failures needs this many requests.
const MIN_SAMPLES: usize = 10;
const MAX_FAILED_PERMILLE: u32 = 500;
const MAX_FAILURES_IN_A_ROW: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// Successes in a row that reset the pauses.
const SUCCESSES_TO_RESET: u32 = 20;
/// The newest latency enters the smoothed one with one part in this many.
const LATENCY_PART: u32 = 8;

#[derive(Clone, Debug)]
pub(super) struct RequestHealth {
    /// Whether each of the newest requests failed, the newest last.
    window: VecDeque<bool>,
    failures_in_a_row: u32,
    successes_in_a_row: u32,
    /// The pauses since the last series of successes.
    backoff: Backoff,
    /// The time of the next trial, while the circuit is open.
    retry_at: Option<Instant>,
    /// The end of a rate limit, by the endpoint's own time or by our default.
    rate_limited_until: Option<Instant>,
    /// The end of a rate limit that the endpoint named itself (`Retry-After`).
    retry_after: Option<Instant>,
    latency: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// No connection. One such failure opens the circuit.
    Unreachable,
    Other,
}

impl Default for RequestHealth {
    fn default() -> Self {
        RequestHealth {
            window: VecDeque::new(),
            failures_in_a_row: 0,
            successes_in_a_row: 0,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            retry_at: None,
            rate_limited_until: None,
            retry_after: None,
            latency: None,
        }
    }
}

impl RequestHealth {
    pub(super) fn succeeded(&mut self, took: Duration) {
        self.count(false);
        self.failures_in_a_row = 0;
        self.successes_in_a_row = self.successes_in_a_row.saturating_add(1);
        if self.successes_in_a_row >= SUCCESSES_TO_RESET {
            self.backoff.reset();
        }
        self.latency = Some(match self.latency {
            None => took,
            Some(known) => (known * (LATENCY_PART - 1) + took) / LATENCY_PART,
        });
    }

    /// Notes a failure. Returns true if the circuit has to open.
    #[must_use]
    pub(super) fn failed(&mut self, failure: FailureKind) -> bool {
        self.count(true);
        self.successes_in_a_row = 0;
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let too_many = self.window.len() >= MIN_SAMPLES && self.failed_permille() > Some(MAX_FAILED_PERMILLE);
        failure == FailureKind::Unreachable || self.failures_in_a_row >= MAX_FAILURES_IN_A_ROW || too_many
    }

    /// Opens the circuit for the next pause. Requests that were in flight together and fail together open it once.
    pub(super) fn open(&mut self, now: Instant, random: u64) {
        if self.retry_at.is_none_or(|at| at <= now) {
            self.retry_at = Some(now + self.backoff.next(random));
        }
    }

    /// Opens the circuit for a given time.
    pub(super) fn open_for(&mut self, pause: Duration, now: Instant) {
        self.retry_at = Some(now + pause);
    }

    /// Closes the circuit. Failures before it opened no longer count.
    pub(super) fn close(&mut self) {
        self.window.clear();
        self.failures_in_a_row = 0;
        self.successes_in_a_row = 0;
        self.retry_at = None;
        self.rate_limited_until = None;
        self.retry_after = None;
    }

    /// Notes a rate limit. If the endpoint named the time itself (`is_requested`), it is not asked before, even if no
    /// other endpoint is up.
    pub(super) fn rate_limit(&mut self, until: Instant, is_requested: bool) {
        self.rate_limited_until = self.rate_limited_until.max(Some(until));
        if is_requested {
            self.retry_after = self.retry_after.max(Some(until));
        }
    }

    /// The endpoint asked for a pause that has not ended.
    pub(super) fn has_retry_after(&self, now: Instant) -> bool {
        self.retry_after.is_some_and(|until| until > now)
    }

    pub(super) fn is_rate_limited(&self, now: Instant) -> bool {
        self.rate_limited_until.is_some_and(|until| until > now)
    }

    pub(super) fn is_retry_due(&self, now: Instant) -> bool {
        self.retry_at.is_none_or(|at| at <= now) && !self.is_rate_limited(now)
    }

    pub(super) fn has_last_request_failed(&self) -> bool {
        self.failures_in_a_row > 0
    }

    pub(super) fn failed_permille(&self) -> Option<u32> {
        let (failed, all) = (self.window.iter().filter(|failed| **failed).count(), self.window.len());
        u32::try_from((failed * 1_000).checked_div(all)?).ok()
    }

    pub(super) fn latency(&self) -> Option<Duration> {
        self.latency
    }

    fn count(&mut self, failed: bool) {
        if self.window.len() >= WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::now;

    const TOOK: Duration = Duration::from_millis(8);

    #[test]
    fn circuit_opens_when_unreachable_or_after_three_failures() {
        assert!(RequestHealth::default().failed(FailureKind::Unreachable));
        let mut health = RequestHealth::default();
        assert_eq!([(); 3].map(|()| health.failed(FailureKind::Other)), [false, false, true]);
        let mut health = RequestHealth::default();
        for _ in 0..4 {
            health.succeeded(TOOK);
            health.succeeded(TOOK);
            assert!(
                !health.failed(FailureKind::Other) && !health.failed(FailureKind::Other),
                "a success was in between"
            );
        }
        assert_eq!(health.failed_permille(), Some(500));
    }

    #[test]
    fn circuit_opens_when_most_newest_requests_failed() {
        let mut health = RequestHealth::default();
        let mut opened_after = None;
        for request in 1..100 {
            if request % 3 == 0 {
                health.succeeded(TOOK);
            } else if health.failed(FailureKind::Other) {
                opened_after.get_or_insert(request);
            }
        }
        assert_eq!(opened_after, Some(MIN_SAMPLES));
        assert_eq!(health.window.len(), WINDOW);
        for _ in 0..WINDOW {
            health.succeeded(TOOK);
        }
        assert_eq!(health.failed_permille(), Some(0), "requests older than the window do not count");
    }

    #[test]
    fn pauses_grow_until_a_series_of_successes() {
        let mut health = RequestHealth::default();
        let mut at = now();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            health.open(at, 0);
            health.open(at, 0);
            let due = health.retry_at.unwrap();
            assert!(!health.is_retry_due(at) && health.is_retry_due(due));
            pauses.push((due - at).as_millis());
            at = due;
            // The check passes, and the next requests fail.
            health.close();
            health.succeeded(TOOK);
        }
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000]);
        for _ in 0..SUCCESSES_TO_RESET {
            health.succeeded(TOOK);
        }
        health.open(at, 0);
        assert_eq!(health.retry_at, Some(at + FIRST_PAUSE));
    }

    #[test]
    fn rate_limited_endpoint_is_not_due() {
        let (mut health, at) = (RequestHealth::default(), now());
        health.rate_limit(at + Duration::from_secs(30), false);
        health.rate_limit(at + Duration::from_secs(2), true);
        health.rate_limit(at + Duration::from_secs(1), true);
        assert!(
            health.has_retry_after(at + Duration::from_secs(1)) && !health.has_retry_after(at + Duration::from_secs(2))
        );
        assert!(
            health.is_rate_limited(at + Duration::from_secs(29)) && !health.is_retry_due(at + Duration::from_secs(29))
        );
        assert!(health.is_retry_due(at + Duration::from_secs(30)));
    }

    #[test]
    fn latency_is_smoothed() {
        let mut health = RequestHealth::default();
        health.succeeded(Duration::from_millis(80));
        health.succeeded(Duration::from_millis(160));
        assert_eq!(health.latency(), Some(Duration::from_millis(90)));
    }
}
