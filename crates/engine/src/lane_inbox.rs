//! Mailbox of a running lane: wake-ups, drain, lease loss, sightings. Messages are coalesced, and kept until taken.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gapless_domain::{Fact, Sighting};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct LaneInbox {
    letters: Mutex<Letters>,
    posted: Notify,
}

#[derive(Debug, Default)]
struct Letters {
    woken: bool,
    drain: bool,
    lost: bool,
    sightings: Vec<Sighting>,
}

/// A message to a lane.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every letter is a fact")]
pub(crate) enum Letter {
    Fact(Fact),
    /// The lease is lost: the run must end at once.
    Lost,
}

impl LaneInbox {
    pub(crate) fn wake(&self) {
        self.letters().woken = true;
        self.posted.notify_one();
    }

    pub(crate) fn drain(&self) {
        self.letters().drain = true;
        self.posted.notify_one();
    }

    pub(crate) fn lose(&self) {
        self.letters().lost = true;
        self.posted.notify_one();
    }

    pub(crate) fn see(&self, sighting: Sighting) {
        self.letters().sightings.push(sighting);
        self.posted.notify_one();
    }

    /// A wake-up has arrived since the last message was taken.
    pub(crate) fn is_woken(&self) -> bool {
        self.letters().woken
    }

    /// The next message. Dropping the future loses nothing.
    pub(crate) async fn next(&self) -> Letter {
        loop {
            if let Some(letter) = self.take() {
                return letter;
            }
            self.posted.notified().await;
        }
    }

    fn take(&self) -> Option<Letter> {
        let mut letters = self.letters();
        if letters.lost {
            return Some(Letter::Lost);
        }
        if std::mem::take(&mut letters.drain) {
            return Some(Letter::Fact(Fact::Drain));
        }
        if !letters.sightings.is_empty() {
            return Some(Letter::Fact(Fact::Sightings(std::mem::take(&mut letters.sightings))));
        }
        std::mem::take(&mut letters.woken).then_some(Letter::Fact(Fact::Woken))
    }

    fn letters(&self) -> MutexGuard<'_, Letters> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
