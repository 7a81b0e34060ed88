//! An intent with its place in line and its state: one row of `managed_tx`.

use crate::confirmation::ConfirmationNotice;
use crate::event::EventKind;
use crate::id::TxId;
use crate::intent::Intent;
use crate::nonce::Nonce;
use crate::payload::Payload;
use crate::state::{StateName, TxState};
use crate::time::Timestamp;
use crate::transition::{IllegalTransition, Transition, TransitionName};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentRecord {
    pub id: TxId,
    /// Place in line. Given by the database once, and kept also when the intent comes back to the queue.
    pub seq: u64,
    pub intent: Intent,
    /// What is wanted instead of what the intent asked for first. The request id stands for the first one all the same.
    pub replacement: Option<Payload>,
    pub state: TxState,
    /// Counts the state changes from 1 (accepted). It is also the sequence number of the intent's newest event, so a
    /// change that names it can neither be lost under another nor leave a hole in the events.
    pub version: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// One legal state change, with its event. Can only be made by way of the transition table, so a store never has to ask
/// whether it is allowed; it only has to ask whether the row still is what it was.
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
    /// What is wanted on chain now.
    pub fn payload(&self) -> &Payload {
        self.replacement.as_ref().unwrap_or(self.intent.payload())
    }

    /// A change of the intent alone. Binding it, and letting a reserved nonce go, change its slot as well, and are made by
    /// [`LaneCommit`](crate::LaneCommit) only.
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

    /// The record after its nonce was bound, which the store has said is durable.
    pub(crate) fn bound(&mut self, nonce: Nonce, at: Timestamp) {
        if let Ok(state) = self.state.apply(Transition::Bind(nonce)) {
            (self.state, self.version, self.updated_at) = (state, self.version.saturating_add(1), at);
        }
    }

    /// The record after `change`, which the store has said is durable.
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

    /// The payload that takes the place of the one before; `None` leaves it as it is.
    pub fn replacement(&self) -> Option<&Payload> {
        self.replacement.as_deref()
    }

    pub fn event(&self) -> EventKind {
        self.event
    }

    /// What its event tells of confirmations.
    pub fn notice(&self) -> Option<&ConfirmationNotice> {
        self.notice.as_ref()
    }
}
