//! The executor of a world: tasks, timers and simulated time, on one thread, in an order that only the seed decides.
//!
//! No part of a node can read the simulated time. A node has its own clock (`node_clock`), and so has the database.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::dice::Dice;

/// The owner of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskOwner {
    /// The network, the database, the chain, people.
    World,
    /// One process, from its start to its end. A restarted node is another process.
    Process(u32),
}

/// The panic payload that ends a process at a fault point.
#[derive(Debug)]
pub(crate) struct ProcessCrash;

/// The result of one step.
#[derive(Debug)]
pub enum Stepped {
    /// One task was polled.
    Polled,
    /// No task was ready, and time moved on to the next timer.
    TimePassed,
    /// A process ended at a fault point.
    Crashed(TaskOwner),
    /// A task panicked, which is a defect.
    Panicked(TaskOwner, String),
    /// There is no ready task and no timer left.
    Over,
}

#[derive(Clone, Default)]
pub struct Stage(Arc<StageInner>);

#[derive(Default)]
struct StageInner {
    /// The ids of the woken tasks, in the order of their wake-ups.
    ready: Mutex<Vec<u64>>,
    state: Mutex<StageState>,
}

#[derive(Default)]
struct StageState {
    now: Duration,
    tasks: BTreeMap<u64, StageTask>,
    next_id: u64,
    timers: BTreeMap<(Duration, u64), Waker>,
    paused: BTreeSet<TaskOwner>,
    /// The ids of the tasks that were woken while their process was paused.
    held: Vec<u64>,
}

struct StageTask {
    task_owner: TaskOwner,
    /// None while the task is polled.
    future: Option<BoxFuture<'static, ()>>,
    waker: Arc<TaskWaker>,
}

/// The waker of one task.
struct TaskWaker {
    id: u64,
    woken: AtomicBool,
    stage: Arc<StageInner>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::Relaxed) {
            lock(&self.stage.ready).push(self.id);
        }
    }
}

impl Stage {
    /// The simulated time since the start of the world.
    pub fn now(&self) -> Duration {
        self.state().now
    }

    pub fn spawn(&self, task_owner: TaskOwner, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(task_owner, Box::pin(task));
    }

    pub fn spawn_boxed(&self, task_owner: TaskOwner, future: BoxFuture<'static, ()>) {
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        let waker = Arc::new(TaskWaker { id, woken: AtomicBool::new(true), stage: Arc::clone(&self.0) });
        state.tasks.insert(id, StageTask { task_owner, future: Some(future), waker });
        lock(&self.0.ready).push(id);
    }

    /// A future that ends after this span of simulated time.
    pub fn sleep(&self, span: Duration) -> Sleep {
        self.sleep_until(self.now().saturating_add(span))
    }

    pub fn sleep_until(&self, at: Duration) -> Sleep {
        Sleep { stage: self.clone(), at, timer: None }
    }

    /// Drops all tasks of a process, wherever they are.
    pub fn kill(&self, task_owner: TaskOwner) {
        let mut state = self.state();
        let ids: Vec<u64> =
            state.tasks.iter().filter(|(_, task)| task.task_owner == task_owner).map(|(id, _)| *id).collect();
        let dropped: Vec<StageTask> = ids.iter().filter_map(|id| state.tasks.remove(id)).collect();
        state.paused.remove(&task_owner);
        drop(state);
        // Dropped without the lock, because a drop may wake other tasks.
        drop(dropped);
    }

    /// Drops all tasks and timers, at the end of the world.
    pub fn clear(&self) {
        loop {
            let mut state = self.state();
            let (tasks, timers) = (std::mem::take(&mut state.tasks), std::mem::take(&mut state.timers));
            drop(state);
            // A drop may spawn tasks or set timers, so the loop repeats.
            if tasks.is_empty() && timers.is_empty() {
                return;
            }
            drop((tasks, timers));
        }
    }

    /// Stops all tasks of a process until it is resumed. Its requests still arrive and are served.
    pub fn pause(&self, task_owner: TaskOwner) {
        self.state().paused.insert(task_owner);
    }

    pub fn resume(&self, task_owner: TaskOwner) {
        let mut state = self.state();
        state.paused.remove(&task_owner);
        let held = std::mem::take(&mut state.held);
        drop(state);
        lock(&self.0.ready).extend(held);
    }

    pub fn is_paused(&self, task_owner: TaskOwner) -> bool {
        self.state().paused.contains(&task_owner)
    }

    /// Polls one ready task, chosen by the dice. If no task is ready, time moves on.
    pub fn step(&self, dice: &mut Dice) -> Stepped {
        loop {
            let id = {
                let mut ready = lock(&self.0.ready);
                if ready.is_empty() {
                    drop(ready);
                    return if self.pass_time() { Stepped::TimePassed } else { Stepped::Over };
                }
                let index = dice.index(ready.len());
                ready.swap_remove(index)
            };
            let mut state = self.state();
            let Some(task) = state.tasks.get_mut(&id) else { continue };
            let task_owner = task.task_owner;
            if state.paused.contains(&task_owner) {
                state.held.push(id);
                continue;
            }
            let Some(task) = state.tasks.get_mut(&id) else { continue };
            let (Some(future), waker) = (task.future.take(), Arc::clone(&task.waker)) else { continue };
            drop(state);
            return self.poll(id, task_owner, future, waker);
        }
    }

