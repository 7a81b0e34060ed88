//! The node's own monotonic clock. It only decides when a node stops trusting a lease or a value; the time of the
//! ledger is the database's.

use std::fmt;
use std::time::Instant;

use gapless_domain::Tick;

pub trait Clock: Send + Sync + fmt::Debug {
    /// Monotonic: never goes back, even if the wall clock does.
    fn now(&self) -> Tick;
}

#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only place that may read the system clock")]
    pub fn start() -> Self {
        SystemClock { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Tick {
        Tick::since_start(self.started.elapsed())
    }
}
