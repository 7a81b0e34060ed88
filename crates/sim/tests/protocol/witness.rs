//! Events that an exploration has seen at least once, so that no promise is kept only because nothing happens.
//!
//! The events are beside the states: a mark in the state would double the number of states.

use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Takeover,
    /// A node sent a transaction after another node had got the lane.
    LateBroadcast,
    /// The fence refused a commit.
    Refused,
    /// A commit whose outcome was unknown had been applied, and was read back.
    ReadBack,
    /// A foreign transaction had used a nonce, and the intent went back into the queue.
    NonceLost,
    /// A commit found other rows than its writer's memory.
    Conflict,
    Reorg,
    /// A step was left out for want of another hash: the bounds are too small.
    OutOfHashes,
}

#[derive(Debug, Default)]
pub(crate) struct Witness([AtomicBool; 8]);

impl Witness {
    pub(crate) fn saw(&self, event: Event) {
        self.0[event as usize].store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_seen(&self, event: Event) -> bool {
        self.0[event as usize].load(Ordering::Relaxed)
    }
}
