//! Reads.

use std::ops::Bound as Edge;

use gapless_domain::{
    Attempt, ChainId, Command, CommandId, CommandStatus, Head, IntentRecord, Lease, SubmitterId, TxId,
};

use super::tables::{CallContext, ModelLane, Tables};
use crate::head::merge_heads;
use crate::roles::{HeadVerdict, Loaded, MAX_OPEN_COMMANDS, TxFilter};

impl Tables {
    pub(super) fn load(&self, call: &CallContext<'_>, lease: &Lease) -> Loaded {
        match self.lanes.get(lease.submitter()).filter(|_| self.holds(call, lease)) {
            Some(lane) => Loaded::Lane(lane.ledger.snapshot(call.now)),
            None => Loaded::Fenced,
        }
    }

    pub(super) fn peek(&self, submitter: &SubmitterId, limit: u32, without: &[TxId]) -> Vec<IntentRecord> {
        let queue = self.ledger(submitter).into_iter().flat_map(|ledger| ledger.queue());
        queue.filter(|tx| !without.contains(&tx.id)).take(limit as usize).cloned().collect()
    }

    pub(super) fn open_commands(&self, submitter: &SubmitterId) -> Vec<Command> {
        let commands = self.ledger(submitter).into_iter().flat_map(|ledger| ledger.commands.values());
        commands.take(MAX_OPEN_COMMANDS as usize).cloned().collect()
    }

    pub(super) fn lanes_with_work(
        &self,
        call: &CallContext<'_>,
        after: Option<&SubmitterId>,
        limit: u32,
    ) -> Vec<SubmitterId> {
        let from = after.map_or(Edge::Unbounded, Edge::Excluded);
        let is_owned = |lane: &ModelLane| lane.lease.as_ref().is_some_and(|row| row.is_valid(call));
        let lanes = self.lanes.range::<SubmitterId, _>((from, Edge::Unbounded));
        let lanes = lanes.filter(|(_, lane)| lane.ledger.has_work() && !is_owned(lane));
        lanes.map(|(submitter, _)| submitter.clone()).take(limit as usize).collect()
    }

    pub(super) fn list(&self, filter: &TxFilter) -> Vec<IntentRecord> {
        let is_wanted = |tx: &&IntentRecord| {
            filter.submitter.as_ref().is_none_or(|submitter| tx.intent.submitter() == submitter)
                && filter.state.is_none_or(|state| tx.state.name() == state)
                && filter.before_seq.is_none_or(|seq| tx.seq < seq)
        };
        let all = self.lanes.values().flat_map(|lane| lane.ledger.intents());
        let mut found: Vec<&IntentRecord> = all.filter(is_wanted).collect();
        found.sort_by_key(|tx| std::cmp::Reverse(tx.seq));
        found.into_iter().take(filter.limit as usize).cloned().collect()
    }

    pub(super) fn command(&self, id: CommandId) -> Option<CommandStatus> {
        let status = |lane: &ModelLane| match lane.ledger.results.get(&id) {
            Some(result) => Some(CommandStatus::Over(result.clone())),
            None => lane.ledger.commands.get(&id).map(|_| CommandStatus::Open),
        };
        self.lanes.values().find_map(status)
    }

    /// The attempts of all slots that were ever the intent's own: an intent that lost its nonce has more than one.
    pub(super) fn attempts_of(&self, id: TxId) -> Vec<Attempt> {
        let Some(ledger) = self.lane_of.get(&id).and_then(|lane| self.ledger(lane)) else { return Vec::new() };
        let own = ledger.slots.values().filter(|record| record.owner() == Some(id));
        own.flat_map(|record| record.attempts.values()).cloned().collect()
    }

    pub(super) fn save_head(&mut self, chain: &ChainId, head: &Head) -> HeadVerdict {
        let (verdict, write) = merge_heads(self.heads.get(chain), head);
        if let Some(head) = write {
            self.heads.insert(chain.clone(), head);
        }
        verdict
    }
}
