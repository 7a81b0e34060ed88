//! The nonce cursor: the lane's row with its next nonce, its lane state and its version.

use crate::names::names;
use crate::nonce::Nonce;
use crate::text::NodeText;

/// The cursor of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The nonce that the next bind gets.
    pub next_nonce: Nonce,
    /// Account nonce at the newest block that was read.
    pub chain_nonce: Nonce,
    /// Account nonce at a final block.
    pub final_nonce: Nonce,
    /// Every slot below this nonce is closed: its intent, if the slot has one, is terminal. A lane is loaded from here
    /// on. A final account nonce alone closes no slot, because the transaction that consumed the nonce may still have
    /// to be found (P4).
    pub open_nonce: Nonce,
    pub state: LaneState,
    /// Set and cleared by an operator. Separate from PROTECT, so that resuming a lane does not clear PROTECT.
    pub paused: bool,
    /// The balance was below the threshold of the policy at the last read, and consumers were notified.
    pub low_balance: bool,
    /// Number of writes of this row. Version 0 is a cursor that was never written.
    pub version: u64,
    /// Sequence number of the lane's newest event.
    pub event_seq: u64,
}

/// State of a lane, apart from `paused`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneState {
    /// No slot is open.
    Idle,
    /// Some slot is open.
    InFlight,
    /// The lane binds nothing until an operator decides (P7).
    Protect(Protection),
}

/// The reason why a lane is in PROTECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    pub code: ProtectCode,
    pub detail: NodeText,
}

names! {
    /// Stable codes of the reasons for PROTECT.
    ProtectCode {
        /// The account's final nonce is higher than the ledger can explain.
        ExternalNonce = "external_nonce",
        /// A foreign transaction consumed a nonce of this lane.
        ForeignTransaction = "foreign_transaction",
        /// The account's nonce is below a final one.
        ChainRegressed = "chain_regressed",
        /// The account's nonce, pending transactions included, is above the cursor.
        PendingAhead = "pending_ahead",
        /// A nonce below the cursor has no slot.
        MissingSlot = "missing_slot",
        /// Nodes reject the filler of a nonce.
        CannotFill = "cannot_fill",
        /// The account has sent transactions, and the policy does not say where a strict lane starts.
        HistoryWithoutStart = "history_without_start",
        /// The database lost commits or was restored.
        StoreRegressed = "store_regressed",
        /// A final block was orphaned.
        DeepReorg = "deep_reorg",
        /// The chain has another genesis or another id: a dev chain was reset, or an endpoint is wrong.
        OtherChain = "other_chain",
    }
}

impl Protection {
    /// Protection of a lane that has not yet acknowledged the loss of commits.
    pub fn store_regressed() -> Self {
        let detail = NodeText::new("the store lost commits, and the lane has not acknowledged it yet");
        Protection { code: ProtectCode::StoreRegressed, detail }
    }
}

/// One write of the cursor. Nonces in the cursor never decrease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorChange {
    from_version: u64,
    to: Cursor,
}

impl Cursor {
    /// The cursor of a lane that has never bound a nonce. The cursor is not written yet.
    pub fn starting_at(next_nonce: Nonce) -> Self {
        Cursor {
            next_nonce,
            chain_nonce: next_nonce,
            final_nonce: next_nonce,
            open_nonce: next_nonce,
            state: LaneState::Idle,
            paused: false,
            low_balance: false,
            version: 0,
            event_seq: 0,
        }
    }

    pub fn is_protected(&self) -> bool {
        matches!(self.state, LaneState::Protect(_))
    }
}

impl LaneState {
    /// True if the lane is in PROTECT because the store lost commits. No intent of the lane becomes terminal until an
    /// operator has reconciled it.
    pub fn is_store_regressed(&self) -> bool {
        matches!(self, LaneState::Protect(Protection { code: ProtectCode::StoreRegressed, .. }))
    }

    pub fn as_str(&self) -> &'static str {
        match self {
            LaneState::Idle => "IDLE",
            LaneState::InFlight => "IN_FLIGHT",
            LaneState::Protect(_) => "PROTECT",
        }
    }
}

impl CursorChange {
    pub(crate) fn of(cursor: &Cursor) -> Self {
        CursorChange {
            from_version: cursor.version,
            to: Cursor { version: cursor.version.saturating_add(1), ..cursor.clone() },
        }
    }

    pub(crate) fn to_mut(&mut self) -> &mut Cursor {
        &mut self.to
    }

    pub fn from_version(&self) -> u64 {
        self.from_version
    }

    pub fn to(&self) -> &Cursor {
        &self.to
    }
}
