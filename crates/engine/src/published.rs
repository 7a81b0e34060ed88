//! A value with one publisher and many followers, which are woken in a fixed order.
//!
//! `tokio::sync::watch` does the same, but wakes its receivers in a random order, which would make simulated runs
//! unrepeatable.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Followers are spread over several notifiers, so that they do not all contend for one lock.
const SHARDS: usize = 8;

/// Dropping the publisher ends all waits.
#[derive(Debug)]
pub(crate) struct Publisher<T>(Arc<PublishedState<T>>);

#[derive(Debug)]
pub(crate) struct Follower<T> {
    shared: Arc<PublishedState<T>>,
    shard: usize,
}

#[derive(Debug)]
struct PublishedState<T> {
    state: Mutex<State<T>>,
    followers: AtomicUsize,
    shards: [Notify; SHARDS],
}

#[derive(Debug)]
struct State<T> {
    value: T,
    is_closed: bool,
}

pub(crate) fn published<T>(value: T) -> (Publisher<T>, Follower<T>) {
    let state = Mutex::new(State { value, is_closed: false });
    let shared = Arc::new(PublishedState { state, followers: AtomicUsize::new(0), shards: Default::default() });
    let follower = Follower::new(Arc::clone(&shared));
    (Publisher(shared), follower)
}

impl<T> Publisher<T> {
    pub(crate) fn publish(&self, value: T) {
        self.publish_if(|current| {
            *current = value;
            true
        });
    }

    /// Applies a change, which returns whether to wake the followers.
    pub(crate) fn publish_if(&self, change: impl FnOnce(&mut T) -> bool) {
        let wakes = change(&mut self.0.state().value);
        if wakes {
            self.0.wake();
        }
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.0.state().value)
    }
}

impl<T> Drop for Publisher<T> {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.wake();
    }
}

impl<T> Follower<T> {
    fn new(shared: Arc<PublishedState<T>>) -> Self {
        let shard = shared.followers.fetch_add(1, Ordering::Relaxed) % SHARDS;
        Follower { shared, shard }
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.shared.state().value)
    }

    /// Waits until `look` finds something in the value; `None` if the publisher is dropped. Dropping the future loses
    /// nothing.
    pub(crate) async fn find<R>(&self, mut look: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let shard = self.shared.shards.get(self.shard)?;
        loop {
            // Enabled before the read, so that a value that is published after the read wakes this follower.
            let mut notified = std::pin::pin!(shard.notified());
            notified.as_mut().enable();
            {
                let state = self.shared.state();
                let found = look(&state.value);
                if found.is_some() || state.is_closed {
                    return found;
                }
            }
            notified.await;
        }
    }

    /// Waits until the publisher is dropped.
    pub(crate) async fn closed(&self) {
        self.find(|_| None::<()>).await;
    }
}

impl<T> Clone for Follower<T> {
    fn clone(&self) -> Self {
        Follower::new(Arc::clone(&self.shared))
    }
}

impl<T> PublishedState<T> {
    fn wake(&self) {
        self.shards.iter().for_each(Notify::notify_waiters);
    }

    /// A panic under the lock leaves the old value or the new one.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Wake, Waker};

    use super::*;

    struct WakeLog(usize, Mutex<Vec<usize>>);

    #[derive(Clone)]
    struct LoggingWaker(Arc<WakeLog>, usize);

    impl Wake for LoggingWaker {
        fn wake(self: Arc<Self>) {
            self.0.1.lock().unwrap().push(self.1);
        }
    }

    /// The order in which twenty followers are woken.
    fn order_of_wakes() -> Vec<usize> {
        let log = Arc::new(WakeLog(20, Mutex::default()));
        let (publisher, first) = published(0);
        let followers: Vec<Follower<i32>> = (0..log.0).map(|_| first.clone()).collect();
        let mut waiting: Vec<_> =
            followers.iter().map(|follower| Box::pin(follower.find(|value| (*value > 0).then_some(())))).collect();
        for (number, one) in waiting.iter_mut().enumerate() {
            let waker = Waker::from(Arc::new(LoggingWaker(Arc::clone(&log), number)));
            assert!(one.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        publisher.publish(1);
        let order = log.1.lock().unwrap().clone();
        assert_eq!(order.len(), 20);
        order
    }

    #[test]
    fn followers_are_woken_in_a_fixed_order() {
        let order = order_of_wakes();
        assert!((0..50).all(|_| order_of_wakes() == order));
    }

    #[tokio::test]
    async fn find_returns_current_or_next_matching_value() {
        let (publisher, follower) = published(1);
        assert_eq!(follower.find(|value| Some(*value)).await, Some(1));
        let (found, ()) = tokio::join!(follower.find(|value| (*value == 3).then_some(*value)), async {
            publisher.publish(2);
            tokio::task::yield_now().await;
            publisher.publish_if(|value| {
                *value = 3;
                true
            });
        });
        assert_eq!((found, publisher.read(|value| *value), follower.read(|value| *value)), (Some(3), 3, 3));
    }

    #[tokio::test]
    async fn dropped_publisher_ends_all_waits() {
        let (publisher, follower) = published(1);
        let (found, (), ()) =
            tokio::join!(follower.find(|value| (*value == 3).then_some(())), follower.closed(), async {
                tokio::task::yield_now().await;
                drop(publisher);
            });
        assert_eq!(found, None);
        assert_eq!(follower.find(|value| (*value == 1).then_some(())).await, Some(()), "the last value stays");
    }
}
