//! The nonce cursor of a lane.

use crate::names::names;
use crate::nonce::Nonce;
use crate::text::NodeText;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The nonce that the next bind takes.
    pub next_nonce: Nonce,
    /// The account's count at the newest block that was read.
    pub chain_nonce: Nonce,
    /// The account's count at a final block.
    pub final_nonce: Nonce,
    /// Every slot below is closed: its intent, if it has one, is terminal. A lane is loaded from here on; a final count
    /// alone closes nothing, since what consumed the nonce may still have to be found (P4).
    pub open_nonce: Nonce,
    pub state: LaneState,
    /// Set and cleared by an operator; apart from PROTECT, so that resuming does not clear that.
    pub paused: bool,
    /// The balance was below the threshold of the policy when it was last read; consumers were told.
    pub low_balance: bool,
    /// Counts the writes of this row; 0 is a cursor that was never written.
    pub version: u64,
    /// Number of the lane's newest event.
    pub event_seq: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneState {
    Idle,
    InFlight,
    /// Binds nothing until an operator decides (P7).
    Protect(Protection),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    pub code: ProtectCode,
    pub detail: NodeText,
}

names! {
    ProtectCode {
        /// The chain's final count passes what our slots explain.
        ReservationRequest = "external_nonce",
        /// Somebody else's transaction stands at one of our nonces.
        ForeignTransaction = "foreign_transaction",
        /// The chain's count went below a final one.
        ChainRegressed = "chain_regressed",
        PendingAhead = "pending_ahead",
        /// A nonce below the cursor has no slot.
        MissingSlot = "missing_slot",
        CannotFill = "cannot_fill",
        /// A strict submitter has a history, and nobody said where to start.
        HistoryWithoutStart = "history_without_start",
        /// The database lost commits, or was restored.
        StoreRegressed = "store_regressed",
        DeepReorg = "deep_reorg",
        /// It has another genesis, or another id: a dev chain that began anew, or a wrong endpoint.
        OtherChain = "other_chain",
    }
}

impl Protection {
    /// What a lane is in that has not taken notice of a loss yet.
    pub fn store_regressed() -> Self {
        let detail = NodeText::new("the store lost commits, and the lane has not taken notice yet");
        Protection { code: ProtectCode::StoreRegressed, detail }
    }
}

/// One write of the cursor. Nonces only ever rise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorChange {
    from_version: u64,
    to: Cursor,
}

impl Cursor {
    /// The cursor of a lane that has never bound anything, not yet written.
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
    /// Stopped because the store lost commits: until an operator has reconciled, nothing of the lane becomes terminal.
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
