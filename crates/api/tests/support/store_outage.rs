//! Faults of a store: an outage, and a read that a test holds back.

use std::sync::atomic::{AtomicBool, Ordering};

use gapless_domain::SubmitterId;
use gapless_store::{StoreError, StoreFaults, StoreVerb};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct StoreOutage {
    is_down: AtomicBool,
    holds_slots: AtomicBool,
    held: Notify,
    released: Notify,
}

impl StoreOutage {
    pub(crate) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Holds the next read of slots until [`StoreOutage::release_slots`].
    pub(crate) fn hold_slots(&self) {
        self.holds_slots.store(true, Ordering::SeqCst);
    }

    /// Waits until a read of slots is held.
    pub(crate) async fn slots_held(&self) {
        self.held.notified().await;
    }

    pub(crate) fn release_slots(&self) {
        self.released.notify_one();
    }
}

impl StoreFaults for StoreOutage {
    async fn before(&self, verb: StoreVerb, _: &[SubmitterId]) -> Result<(), StoreError> {
        if verb == StoreVerb::OpenSlots && self.holds_slots.swap(false, Ordering::SeqCst) {
            self.held.notify_one();
            self.released.notified().await;
        }
        if self.is_down.load(Ordering::SeqCst) {
            // The text has a password, which no answer of the API may show.
            return Err(StoreError::Unavailable("no route to postgres://gapless:secret@db".into()));
        }
        Ok(())
    }
}
