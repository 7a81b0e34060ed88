//! Slots: the bound nonces of a lane.

use std::time::Duration;

use crate::attempt::MempoolSignal;
use crate::block::BlockRef;
use crate::id::TxId;
use crate::nonce::Nonce;
use crate::text::NodeText;
use crate::time::Timestamp;

/// Whose nonce it is, for ever (P4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    Intent(TxId),
    /// Lent to a caller who signs by itself; the reservation says to whom.
    Reservation,
    /// Used by somebody else with our key, and adopted with its evidence.
    Foreign,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSlot {
    pub nonce: Nonce,
    pub kind: SlotKind,
    /// This block was final before anything could be sent for the slot: on a chain that has it, what consumes the slot lies above
    /// (P4). On a chain that does not, it says nothing, also about heights. `None` if nobody knew.
    pub above: Option<BlockRef>,
    /// What shows that it was used by somebody else.
    pub evidence: Option<NodeText>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub nonce: Nonce,
    pub kind: SlotKind,
    pub above: Option<BlockRef>,
    pub evidence: Option<NodeText>,
    pub bound_at: Timestamp,
    /// The claim of whoever sends it again: nobody else does before this.
    pub next_resubmit_at: Option<Timestamp>,
    /// How often it was sent again, or raised, since it was bound or somebody decided about it.
    pub tries: u16,
    /// What nodes' pools showed of it before it was last sent again.
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

/// The right to send a slot again, or to raise it, written down before that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub nonce: Nonce,
    /// Nobody else does before this is over, by the database's clock.
    pub pause: Duration,
    /// How many tries there are with this one.
    pub tries: u16,
    /// Kept with the slot; `None` leaves what is there.
    pub signal: Option<MempoolSignal>,
}
