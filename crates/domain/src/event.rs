//! Events: what the outside is told, and what the state can be rebuilt from.

use crate::confirmation::ConfirmationNotice;
use crate::id::{SubmitterId, TxId};
use crate::names::names;
use crate::state::TxState;
use crate::text::NodeText;
use crate::time::Timestamp;
use crate::transition::TransitionName;

/// Where an event stands in the order of commits. A reader keeps the position of the last one it has handled.
///
/// `commit` grows with the database transaction that wrote the event, `index` within it; neither is without holes. The
/// sequence without holes is the one per intent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventPosition {
    pub commit: u64,
    pub index: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub position: EventPosition,
    pub submitter: SubmitterId,
    pub at: Timestamp,
    pub body: EventBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly every event is one of an intent")]
pub enum EventBody {
    /// An intent changed; `state` is what it became, whole, so the newest event of an intent is its state.
    /// A notice continues or replaces the list of confirmations that a consumer has; `unmine` empties it.
    Tx { tx_id: TxId, seq: u32, kind: EventKind, state: TxState, notice: Option<ConfirmationNotice> },
    /// Something happened to the lane as such.
    Lane { seq: u64, kind: LaneEventKind, text: NodeText },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    Accepted,
    Tx(TransitionName),
}

names! {
    LaneEventKind {
        Protected = "protected",
        Unprotected = "unprotected",
        Paused = "paused",
        Resumed = "resumed",
        Resynced = "resynced",
        /// The balance is below the threshold of the policy.
        LowBalance = "low_balance",
        /// It is not any more.
        BalanceRestored = "balance_restored",
        /// What the market asks is above the most that may be offered: nothing new is sent, and nothing is raised.
        FeesAboveCap = "fees_above_cap",
        /// It is not any more.
        FeesBelowCap = "fees_below_cap",
        /// Nodes' pools show something else of a nonce than before.
        Diagnosed = "diagnosed",
        /// Something needs a decision that nobody here may take.
        Escalated = "escalated",
    }
}

impl EventKind {
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Accepted => "accepted",
            EventKind::Tx(name) => name.as_str(),
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        if text == "accepted" { Some(EventKind::Accepted) } else { TransitionName::parse(text).map(EventKind::Tx) }
    }
}
