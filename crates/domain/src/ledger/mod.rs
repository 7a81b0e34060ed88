//! The durable rows of one lane, and what a commit may do and does to them.
//!
//! - `commit`: [`LaneCommit`], one fenced write of a lane
//! - `facts`: the rows that a check depends on
//! - `check`: the rules, which every store calls before it writes
//! - `apply`: the fold, which says how a commit changes the rows

mod apply;
mod check;
mod commit;
mod facts;
#[cfg(test)]
pub(crate) mod fixtures;

use std::collections::BTreeMap;

pub use check::{Conflict, Rejection, check};
pub use commit::{CommitError, LaneCommit};
pub use facts::{AttemptFact, CommitFacts, CursorFact, FactKeys, IntentFact, LeaseFact};

use crate::attempt::Attempt;
use crate::command::{Command, CommandId, CommandKind, CommandResult};
use crate::cursor::Cursor;
use crate::id::TxId;
use crate::intent_record::IntentRecord;
use crate::lease::FencingToken;
use crate::nonce::Nonce;
use crate::reservation::{Reservation, ReservationStatus};
use crate::slot::{Slot, SlotKind};
use crate::snapshot::LaneSnapshot;
use crate::text::CommandReport;
use crate::time::Timestamp;

/// All rows of one lane. A commit changes them through [`LaneLedger::apply`] only.
#[derive(Clone, Debug, Default)]
pub struct LaneLedger {
    /// `None` for a lane that has never written one.
    pub cursor: Option<Cursor>,
    pub slots: BTreeMap<Nonce, SlotRecord>,
    /// Commands that are not executed yet.
    pub commands: BTreeMap<CommandId, Command>,
    /// The results of executed commands.
    pub results: BTreeMap<CommandId, CommandResult>,
    /// True if the store lost commits and the lane has not acknowledged the loss.
    pub regressed: bool,
    /// The highest fencing token that has written the lane.
    pub written_by: Option<FencingToken>,
    intents: BTreeMap<TxId, IntentRecord>,
    /// The QUEUED intents by sequence number.
    queue: BTreeMap<u64, TxId>,
}

/// One bound nonce with the rows that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    pub slot: Slot,
    /// The attempts by ordinal.
    pub attempts: BTreeMap<u16, Attempt>,
    /// The intent that holds the nonce now. An intent that ended, or lost the nonce, holds it no more.
    pub intent: Option<TxId>,
    pub reservation: Option<ReservationStatus>,
}

impl SlotRecord {
    pub fn new(slot: Slot) -> Self {
        SlotRecord { slot, attempts: BTreeMap::new(), intent: None, reservation: None }
    }

    /// The intent that the nonce's attempts belong to. A nonce that is only reserved, or filled, has none.
    pub fn owner(&self) -> Option<TxId> {
        match self.slot.kind {
            SlotKind::Intent(id) => Some(id),
            SlotKind::Reservation => self.submitted_for(),
            SlotKind::Foreign => None,
        }
    }

    /// The intent for which a caller submitted a transaction at this reserved nonce.
    pub fn submitted_for(&self) -> Option<TxId> {
        match self.reservation {
            Some(ReservationStatus::Used { tx_id }) => tx_id,
            _ => None,
        }
    }
}

impl LaneLedger {
    pub fn intent(&self, id: TxId) -> Option<&IntentRecord> {
        self.intents.get(&id)
    }

    pub fn intents(&self) -> impl Iterator<Item = &IntentRecord> {
        self.intents.values()
    }

    /// The queued intents in order of acceptance.
    pub fn queue(&self) -> impl Iterator<Item = &IntentRecord> {
        self.queue.values().filter_map(|id| self.intents.get(id))
    }

    /// The number of queued intents.
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Takes an intent that ended out of the ledger, for retention. An intent that did not end stays.
    pub fn remove_ended(&mut self, id: TxId) -> Option<IntentRecord> {
        let has_ended = self.intents.get(&id).is_some_and(|tx| tx.state.name().is_terminal());
        if has_ended { self.intents.remove(&id) } else { None }
    }

    /// The lowest nonce whose slot is open.
    pub fn open_nonce(&self) -> Nonce {
        self.cursor.as_ref().map_or(Nonce::ZERO, |cursor| cursor.open_nonce)
    }

    /// True if the lane has something to do: a queued intent, an open command, or an open slot.
    pub fn has_work(&self) -> bool {
        let has_open = |cursor: &Cursor| cursor.open_nonce < cursor.next_nonce;
        !self.queue.is_empty() || !self.commands.is_empty() || self.cursor.as_ref().is_some_and(has_open)
    }

    /// Refuses the open decisions of operators. They were made about the ledger as it was before commits were lost.
    pub fn refuse_decisions(&mut self) {
        for (id, _) in self.commands.extract_if(.., |_, command| command.kind.is_decision()) {
            self.results.insert(id, CommandResult::Refused(CommandReport::new(CommandKind::OVERTAKEN)));
        }
    }

    /// The lane as its owner loads it, without the history of sends.
    pub fn snapshot(&self, now: Timestamp) -> LaneSnapshot {
        let open = || self.slots.range(self.open_nonce()..);
        let attempts = open().flat_map(|(_, record)| record.attempts.values());
        let reservation = |nonce: Nonce, record: &SlotRecord| match &record.reservation {
            None | Some(ReservationStatus::Used { .. }) => None,
            Some(status) => Some(Reservation { nonce, status: status.clone() }),
        };
        LaneSnapshot {
            cursor: self.cursor.clone(),
            slots: open().map(|(_, record)| record.slot.clone()).collect(),
            attempts: attempts.map(|attempt| Attempt { history: Vec::new(), ..attempt.clone() }).collect(),
            bound: open().filter_map(|(_, record)| self.intent(record.intent?)).cloned().collect(),
            reservations: open().filter_map(|(nonce, record)| reservation(*nonce, record)).collect(),
            commands: self.commands.values().cloned().collect(),
            regressed: self.regressed,
            now,
        }
    }

    fn recyclable(&self) -> impl Iterator<Item = Nonce> {
        let is_recyclable = |record: &SlotRecord| record.reservation == Some(ReservationStatus::Recyclable);
        self.slots.range(self.open_nonce()..).filter(move |(_, record)| is_recyclable(record)).map(|(nonce, _)| *nonce)
    }
}
