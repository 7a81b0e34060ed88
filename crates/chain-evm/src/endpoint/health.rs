//! How an endpoint is, by how its newest requests went: a circuit breaker.
//!
//! It opens when nobody is there, after several failures in a row, or when too many of the newest requests failed. Then the
//! endpoint is left alone for a pause that grows, and one trial request (the check of who it is) closes the circuit again. An
//! endpoint that passes its trials and then fails everything else keeps its long pauses: only a series of successes makes them
//! short again.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The newest requests that count.
const WINDOW: usize = 50;
/// Fewer requests say nothing about a share of them.
const SAMPLES_MIN: usize = 10;
const FAILED_PERMILLE_MAX: u32 = 500;
const IN_A_ROW_MAX: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(8);
/// Successes in a row after which a past of failures is forgotten.
const PROVEN: u32 = 20;
/// The newest answer is so much of the smoothed time.
const LATENCY_PART: u32 = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    /// Whether each failed, the newest last.
    window: VecDeque<bool>,
    failures_in_a_row: u32,
    successes_in_a_row: u32,
    /// How often the circuit has opened without a proof of health in between.
    trips: u32,
    /// When the next trial is due; set while the circuit is open.
    retry_at: Option<Instant>,
    /// It has had enough of us until then.
    limited_until: Option<Instant>,
    /// It has said itself that we may come again then.
    barred_until: Option<Instant>,
    latency: Option<Duration>,
}

/// How a request went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is nobody; this is no matter of chance.
    Nobody,
    Other,
}

impl Health {
    pub(super) fn succeeded(&mut self, took: Duration) {
        self.count(false);
        self.failures_in_a_row = 0;
        self.successes_in_a_row = self.successes_in_a_row.saturating_add(1);
        if self.successes_in_a_row >= PROVEN {
            self.trips = 0;
        }
        self.latency = Some(match self.latency {
            None => took,
            Some(known) => (known * (LATENCY_PART - 1) + took) / LATENCY_PART,
        });
    }

    /// Notes a failure; true if the circuit is to be opened by it.
    #[must_use]
    pub(super) fn failed(&mut self, failure: Failure) -> bool {
        self.count(true);
        self.successes_in_a_row = 0;
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let too_many = self.window.len() >= SAMPLES_MIN && self.failed_permille() > Some(FAILED_PERMILLE_MAX);
        failure == Failure::Nobody || self.failures_in_a_row >= IN_A_ROW_MAX || too_many
    }

    /// Opens the circuit. Requests that were under way together and fail together open it once.
    pub(super) fn open(&mut self, now: Instant) {
        if self.retry_at.is_none_or(|at| at <= now) {
            let pause = FIRST_PAUSE.saturating_mul(1 << self.trips.min(10)).min(LAST_PAUSE);
            self.trips = self.trips.saturating_add(1);
            self.retry_at = Some(now + pause);
        }
    }

    /// The same for a given time.
    pub(super) fn open_for(&mut self, pause: Duration, now: Instant) {
        self.retry_at = Some(now + pause);
    }

    /// Closes the circuit; what failed before it was opened is not held against it any more.
    pub(super) fn close(&mut self) {
        self.window.clear();
        self.failures_in_a_row = 0;
        self.successes_in_a_row = 0;
        self.retry_at = None;
        self.limited_until = None;
        self.barred_until = None;
    }

    /// `told` is that it named the time itself: then it is not asked before, whoever else is there or not.
    pub(super) fn leave_alone(&mut self, until: Instant, told: bool) {
        self.limited_until = self.limited_until.max(Some(until));
        if told {
            self.barred_until = self.barred_until.max(Some(until));
        }
    }

    pub(super) fn is_barred(&self, now: Instant) -> bool {
        self.barred_until.is_some_and(|until| until > now)
    }

    pub(super) fn is_limited(&self, now: Instant) -> bool {
        self.limited_until.is_some_and(|until| until > now)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.retry_at.is_none_or(|at| at <= now) && !self.is_limited(now)
    }

    /// Its last request failed.
    pub(super) fn is_doubtful(&self) -> bool {
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
    fn it_opens_when_nobody_is_there_or_after_failures_in_a_row() {
        assert!(Health::default().failed(Failure::Nobody));
        let mut health = Health::default();
        assert_eq!([(); 3].map(|()| health.failed(Failure::Other)), [false, false, true]);
        let mut health = Health::default();
        for _ in 0..4 {
            health.succeeded(TOOK);
            health.succeeded(TOOK);
            assert!(!health.failed(Failure::Other) && !health.failed(Failure::Other), "a success came in between");
        }
        assert_eq!(health.failed_permille(), Some(500));
    }

    #[test]
    fn it_opens_when_most_of_the_newest_failed() {
        let mut health = Health::default();
        let mut opened_after = None;
        for request in 1..100 {
            if request % 3 == 0 {
                health.succeeded(TOOK);
            } else if health.failed(Failure::Other) {
                opened_after.get_or_insert(request);
            }
        }
        assert_eq!(opened_after, Some(SAMPLES_MIN));
        assert_eq!(health.window.len(), WINDOW);
        for _ in 0..WINDOW {
            health.succeeded(TOOK);
        }
        assert_eq!(health.failed_permille(), Some(0), "what is older than the window is forgotten");
    }

    #[test]
    fn pauses_grow_until_it_has_proven_itself() {
        let mut health = Health::default();
        let mut at = now();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            health.open(at);
            health.open(at);
            let due = health.retry_at.unwrap();
            assert!(!health.is_due(at) && health.is_due(due));
            pauses.push((due - at).as_millis());
            at = due;
            // It passes its trial, and fails again.
            health.close();
            health.succeeded(TOOK);
        }
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000]);
        for _ in 0..PROVEN {
            health.succeeded(TOOK);
        }
        health.open(at);
        assert_eq!(health.retry_at, Some(at + FIRST_PAUSE));
    }

    #[test]
    fn who_asks_to_be_left_alone_is_not_due() {
        let (mut health, at) = (Health::default(), now());
        health.leave_alone(at + Duration::from_secs(30), false);
        health.leave_alone(at + Duration::from_secs(2), true);
        health.leave_alone(at + Duration::from_secs(1), true);
        assert!(health.is_barred(at + Duration::from_secs(1)) && !health.is_barred(at + Duration::from_secs(2)));
        assert!(health.is_limited(at + Duration::from_secs(29)) && !health.is_due(at + Duration::from_secs(29)));
        assert!(health.is_due(at + Duration::from_secs(30)));
    }

    #[test]
    fn the_time_of_an_answer_is_smoothed() {
        let mut health = Health::default();
        health.succeeded(Duration::from_millis(80));
        health.succeeded(Duration::from_millis(160));
        assert_eq!(health.latency(), Some(Duration::from_millis(90)));
    }
}
