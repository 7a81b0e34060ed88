//! What was seen to happen at least once, so that no promise is kept only because nothing happens.
//!
//! Kept beside the states: a mark in the state would double them.

use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Takeover,
    /// A node sent something after another one had been given the lane.
    LateBroadcast,
    /// The fence refused a commit.
    Refused,
    /// A commit whose outcome was unknown had been applied, and was read back.
    ReadBack,
    /// A nonce was found to be used by a stranger, and its intent went back into the line.
    NonceLost,
    /// A commit found other rows than it thought.
    Conflict,
    Reorg,
    /// A step was left out because there was no name for another hash: the bounds do not fit.
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
