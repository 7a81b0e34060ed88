//! The clock and the driver of one process. The clock may run fast or slow, and jump ahead.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_domain::Tick;
use gapless_engine::{Clock, Driver};

use crate::stage::{Sleep, Stage, TaskOwner};

/// A monotonic clock of one machine: it never goes back, but it differs from the simulated time.
#[derive(Debug)]
pub(crate) struct NodeClock {
    stage: Stage,
    state: Mutex<ClockState>,
}

#[derive(Debug)]
struct ClockState {
    /// The time that the clock showed at the simulated time `at`.
    shown: Duration,
    at: Duration,
    /// The drift from simulated time, in millionths. A slow clock has a negative drift.
    drift: i64,
    /// The sleepers, which are woken when the clock jumps.
    sleepers: BTreeMap<u64, Waker>,
    next_sleeper: u64,
}

impl NodeClock {
    pub(crate) fn new(stage: Stage, drift: i64) -> Self {
        let at = stage.now();
        let reading = ClockState { shown: Duration::ZERO, at, drift, sleepers: BTreeMap::new(), next_sleeper: 0 };
        NodeClock { stage, state: Mutex::new(reading) }
    }

    pub(crate) fn jump(&self, ahead: Duration) {
        let mut state = self.state();
        state.shown = state.shown.saturating_add(ahead);
        let sleepers = std::mem::take(&mut state.sleepers);
        drop(state);
        sleepers.into_values().for_each(Waker::wake);
    }

    fn shows(&self) -> Duration {
        let now = self.stage.now();
        let state = self.state();
        state.shown.saturating_add(scale(now.saturating_sub(state.at), state.drift))
    }

    /// The simulated time at which the clock will show `shown`, if it does not jump.
    fn simulated_time_of(&self, shown: Duration) -> Duration {
        let wait = shown.saturating_sub(self.shows());
        let drift = self.state().drift;
        let micros = wait.as_micros() * 1_000_000 / u128::from((1_000_000 + drift).unsigned_abs().max(1));
        // One microsecond more, so that rounding never wakes a sleeper too early, again and again.
        let wait = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX / 2).saturating_add(1));
        self.stage.now().saturating_add(wait)
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn scale(span: Duration, drift: i64) -> Duration {
    let micros = span.as_micros() * u128::from((1_000_000 + drift).unsigned_abs()) / 1_000_000;
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// The driver of one process.
#[derive(Clone, Debug)]
pub(crate) struct NodeDriver {
    pub(crate) stage: Stage,
    pub(crate) task_owner: TaskOwner,
    pub(crate) clock: Arc<NodeClock>,
}

impl Clock for NodeDriver {
    fn now(&self) -> Tick {
        Tick::since_start(self.clock.shows())
    }
}

impl Driver for NodeDriver {
    fn sleep_until(&self, at: Tick) -> BoxFuture<'static, ()> {
        let clock = Arc::clone(&self.clock);
        Box::pin(NodeSleep { clock, at: at.elapsed(), timer: None, listening: None })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.stage.spawn_boxed(self.task_owner, task);
    }
}

/// A future that ends when the node's clock shows the time `at`.
struct NodeSleep {
    clock: Arc<NodeClock>,
    at: Duration,
    timer: Option<Sleep>,
    listening: Option<u64>,
}

impl Future for NodeSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.clock.shows() >= self.at {
                return Poll::Ready(());
            }
            let clock = Arc::clone(&self.clock);
            let mut state = clock.state();
            let key = self.listening.unwrap_or_else(|| {
                state.next_sleeper += 1;
                state.next_sleeper
            });
            state.sleepers.insert(key, context.waker().clone());
            drop(state);
            self.listening = Some(key);
            // Computed again at each poll, because the clock may have jumped.
            let mut timer = clock.stage.sleep_until(clock.simulated_time_of(self.at));
            if Pin::new(&mut timer).poll(context).is_pending() {
                self.timer = Some(timer);
                return Poll::Pending;
            }
        }
    }
}

impl Drop for NodeSleep {
    fn drop(&mut self) {
        if let Some(key) = self.listening {
            let waker = self.clock.state().sleepers.remove(&key);
            drop(waker);
        }
    }
}
