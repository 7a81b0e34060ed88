//! The rows behind the lane on the bench, in the shape in which tests read and change them. The domain's own rules and
//! fold stand behind it, so it is as strict as a store.

use std::collections::BTreeMap;

use gapless_domain::ledger::{LeaseFact, check};
use gapless_domain::{
    Attempt, Command, CommandResult, Cursor, IntentRecord, LaneCommit, LaneLedger, LaneSnapshot, NewAudit, Nonce,
    ReservationStatus, Slot, SlotRecord, Timestamp,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) cursor: Option<Cursor>,
    pub(crate) slots: BTreeMap<Nonce, Slot>,
    pub(crate) attempts: BTreeMap<(Nonce, u16), Attempt>,
    /// The intents by sequence number.
    pub(crate) txs: BTreeMap<u64, IntentRecord>,
    pub(crate) reservations: BTreeMap<Nonce, ReservationStatus>,
    pub(crate) commands: Vec<Command>,
    pub(crate) results: Vec<CommandResult>,
    pub(crate) audits: Vec<NewAudit>,
    pub(crate) regressed: bool,
    pub(crate) now_micros: i64,
}

impl Ledger {
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_micros)
    }

    pub(crate) fn snapshot(&self) -> LaneSnapshot {
        self.rows().snapshot(self.now())
    }

    /// Applies a commit. A commit that a store would refuse is a fault of the lane.
    pub(crate) fn apply(&mut self, commit: &LaneCommit) {
        let (mut rows, at) = (self.rows(), self.now());
        let facts = rows.facts(commit, LeaseFact::Held, at);
        let verdict = check(commit, &facts);
        assert!(verdict.is_ok(), "{verdict:?}: {commit:?}");
        rows.apply(commit, at);
        self.results.extend(commit.commands_done().iter().map(|(_, result)| result.clone()));
        self.audits.extend(commit.audits().iter().cloned());
        self.replace_rows(rows);
    }

    fn rows(&self) -> LaneLedger {
        let mut rows = LaneLedger::default();
        (rows.cursor, rows.regressed) = (self.cursor.clone(), self.regressed);
        for (nonce, slot) in &self.slots {
            let attempts = self.attempts.range((*nonce, 0)..=(*nonce, u16::MAX));
            let record = SlotRecord {
                attempts: attempts.map(|((_, ordinal), attempt)| (*ordinal, attempt.clone())).collect(),
                reservation: self.reservations.get(nonce).cloned(),
                ..SlotRecord::new(slot.clone())
            };
            rows.slots.insert(*nonce, record);
        }
        for tx in self.txs.values() {
            rows.put_intent(tx.clone());
        }
        rows.commands = self.commands.iter().map(|command| (command.id, command.clone())).collect();
        rows
    }

    fn replace_rows(&mut self, rows: LaneLedger) {
        self.txs = rows.intents().map(|tx| (tx.seq, tx.clone())).collect();
        self.commands.retain(|command| rows.commands.contains_key(&command.id));
        (self.cursor, self.regressed) = (rows.cursor, rows.regressed);
        for (nonce, record) in rows.slots {
            self.slots.insert(nonce, record.slot);
            self.attempts.extend(record.attempts.into_iter().map(|(ordinal, attempt)| ((nonce, ordinal), attempt)));
            self.reservations.extend(record.reservation.map(|status| (nonce, status)));
        }
    }
}
