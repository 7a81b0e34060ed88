//! Reads.

use std::ops::Bound as Edge;

use gapless_domain::{
    Attempt, ChainId, Command, CommandId, CommandStatus, Head, IntentRecord, LaneSnapshot, Lease, Nonce, Reservation,
    ReservationStatus, SlotKind, SubmitterId, TxId,
};

use super::tables::{Call, CursorRow, Lane, Tables};
use crate::contract::{MAX_OPEN_COMMANDS, TxFilter};
use crate::head::merge_heads;
use crate::verdict::{HeadVerdict, Loaded};

impl Tables {
    pub(super) fn load(&self, call: &Call<'_>, lease: &Lease) -> Loaded {
        match self.lanes.get(lease.submitter()).filter(|_| self.holds(call, lease)) {
            Some(lane) => Loaded::Lane(self.snapshot_of(call, lease.submitter(), lane)),
            None => Loaded::Fenced,
        }
    }

    fn snapshot_of(&self, call: &Call<'_>, submitter: &SubmitterId, lane: &Lane) -> LaneSnapshot {
        let first_open = lane.first_open();
        let is_open = |status: &ReservationStatus| !matches!(status, ReservationStatus::Used { .. });
        LaneSnapshot {
            cursor: lane.cursor.as_ref().map(|row| row.cursor.clone()),
            slots: lane.slots.range(first_open..).map(|(_, slot)| slot.clone()).collect(),
            attempts: lane.attempts.range((first_open, 0)..).map(|(_, attempt)| without_history(attempt)).collect(),
            bound: lane.bound.range(first_open..).filter_map(|(_, id)| self.txs.get(id)).cloned().collect(),
            reservations: lane
                .reservations
                .range(first_open..)
                .filter(|(_, status)| is_open(status))
                .map(|(nonce, status)| Reservation { nonce: *nonce, status: status.clone() })
                .collect(),
            commands: lane.commands.values().cloned().collect(),
            regressed: self.is_regressed(submitter),
            now: call.now,
        }
    }

    pub(super) fn peek(&self, submitter: &SubmitterId, limit: u32, without: &[TxId]) -> Vec<IntentRecord> {
        let ids = self.lanes.get(submitter).into_iter().flat_map(|lane| lane.queue.values());
        let ids = ids.filter(|id| !without.contains(id));
        ids.filter_map(|id| self.txs.get(id)).take(limit as usize).cloned().collect()
    }

    pub(super) fn open_commands(&self, submitter: &SubmitterId) -> Vec<Command> {
        let commands = self.lanes.get(submitter).into_iter().flat_map(|lane| lane.commands.values());
        commands.take(MAX_OPEN_COMMANDS as usize).cloned().collect()
    }

    pub(super) fn lanes_with_work(&self, call: &Call<'_>, after: Option<&SubmitterId>, limit: u32) -> Vec<SubmitterId> {
        let from = after.map_or(Edge::Unbounded, Edge::Excluded);
        let is_orphan = |lane: &Lane| lane.has_work() && lane.lease.as_ref().is_none_or(|row| !row.is_valid(call));
        let lanes = self.lanes.range::<SubmitterId, _>((from, Edge::Unbounded)).filter(|(_, lane)| is_orphan(lane));
        lanes.map(|(submitter, _)| submitter.clone()).take(limit as usize).collect()
    }

    pub(super) fn list(&self, filter: &TxFilter) -> Vec<IntentRecord> {
        let is_wanted = |tx: &&IntentRecord| {
            filter.submitter.as_ref().is_none_or(|submitter| tx.intent.submitter() == submitter)
                && filter.state.is_none_or(|state| tx.state.name() == state)
                && filter.before_seq.is_none_or(|seq| tx.seq < seq)
        };
        let mut found: Vec<&IntentRecord> = self.txs.values().filter(is_wanted).collect();
        found.sort_by_key(|tx| std::cmp::Reverse(tx.seq));
        found.into_iter().take(filter.limit as usize).cloned().collect()
    }

    pub(super) fn command(&self, id: CommandId) -> Option<CommandStatus> {
        let status = |lane: &Lane| match lane.commands_done.get(&id) {
            Some(finished) => Some(CommandStatus::Over(finished.result.clone())),
            None => lane.commands.get(&id).map(|_| CommandStatus::Open),
        };
        self.lanes.values().find_map(status)
    }

    /// Of all slots that were ever its own: an intent that lost its nonce has more than one.
    pub(super) fn attempts_of(&self, id: TxId) -> Vec<Attempt> {
        let Some(lane) = self.get(id).and_then(|tx| self.lanes.get(tx.intent.submitter())) else { return Vec::new() };
        lane.attempts.values().filter(|attempt| lane.intent_at(attempt.nonce) == Some(id)).cloned().collect()
    }

    pub(super) fn save_head(&mut self, chain: &ChainId, head: &Head) -> HeadVerdict {
        let (verdict, write) = merge_heads(self.heads.get(chain), head);
        if let Some(head) = write {
            self.heads.insert(chain.clone(), head);
        }
        verdict
    }
}

impl Lane {
    /// What is below is closed: the lane has said so itself, and is not shown it again.
    pub(super) fn first_open(&self) -> Nonce {
        self.cursor.as_ref().map_or(Nonce::ZERO, |row| row.cursor.open_nonce)
    }

    pub(super) fn has_work(&self) -> bool {
        let has_open = |row: &CursorRow| row.cursor.open_nonce < row.cursor.next_nonce;
        !self.queue.is_empty()
            || !self.bound.is_empty()
            || !self.commands.is_empty()
            || self.cursor.as_ref().is_some_and(has_open)
    }

    /// The intent whose attempts hang on a slot; a nonce that is only lent, or filled, has none.
    pub(super) fn intent_at(&self, nonce: Nonce) -> Option<TxId> {
        match self.slots.get(&nonce)?.kind {
            SlotKind::Intent(id) => Some(id),
            SlotKind::Reservation => self.used_for(nonce),
            _ => None,
        }
    }

    pub(super) fn used_for(&self, nonce: Nonce) -> Option<TxId> {
        match self.reservations.get(&nonce)? {
            ReservationStatus::Used { tx_id } => *tx_id,
            _ => None,
        }
    }
}

/// As a lane is loaded.
fn without_history(attempt: &Attempt) -> Attempt {
    Attempt { history: Vec::new(), ..attempt.clone() }
}
