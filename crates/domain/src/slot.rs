//! Slots: the bound nonces of a lane.

use std::time::Duration;

use crate::attempt::MempoolSignal;
use crate::block::BlockRef;
use crate::id::TxId;
use crate::nonce::Nonce;
use crate::text::NodeText;
use crate::time::Timestamp;

/// Purpose of a slot. It never changes (P4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// Bound for this intent.
    Intent(TxId),
    /// Bound only to be consumed.
    Fill,
    /// Reserved for a caller who signs. The reservation names the caller.
    Reservation,
    /// Consumed by a foreign transaction, and adopted with evidence.
    Foreign,
}

/// A slot that is about to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSlot {
    pub nonce: Nonce,
    pub kind: SlotKind,
    /// This block was final before anything could be sent for the slot. On a chain that has this block, the transaction
    /// that consumes the slot lies above it (P4). On a chain without this block, it says nothing, not even about
    /// heights. `None` if no final block was known.
    pub above: Option<BlockRef>,
    /// Evidence that the nonce was consumed by a foreign transaction.
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
    /// Claim on the next resend: no other node sends the slot again before this time.
    pub next_resubmit_at: Option<Timestamp>,
    /// Number of resends and bumps since the bind, or since the last decision about the slot.
    pub tries: u16,
    /// Mempool signal before the last resend.
    pub signal: Option<MempoolSignal>,
}

/// The right to resend or bump a slot, written before the node does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub nonce: Nonce,
    /// No other node acts on the slot before this time has passed, by the database's clock.
    pub pause: Duration,
    /// Number of tries, this one included.
    pub tries: u16,
    /// New mempool signal of the slot; `None` keeps the stored one.
    pub signal: Option<MempoolSignal>,
}
