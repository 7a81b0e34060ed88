//! Slots: the bound nonces of a lane.

use std::time::Duration;

use crate::attempt::MempoolSignal;
use crate::block::BlockRef;
use crate::id::TxId;
use crate::nonce::Nonce;
use crate::text::NodeText;
use crate::time::Timestamp;

/// The purpose that a nonce was bound for. The kind of a slot never changes (P4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// Bound for this intent.
    Intent(TxId),
    /// Reserved for a caller who signs; the reservation names the caller.
    Reservation,
    /// Consumed by a foreign transaction, and adopted with its evidence.
    Foreign,
}

/// A slot that is about to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSlot {
    pub nonce: Nonce,
    pub kind: SlotKind,
    /// A block that was final before anything could be sent for the slot. On a chain that has this block, the
    /// transaction that consumes the slot lies above it (P4). On another chain the block proves nothing, not even by
    /// its height. `None` if no final block was known.
    pub above: Option<BlockRef>,
    /// The proof that a foreign transaction consumed the nonce.
    pub evidence: Option<NodeText>,
}

/// A durable slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub nonce: Nonce,
    pub kind: SlotKind,
    pub above: Option<BlockRef>,
    pub evidence: Option<NodeText>,
    pub bound_at: Timestamp,
    /// The end of the newest claim. Before it, only the node with the claim sends the slot again.
    pub next_resubmit_at: Option<Timestamp>,
    /// The number of resends and bumps since the slot was bound, or since the last decision about it.
    pub tries: u16,
    /// The state of the slot in the pools before the last resend.
    pub signal: Option<MempoolSignal>,
}

impl Slot {
    /// The slot that was bound at `at`.
    pub fn new(new: NewSlot, at: Timestamp) -> Self {
        let NewSlot { nonce, kind, above, evidence } = new;
        Slot { nonce, kind, above, evidence, bound_at: at, next_resubmit_at: None, tries: 0, signal: None }
    }

    /// Records a claim that was written at `at`.
    pub fn claim(&mut self, claim: &Claim, at: Timestamp) {
        self.next_resubmit_at = Some(at.saturating_add(claim.pause));
        self.tries = claim.tries;
        self.signal = claim.signal.or(self.signal);
    }
}

/// The right to resend or bump a slot. It is durable before the send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub nonce: Nonce,
    /// The duration of the claim, by the database's clock.
    pub pause: Duration,
    /// The number of tries, including this one.
    pub tries: u16,
    /// The new signal of the slot; `None` keeps the old one.
    pub signal: Option<MempoolSignal>,
}
