//! The node's own clock. It decides only when to stop trusting something; what is true is decided by the database's.

use std::fmt;
use std::time::Instant;

use gapless_domain::Tick;

pub trait Clock: Send + Sync + fmt::Debug {
    /// Monotonic: never goes back, whatever happens to the wall clock.
    fn now(&self) -> Tick;
}

#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else is given")]
    pub fn start() -> Self {
        SystemClock { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Tick {
        Tick::since_start(self.started.elapsed())
    }
}
