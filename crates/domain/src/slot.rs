//! Slots: the bound nonces of a lane.

use crate::block::BlockRef;
use crate::id::TxId;
use crate::nonce::Nonce;
use crate::text::NodeText;
use crate::time::Timestamp;

/// Whose nonce it is, for ever (P4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    Intent(TxId),
    /// Nobody's: bound only to be consumed.
    Fill,
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
}
