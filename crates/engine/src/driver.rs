//! Time and tasks. All other code in the engine is plain futures that a driver runs.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_domain::Tick;
use tokio::sync::mpsc;

use crate::clock::{Clock, SystemClock};
use crate::published::Follower;

/// The engine's access to time and tasks: a clock, timers, spawning. The simulator provides its own driver and so
/// decides the order of all steps.
pub trait Driver: Clock {
    /// Ends when the clock shows `at`.
    fn sleep_until(&self, at: Tick) -> BoxFuture<'static, ()>;

    /// Ends after this time.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.sleep_until(self.now().saturating_add(time))
    }

    /// Runs `task` in the background. The task itself reports its end to its creator, if needed.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// The driver of the running program.
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
    #[expect(clippy::disallowed_methods, reason = "the only place that may sleep")]
    fn sleep_until(&self, at: Tick) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(at.saturating_since(self.now())))
    }

    #[expect(clippy::disallowed_methods, reason = "the only place that may spawn")]
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }
}

/// Spawns tasks that end when the engine stops; the receiver from `new` tells when all of them have ended.
#[derive(Clone)]
pub(crate) struct TaskGroup {
    driver: Arc<dyn Driver>,
    /// The publisher is dropped to stop all tasks.
    stopped: Follower<()>,
    /// Each task holds a clone; when all clones are dropped, the receiver's channel closes.
    alive: mpsc::Sender<Infallible>,
}

impl TaskGroup {
    pub(crate) fn new(driver: Arc<dyn Driver>, stopped: Follower<()>) -> (Self, mpsc::Receiver<Infallible>) {
        let (alive, all_ended) = mpsc::channel(1);
        (TaskGroup { driver, stopped, alive }, all_ended)
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let (alive, stopped) = (self.alive.clone(), self.stopped.clone());
        self.driver.spawn(Box::pin(async move {
            tokio::select! {
                // Checked first, so that a stopped task does no further work.
                biased;
                () = stopped.closed() => {}
                () = task => {}
            }
            drop(alive);
        }));
    }
}

impl fmt::Debug for TaskGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGroup").finish_non_exhaustive()
    }
}
