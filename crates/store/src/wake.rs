//! Wake-ups: signals without data that name a lane. They coalesce, and the loss of one costs only time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use gapless_domain::{LaneCommit, SubmitterId};
use tokio::sync::Notify;

use crate::roles::CommitVerdict;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// The lane has new work, or was changed.
    Lane(SubmitterId),
    /// A queued intent of the lane was changed without its owner, and the owner must read the queue. A node that does
    /// not run the lane has nothing to do.
    QueueChanged(SubmitterId),
    /// Wake-ups may have been lost. The listener must look at all lanes.
    Everywhere,
}

/// The place where a store posts wake-ups for the listeners of its own node.
#[derive(Debug, Default)]
pub struct WakeBoard {
    listeners: Mutex<Vec<Weak<Inbox>>>,
}

/// One listener. Wake-ups that arrive while it does not wait are kept, each lane once.
#[derive(Debug)]
pub struct Wakeups(Arc<Inbox>);

/// Tells whether a commit makes a change that a caller may wait for: an event or a finished command. Send reports and
/// claims are no such changes.
pub fn has_visible_change(commit: &LaneCommit) -> bool {
    !commit.changes().is_empty() || commit.lane_events().next().is_some() || !commit.commands_done().is_empty()
}

/// The lanes that [`Views::changes`](crate::Views::changes) reports after a commit.
pub fn changed_lanes<'a>(
    commits: &'a [LaneCommit],
    verdicts: &[CommitVerdict],
) -> impl Iterator<Item = &'a SubmitterId> {
    let done = commits
        .iter()
        .zip(verdicts)
        .filter(|(commit, verdict)| **verdict == CommitVerdict::Done && has_visible_change(commit));
    done.map(|(commit, _)| commit.lease().submitter())
}

#[derive(Debug, Default)]
struct Inbox {
    pending: Mutex<Pending>,
    posted: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    lanes: BTreeSet<SubmitterId>,
    queues: BTreeSet<SubmitterId>,
    everywhere: bool,
}

impl WakeBoard {
    /// The largest number of lanes that wait for a listener. More lanes become one [`Wakeup::Everywhere`], which
    /// bounds the memory of a slow listener.
    pub const MAX_PENDING: usize = 10_000;

    pub fn listen(&self) -> Wakeups {
        let inbox = Arc::new(Inbox::default());
        let mut listeners = lock(&self.listeners);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(&inbox));
        Wakeups(inbox)
    }

    pub fn post(&self, wakeup: &Wakeup) {
        for inbox in lock(&self.listeners).iter().filter_map(Weak::upgrade) {
            lock(&inbox.pending).add(wakeup);
            inbox.posted.notify_one();
        }
    }
}

impl Wakeups {
    /// Waits for the next wake-up. A dropped future loses no wake-up.
    pub async fn next(&mut self) -> Wakeup {
        loop {
            if let Some(wakeup) = self.try_next() {
                return wakeup;
            }
            self.0.posted.notified().await;
        }
    }

    /// The next wake-up, if one has arrived.
    pub fn try_next(&mut self) -> Option<Wakeup> {
        lock(&self.0.pending).take()
    }
}

impl Pending {
    fn add(&mut self, wakeup: &Wakeup) {
        let has_room = self.lanes.len() + self.queues.len() < WakeBoard::MAX_PENDING;
        match wakeup {
            Wakeup::Lane(_) | Wakeup::QueueChanged(_) if self.everywhere => {}
            Wakeup::Lane(lane) if has_room => {
                self.lanes.insert(lane.clone());
            }
            Wakeup::QueueChanged(lane) if has_room => {
                self.queues.insert(lane.clone());
            }
            Wakeup::Lane(_) | Wakeup::QueueChanged(_) | Wakeup::Everywhere => {
                self.everywhere = true;
                self.lanes.clear();
                self.queues.clear();
            }
        }
    }

    fn take(&mut self) -> Option<Wakeup> {
        if std::mem::take(&mut self.everywhere) {
            return Some(Wakeup::Everywhere);
        }
        let lane = self.lanes.pop_first().map(Wakeup::Lane);
        lane.or_else(|| self.queues.pop_first().map(Wakeup::QueueChanged))
    }
}

/// Locks without a check for poison: a panic under the lock leaves a valid set of lanes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(n: usize) -> SubmitterId {
        format!("eip155:{}:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", n + 1).parse().unwrap()
    }

    #[tokio::test]
    async fn wakeups_before_wait_are_kept_once() {
        let board = WakeBoard::default();
        let mut wakeups = board.listen();
        board.post(&Wakeup::Lane(lane(1)));
        board.post(&Wakeup::Lane(lane(1)));
        board.post(&Wakeup::Lane(lane(2)));
        assert_eq!(wakeups.next().await, Wakeup::Lane(lane(1)));
        assert_eq!(wakeups.next().await, Wakeup::Lane(lane(2)));
        assert_eq!(lock(&wakeups.0.pending).take(), None);
    }

    #[tokio::test]
    async fn queue_change_and_work_of_a_lane_are_both_kept() {
        let board = WakeBoard::default();
        let mut wakeups = board.listen();
        for _ in 0..2 {
            board.post(&Wakeup::QueueChanged(lane(1)));
            board.post(&Wakeup::Lane(lane(1)));
        }
        assert_eq!(wakeups.next().await, Wakeup::Lane(lane(1)));
        assert_eq!(wakeups.next().await, Wakeup::QueueChanged(lane(1)));
        assert_eq!(wakeups.try_next(), None);
    }

    #[tokio::test]
    async fn too_many_wakeups_become_everywhere() {
        let board = WakeBoard::default();
        let mut wakeups = board.listen();
        for n in 0..=WakeBoard::MAX_PENDING {
            board.post(&Wakeup::Lane(lane(n)));
        }
        assert_eq!(wakeups.next().await, Wakeup::Everywhere);
        assert_eq!(lock(&wakeups.0.pending).take(), None);
    }
}
