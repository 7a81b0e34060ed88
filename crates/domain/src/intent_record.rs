//! Intent records: an intent with its queue position, its state and its version. One record is one row of `managed_tx`.

use crate::confirmation::ConfirmationNotice;
use crate::event::EventKind;
use crate::id::TxId;
use crate::intent::Intent;
use crate::payload::Payload;
use crate::state::{StateName, TxState};
use crate::time::Timestamp;
use crate::transition::{IllegalTransition, Transition, TransitionName};

/// The durable record of one intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentRecord {
    pub id: TxId,
    /// Queue position. The database assigns it once; it stays the same when the intent returns to the queue.
    pub seq: u64,
    pub intent: Intent,
    /// The payload that replaced the first one, if any. The request id still refers to the first payload.
    pub replacement: Option<Payload>,
    pub state: TxState,
    /// Number of state changes, starting at 1 (accepted). The version is also the sequence number of the intent's
    /// newest event. A change names the version that it starts from, so no change overwrites another one, and the
    /// events have no gap.
    pub version: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// One legal state change, with its event. The transition table is the only way to make one. A store therefore does not
/// check whether the change is allowed; it checks that the row still has the expected version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    tx_id: TxId,
    from_version: u32,
    from: StateName,
    to: TxState,
    replacement: Option<Box<Payload>>,
    event: EventKind,
    notice: Option<ConfirmationNotice>,
}

impl IntentRecord {
    /// The payload that is wanted on chain now.
    pub fn payload(&self) -> &Payload {
        self.replacement.as_ref().unwrap_or(self.intent.payload())
    }

    /// A change of the intent alone. Binding an intent and releasing a reserved nonce also change the slot; only
    /// [`LaneCommit`](crate::LaneCommit) makes these changes.
    pub fn change(&self, transition: Transition) -> Result<Change, IllegalTransition> {
        let name = transition.name();
        if matches!(name, TransitionName::Bind | TransitionName::ReleaseReserved) {
            return Err(IllegalTransition { from: self.state.name(), transition: name });
        }
        self.change_with_slot(transition)
    }

    pub(crate) fn change_with_slot(&self, transition: Transition) -> Result<Change, IllegalTransition> {
        let event = EventKind::Tx(transition.name());
        let notice = transition.notice();
        let replacement =
            if let Transition::WantReplace(payload) = &transition { Some(Box::new(payload.clone())) } else { None };
        let to = self.state.apply(transition)?;
        let (tx_id, from_version, from) = (self.id, self.version, self.state.name());
        Ok(Change { tx_id, from_version, from, to, replacement, event, notice })
    }

    /// Applies a change that the store has committed.
    pub fn apply(&mut self, change: &Change, at: Timestamp) {
        self.state = change.to.clone();
        if let Some(replacement) = &change.replacement {
            self.replacement = Some(Payload::clone(replacement));
        }
        self.version = change.to_version();
        self.updated_at = at;
    }
}

impl Change {
    pub fn tx_id(&self) -> TxId {
        self.tx_id
    }

    pub fn from_version(&self) -> u32 {
        self.from_version
    }

    pub fn to_version(&self) -> u32 {
        self.from_version.saturating_add(1)
    }

    pub fn from(&self) -> StateName {
        self.from
    }

    pub fn to(&self) -> &TxState {
        &self.to
    }

    /// The new payload; `None` leaves the payload as it is.
    pub fn replacement(&self) -> Option<&Payload> {
        self.replacement.as_deref()
    }

    pub fn event(&self) -> EventKind {
        self.event
    }

    /// The confirmation notice in the event of this change.
    pub fn notice(&self) -> Option<&ConfirmationNotice> {
        self.notice.as_ref()
    }
}