    fn poll(
        &self,
        id: u64,
        task_owner: TaskOwner,
        mut future: BoxFuture<'static, ()>,
        waker: Arc<TaskWaker>,
    ) -> Stepped {
        waker.woken.store(false, Ordering::Relaxed);
        let waker = Waker::from(waker);
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
        match polled {
            Ok(Poll::Pending) => {
                let mut state = self.state();
                match state.tasks.get_mut(&id) {
                    Some(task) => task.future = Some(future),
                    None => {
                        drop(state);
                        drop(future);
                    }
                }
                Stepped::Polled
            }
            Ok(Poll::Ready(())) => {
                let task = self.state().tasks.remove(&id);
                drop(task);
                Stepped::Polled
            }
            Err(thrown) => {
                drop(future);
                let task = self.state().tasks.remove(&id);
                drop(task);
                if thrown.is::<ProcessCrash>() {
                    Stepped::Crashed(task_owner)
                } else {
                    Stepped::Panicked(task_owner, panic_text(&*thrown))
                }
            }
        }
    }

    /// Moves time on to the next timer. False if there is none.
    fn pass_time(&self) -> bool {
        let mut state = self.state();
        let Some(((at, _), _)) = state.timers.first_key_value() else { return false };
        state.now = state.now.max(*at);
        let now = state.now;
        let later = state.timers.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut state.timers, later);
        drop(state);
        due.into_values().for_each(Waker::wake);
        true
    }

    fn state(&self) -> MutexGuard<'_, StageState> {
        lock(&self.0.state)
    }
}

fn panic_text(thrown: &(dyn Any + Send)) -> String {
    let text = thrown.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| thrown.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without text".to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// A future that ends at a simulated time.
#[derive(Debug)]
pub struct Sleep {
    stage: Stage,
    at: Duration,
    timer: Option<(Duration, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let at = self.at;
        let known = self.timer;
        let stage = self.stage.clone();
        let mut state = stage.state();
        if state.now >= at {
            return Poll::Ready(());
        }
        let key = known.unwrap_or_else(|| {
            state.next_id += 1;
            (at, state.next_id)
        });
        state.timers.insert(key, context.waker().clone());
        drop(state);
        self.timer = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.timer {
            let waker = self.stage.state().timers.remove(&key);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stage: &Stage, dice: &mut Dice) {
        while !matches!(stage.step(dice), Stepped::Over) {}
    }

    /// Tasks that are ready at the same time run in an order that only the seed decides.
    #[test]
    fn equal_seeds_have_equal_task_orders() {
        let order = |seed: u64| {
            let (stage, mut dice) = (Stage::default(), Dice::new(seed, "order"));
            let seen = Arc::new(Mutex::new(Vec::new()));
            for name in 0..20 {
                let (seen, stage_) = (Arc::clone(&seen), stage.clone());
                stage.spawn(TaskOwner::World, async move {
                    stage_.sleep(Duration::from_secs(name % 3)).await;
                    lock(&seen).push((stage_.now().as_secs(), name));
                });
            }
            run(&stage, &mut dice);
            Arc::into_inner(seen).and_then(|seen| seen.into_inner().ok())
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert!(order(3).is_some_and(|seen| seen.is_sorted_by_key(|(at, _): &(u64, u64)| *at)));
    }

    #[test]
    fn paused_process_continues_after_resume() {
        let (stage, mut dice) = (Stage::default(), Dice::new(1, "pause"));
        let (task_owner, done) = (TaskOwner::Process(1), Arc::new(Mutex::new(None)));
        let (stage_, done_) = (stage.clone(), Arc::clone(&done));
        stage.spawn(task_owner, async move {
            stage_.sleep(Duration::from_secs(1)).await;
            *lock(&done_) = Some(stage_.now().as_secs());
        });
        let other = stage.clone();
        stage.spawn(TaskOwner::World, async move {
            // The other task sleeps by then, in either order.
            other.sleep(Duration::from_millis(500)).await;
            other.pause(task_owner);
            other.sleep(Duration::from_millis(8500)).await;
            other.resume(task_owner);
        });
        run(&stage, &mut dice);
        assert_eq!(*lock(&done), Some(9));
    }

    #[test]
    fn killed_tasks_end_and_crashes_are_reported() {
        let (stage, mut dice) = (Stage::default(), Dice::new(1, "kill"));
        let stage_ = stage.clone();
        stage.spawn(TaskOwner::Process(1), async move {
            stage_.sleep(Duration::from_secs(5)).await;
            unreachable!("the task was killed before");
        });
        stage.spawn(TaskOwner::Process(2), async { std::panic::resume_unwind(Box::new(ProcessCrash)) });
        let mut crashed = Vec::new();
        loop {
            match stage.step(&mut dice) {
                Stepped::Crashed(task_owner) => {
                    crashed.push(task_owner);
                    stage.kill(TaskOwner::Process(1));
                }
                Stepped::Over => break,
                Stepped::Panicked(task_owner, text) => unreachable!("{task_owner:?}: {text}"),
                _ => {}
            }
        }
        assert_eq!(crashed, [TaskOwner::Process(2)]);
    }
}
