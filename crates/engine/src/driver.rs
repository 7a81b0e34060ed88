//! Who owns time and tasks. Everything else in the engine is a plain future that somebody drives.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use gapless_domain::Tick;
use tokio::sync::mpsc;

use crate::clock::{Clock, SystemClock};
use crate::published::Follower;

/// The outside of the engine: a clock, a way to wait, a way to run something beside. The simulator brings its own, and so
/// decides what happens when.
pub trait Driver: Clock {
    /// Ends when the clock shows `at`.
    fn sleep_until(&self, at: Tick) -> BoxFuture<'static, ()>;

    /// Runs `task` beside everything else. Whoever needs its end arranges to hear of it.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// The real one.
#[derive(Debug, Clone)]
pub struct TokioDriver {
    clock: Arc<SystemClock>,
}

impl TokioDriver {
    pub fn start() -> Self {
        TokioDriver { clock: Arc::new(SystemClock::start()) }
    }
}

impl Clock for TokioDriver {
    fn now(&self) -> Tick {
        self.clock.now()
    }
}

impl Driver for TokioDriver {
    #[expect(clippy::disallowed_methods, reason = "this is the driver that everybody else waits by")]
    fn sleep_until(&self, at: Tick) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(at.saturating_since(self.now())))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the driver that everybody else's tasks run on")]
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }
}

/// Runs tasks that end when the engine stops; whoever made it can wait for the end of all of them.
#[derive(Clone)]
pub(crate) struct Crew {
    driver: Arc<dyn Driver>,
    /// Its sender is dropped when everything is to stop.
    stopped: Follower<()>,
    /// Each task holds one of these; when all are gone, the receiver hears of it.
    alive: mpsc::Sender<Infallible>,
}

impl Crew {
    pub(crate) fn new(driver: Arc<dyn Driver>, stopped: Follower<()>) -> (Self, mpsc::Receiver<Infallible>) {
        let (alive, all_gone) = mpsc::channel(1);
        (Crew { driver, stopped, alive }, all_gone)
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let (alive, stopped) = (self.alive.clone(), self.stopped.clone());
        self.driver.spawn(Box::pin(async move {
            tokio::select! {
                // First, so that nothing is done any more by what is told to stop.
                biased;
                () = stopped.gone() => {}
                () = task => {}
            }
            drop(alive);
        }));
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").finish_non_exhaustive()
    }
}
