//! The fold: how a commit that passed [`check`](super::check) changes the rows of its lane.

#[cfg(test)]
mod tests;

use super::{LaneCommit, LaneLedger, SlotRecord};
use crate::attempt::Attempt;
use crate::intent_record::{Change, IntentRecord};
use crate::slot::Slot;
use crate::state::TxState;
use crate::time::Timestamp;

impl LaneLedger {
    /// Applies a commit that passed the check at the database's time `at`.
    pub fn apply(&mut self, commit: &LaneCommit, at: Timestamp) {
        self.written_by = self.written_by.max(Some(commit.lease().token()));
        if let Some(change) = commit.cursor() {
            self.cursor = Some(change.to().clone());
            // A regressed lane passes the check with its acknowledgement only, which writes the cursor.
            self.regressed = false;
        }
        for new in commit.slots() {
            let slot = Slot::new(new.clone(), at);
            match self.slots.get_mut(&new.nonce) {
                Some(record) => record.slot = slot,
                None => drop(self.slots.insert(new.nonce, SlotRecord::new(slot))),
            }
        }
        for change in commit.changes() {
            self.change_intent(change, at);
        }
        for step in commit.reservations() {
            if let Some(record) = self.slots.get_mut(&step.nonce()) {
                record.reservation = Some(step.status_after(record.reservation.as_ref(), at));
            }
        }
        for new in commit.attempts() {
            if let Some(record) = self.slots.get_mut(&new.nonce) {
                record.attempts.insert(new.ordinal, Attempt::new(new.clone(), at));
            }
        }
        for report in commit.reports() {
            let attempts = self.slots.get_mut(&report.nonce).map(|record| record.attempts.values_mut());
            if let Some(attempt) = attempts.into_iter().flatten().find(|attempt| attempt.hash == report.hash) {
                attempt.record_send(report, at);
            }
        }
        for claim in commit.claims() {
            if let Some(record) = self.slots.get_mut(&claim.nonce) {
                record.slot.claim(claim, at);
            }
        }
        // A command that is done already keeps its result.
        for (id, result) in commit.commands_done() {
            if self.commands.remove(id).is_some() {
                self.results.insert(*id, result.clone());
            }
        }
    }

    /// Applies one change of an intent, inside or outside of a commit: a queued intent is canceled without a lease.
    pub fn change_intent(&mut self, change: &Change, at: Timestamp) {
        if let Some(mut tx) = self.intents.get(&change.tx_id()).cloned() {
            tx.apply(change, at);
            self.put_intent(tx);
        }
    }

    /// Writes an intent's record, and keeps the queue and the holder of its slot in step with the state.
    pub fn put_intent(&mut self, tx: IntentRecord) {
        let before = self.intents.get(&tx.id).map(|tx| &tx.state);
        match before.map(|state| (state, state.bound())) {
            Some((TxState::Queued, _)) => drop(self.queue.remove(&tx.seq)),
            Some((_, Some(bound))) => {
                if let Some(record) = self.slots.get_mut(&bound.nonce) {
                    record.intent = None;
                }
            }
            _ => {}
        }
        match (&tx.state, tx.state.bound()) {
            (TxState::Queued, _) => drop(self.queue.insert(tx.seq, tx.id)),
            (_, Some(bound)) => {
                if let Some(record) = self.slots.get_mut(&bound.nonce) {
                    record.intent = Some(tx.id);
                }
            }
            _ => {}
        }
        self.intents.insert(tx.id, tx);
    }
}
