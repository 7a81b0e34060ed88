//! Mailbox of a running lane: wake-ups, drain, lease loss, sightings. Messages are coalesced, and kept until taken.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gapless_domain::{Fact, Sighting};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct LaneInbox {
    state: Mutex<InboxState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct InboxState {
    woken: bool,
    queue_changed: bool,
    drain: bool,
    lease_lost: bool,
    sightings: Vec<Sighting>,
}

/// A message to a lane.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every message is a fact")]
pub(crate) enum InboxMessage {
    Fact(Fact),
    /// The lease is lost: the run must end at once.
    LeaseLost,
}

impl LaneInbox {
    pub(crate) fn wake(&self) {
        self.state().woken = true;
        self.changed.notify_one();
    }

    pub(crate) fn queue_changed(&self) {
        self.state().queue_changed = true;
        self.changed.notify_one();
    }

    pub(crate) fn drain(&self) {
        self.state().drain = true;
        self.changed.notify_one();
    }

    pub(crate) fn lose_lease(&self) {
        self.state().lease_lost = true;
        self.changed.notify_one();
    }

    pub(crate) fn add_sightings(&self, sightings: Vec<Sighting>) {
        self.state().sightings.extend(sightings);
        self.changed.notify_one();
    }

    /// A wake-up has arrived since the last message was taken.
    pub(crate) fn is_woken(&self) -> bool {
        self.state().woken
    }

    /// The next message. Dropping the future loses nothing.
    pub(crate) async fn next(&self) -> InboxMessage {
        loop {
            if let Some(message) = self.take() {
                return message;
            }
            self.changed.notified().await;
        }
    }

    fn take(&self) -> Option<InboxMessage> {
        let mut state = self.state();
        if state.lease_lost {
            return Some(InboxMessage::LeaseLost);
        }
        if std::mem::take(&mut state.drain) {
            return Some(InboxMessage::Fact(Fact::Drain));
        }
        if !state.sightings.is_empty() {
            return Some(InboxMessage::Fact(Fact::Sightings(std::mem::take(&mut state.sightings))));
        }
        if std::mem::take(&mut state.queue_changed) {
            return Some(InboxMessage::Fact(Fact::QueueChanged));
        }
        std::mem::take(&mut state.woken).then_some(InboxMessage::Fact(Fact::Woken))
    }

    fn state(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
