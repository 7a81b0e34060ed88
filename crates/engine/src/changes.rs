//! Wake-ups for readers that wait for an intent to change: `?wait=` and event streams. Signalled at the change, not
//! polled.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use gapless_domain::SubmitterId;
use gapless_store::{Views, Wakeup, Wakeups};
use tokio::sync::Notify;

/// Waiters by lane. A wake-up carries no data: the waiter reads the row itself.
#[derive(Default)]
pub struct Changes {
    lanes: Mutex<BTreeMap<SubmitterId, Weak<Notify>>>,
}

/// One waiter. A waiter that is created *before* the row is read cannot miss a later change.
#[derive(Debug)]
pub struct ChangeWaiter {
    lane: Arc<Notify>,
}

impl Changes {
    pub fn waiter(&self, lane: &SubmitterId) -> ChangeWaiter {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.get(lane).and_then(Weak::upgrade) {
            return ChangeWaiter { lane };
        }
        lanes.retain(|_, waiters| waiters.strong_count() > 0);
        let notify = Arc::new(Notify::new());
        lanes.insert(lane.clone(), Arc::downgrade(&notify));
        ChangeWaiter { lane: notify }
    }

    /// Forwards the store's change signals for as long as the future is polled.
    pub(crate) async fn run(&self, store: Arc<dyn Views>) {
        let mut changes: Wakeups = store.changes();
        loop {
            match changes.next().await {
                Wakeup::Lane(lane) | Wakeup::QueueChanged(lane) => {
                    if let Some(waiters) = self.lanes().get(&lane).and_then(Weak::upgrade) {
                        waiters.notify_waiters();
                    }
                }
                Wakeup::Everywhere => {
                    let all: Vec<_> = self.lanes().values().filter_map(Weak::upgrade).collect();
                    all.iter().for_each(|waiters| waiters.notify_waiters());
                }
            }
        }
    }

    fn lanes(&self) -> MutexGuard<'_, BTreeMap<SubmitterId, Weak<Notify>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChangeWaiter {
    /// Listens from the call on: the returned future ends at the next change, even if it is first polled later.
    pub fn listen(&self) -> impl Future<Output = ()> + Send + use<> {
        let lane = Arc::clone(&self.lane);
        let mut notified = Box::pin(lane.notified_owned());
        notified.as_mut().enable();
        notified
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}
