//! The two clocks: the database's clock and a node's monotonic clock. Two types keep them apart.

use std::time::Duration;

/// A time on the *database's* clock, in microseconds since 1970. Nodes store and compare timestamps, but never make one
/// from their own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const EPOCH: Timestamp = Timestamp(0);

    pub const fn from_micros(micros: i64) -> Self {
        Timestamp(micros)
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    pub fn saturating_add(self, span: Duration) -> Self {
        Timestamp(self.0.saturating_add(micros(span)))
    }

    pub fn saturating_sub(self, span: Duration) -> Self {
        Timestamp(self.0.saturating_sub(micros(span)))
    }
}

/// A time on one *node's* monotonic clock, counted from the start of that process. A tick has no meaning in any other
/// process and is never stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(Duration);

impl Tick {
    pub const fn since_start(elapsed: Duration) -> Self {
        Tick(elapsed)
    }

    pub const fn elapsed(self) -> Duration {
        self.0
    }

    pub fn saturating_add(self, span: Duration) -> Self {
        Tick(self.0.saturating_add(span))
    }

    pub fn saturating_since(self, earlier: Tick) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
