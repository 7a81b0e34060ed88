//! Events: records of state changes, written in the same commit (P8). A consumer can rebuild the state from them.

use crate::confirmation::ConfirmationNotice;
use crate::id::{SubmitterId, TxId};
use crate::names::names;
use crate::state::TxState;
use crate::text::NodeText;
use crate::time::Timestamp;
use crate::transition::TransitionName;

/// Position of an event in the order of commits. A reader keeps the position of the last event that it handled.
///
/// `commit` grows with the database transaction that wrote the event, `index` within that transaction. Both may have
/// gaps. The gapless sequence is the one of each intent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventPosition {
    pub commit: u64,
    pub index: u64,
}

/// A durable event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub position: EventPosition,
    pub submitter: SubmitterId,
    pub at: Timestamp,
    pub body: EventBody,
}

/// Content of an event: a change of an intent or of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly every event belongs to an intent")]
pub enum EventBody {
    /// An intent changed. `state` is its complete new state, so the newest event of an intent holds its state. `notice`
    /// continues or replaces the consumer's list of confirmations; the transition `unmine` empties that list.
    Tx { tx_id: TxId, seq: u32, kind: EventKind, state: TxState, notice: Option<ConfirmationNotice> },
    /// The lane changed.
    Lane { seq: u64, kind: LaneEventKind, text: NodeText },
}

/// Kind of an intent's event: acceptance, or a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    Accepted,
    Tx(TransitionName),
}

names! {
    /// Kinds of lane events.
    LaneEventKind {
        Protected = "protected",
        Unprotected = "unprotected",
        Paused = "paused",
        Resumed = "resumed",
        Resynced = "resynced",
        /// The balance is below the threshold of the policy.
        LowBalance = "low_balance",
        /// The balance is above the threshold again.
        BalanceRestored = "balance_restored",
        /// The market price is above the cap. Nothing new is sent, and no attempt is bumped.
        FeesAboveCap = "fees_above_cap",
        /// The market price is below the cap again.
        FeesBelowCap = "fees_below_cap",
        /// The mempool signal of a nonce changed.
        Diagnosed = "diagnosed",
        /// A stuck intent needs a decision by people.
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
