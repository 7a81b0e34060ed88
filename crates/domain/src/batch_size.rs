//! The number of items in one request, learned from time-outs.

/// Halves after a request without an answer in time, and doubles after successes.
///
/// Without a time-out there is no limit. A success at the limit doubles it. If the doubled limit times out, twice as
/// many successes are needed before the next try: a service that never gets faster costs ever fewer time-outs. A
/// time-out of a single item changes nothing: the item itself may be the cause, and longer requests may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    limit: Option<usize>,
    /// The longest request that was answered in time since the limit began.
    answered: usize,
    /// Successes at the limit.
    successes: u32,
    /// The number of successes that doubles the limit.
    needed: u32,
}

/// The effect of a time-out on the size of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedOut {
    /// Shorter requests were answered in time, so this one was too long.
    TooLong,
    /// No request of this length or shorter is known to be answered: there may be no answer at all.
    NoAnswer,
}

impl Default for BatchSize {
    fn default() -> Self {
        BatchSize { limit: None, answered: 0, successes: 0, needed: 1 }
    }
}

impl BatchSize {
    const MOST_NEEDED: u32 = 64;

    /// The most items of one request. `None` without a known limit.
    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// Notes a request with so many items that was answered in time.
    pub fn succeeded(&mut self, items: usize) {
        let Some(limit) = self.limit else { return };
        if items > self.answered && self.answered > 0 {
            self.needed = 1;
        }
        self.answered = self.answered.max(items);
        if items < limit {
            return;
        }
        self.successes = self.successes.saturating_add(1);
        if self.successes >= self.needed {
            (self.limit, self.successes) = (Some(limit.saturating_mul(2)), 0);
        }
    }

    /// Notes a request with so many items that was not answered in time.
    pub fn timed_out(&mut self, items: usize) -> TimedOut {
        if items <= 1 {
            return TimedOut::NoAnswer;
        }
        let verdict = match (1..items).contains(&self.answered) {
            true => TimedOut::TooLong,
            false => TimedOut::NoAnswer,
        };
        match verdict {
            TimedOut::TooLong => self.needed = self.needed.saturating_mul(2).min(Self::MOST_NEEDED),
            TimedOut::NoAnswer => (self.answered, self.needed) = (0, 1),
        }
        let half = items / 2;
        self.limit = Some(self.limit.map_or(half, |limit| limit.min(half)));
        self.successes = 0;
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_halves_down_to_one_and_doubles_again() {
        let mut size = BatchSize::default();
        size.succeeded(100);
        assert_eq!(size.limit(), None);
        let mut limits = Vec::new();
        for items in [100, 50, 25, 12, 6, 3, 1] {
            assert_eq!(size.timed_out(items), TimedOut::NoAnswer);
            limits.extend(size.limit());
        }
        assert_eq!(limits, [50, 25, 12, 6, 3, 1, 1]);
        for items in [1, 2, 4, 8] {
            assert_eq!(size.limit(), Some(items));
            size.succeeded(items);
        }
        size.succeeded(3);
        assert_eq!(size.limit(), Some(16), "a shorter request says nothing about a longer one");
    }

    #[test]
    fn limit_of_a_slow_service_is_exceeded_ever_less() {
        let mut size = BatchSize::default();
        let (mut timeouts, mut too_long) = (0, 0);
        for _ in 0..1_000 {
            let items = size.limit().unwrap_or(100).min(100);
            if items > 20 {
                timeouts += 1;
                too_long += usize::from(size.timed_out(items) == TimedOut::TooLong);
            } else {
                size.succeeded(items);
            }
        }
        assert!(timeouts < 30, "{timeouts} time-outs in 1000 requests");
        assert_eq!(timeouts - too_long, 3, "100, 50 and 25 items before the first answer");
    }

    #[test]
    fn timeout_of_an_answered_length_is_no_answer() {
        let mut size = BatchSize::default();
        size.timed_out(8);
        size.succeeded(4);
        assert_eq!(size.timed_out(8), TimedOut::TooLong);
        assert_eq!(size.timed_out(4), TimedOut::NoAnswer);
        assert_eq!(size.timed_out(2), TimedOut::NoAnswer, "the answer to 4 items no longer counts");
    }

    /// One item is never answered. Requests with other items are.
    #[test]
    fn single_item_that_times_out_leaves_the_limit() {
        let mut size = BatchSize::default();
        size.succeeded(40);
        assert_eq!(size.timed_out(1), TimedOut::NoAnswer);
        assert_eq!(size.limit(), None);
        size.timed_out(16);
        for expected in [16, 32, 64] {
            size.succeeded(expected / 2);
            assert_eq!(size.timed_out(1), TimedOut::NoAnswer);
            assert_eq!(size.limit(), Some(expected));
        }
        assert_eq!(size.timed_out(64), TimedOut::TooLong, "the answer to 32 items still counts");
        size.succeeded(32);
        size.timed_out(1);
        assert_eq!(size.limit(), Some(32), "two successes are needed");
        size.succeeded(32);
        assert_eq!(size.limit(), Some(64));
    }
}
