//! The clock of an embedded database.
//!
//! PostgreSQL has its own clock. An embedded store reads the time only from a [`DatabaseClock`], so that tests and the
//! simulator can set it.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use gapless_domain::Timestamp;

pub trait DatabaseClock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;
}

/// A clock that moves only when a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn starting_at(now: Timestamp) -> Self {
        ManualClock(AtomicI64::new(now.as_micros()))
    }

    pub fn advance(&self, span: Duration) {
        self.set(self.now().saturating_add(span));
    }

    /// Sets the clock, also to an earlier time: clocks of real machines jump in both directions.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::SeqCst);
    }
}

impl DatabaseClock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
