//! Parts of the simulator for the tests of other crates: a chain and a signer whose answers a test decides, a driver on
//! a clock that the test pauses, and seeded randomness.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use gapless_domain::{Tick, Timestamp};
use gapless_engine::{Clock, Driver};
use gapless_store::DatabaseClock;
use tokio::time::Instant;

pub use crate::chain::{Script, ScriptedChain, ScriptedSend, TextEncoder, sign};
pub use crate::dice::Dice;
pub use crate::signer::{ScriptedSigner, SignerScript};

/// The database's time at the start of every test.
const EPOCH_MICROS: i64 = 1_900_000_000_000_000;

/// Tokio's clock, for nodes and for the database. A test pauses it: time then jumps to the next timer when no task is
/// ready.
#[derive(Debug)]
pub struct PausedDriver(Instant);

impl PausedDriver {
    #[expect(clippy::disallowed_methods, reason = "this is the driver that owns the clock of a test")]
    pub fn start() -> Arc<Self> {
        Arc::new(PausedDriver(Instant::now()))
    }
}

impl Clock for PausedDriver {
    fn now(&self) -> Tick {
        Tick::since_start(self.0.elapsed())
    }
}

impl Driver for PausedDriver {
    #[expect(clippy::disallowed_methods, reason = "this is the driver that the tasks of a test wait by")]
    fn sleep_until(&self, at: Tick) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(self.0 + at.elapsed()))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the driver that the tasks of a test run on")]
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }
}

impl DatabaseClock for PausedDriver {
    fn now(&self) -> Timestamp {
        let micros = i64::try_from(self.0.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(EPOCH_MICROS.saturating_add(micros))
    }
}
