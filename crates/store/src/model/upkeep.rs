//! Retention: moves old rows out of the working tables, and deletes older ones.

use std::collections::BTreeSet;
use std::ops::Bound as Edge;
use std::time::Duration;

use gapless_domain::{
    CommandId, Event, EventPosition, IntentRecord, LaneLedger, Nonce, OwnerId, SubmitterId, Timestamp, TxId,
};

use super::outbox::intent_of;
use super::tables::{CallContext, Tables};
use crate::retention::RetentionKind;

impl Tables {
    /// Claims retention for the caller. A claim that ends later than any claim made now was written before the clock
    /// went back, and is free.
    pub(super) fn claim_retention(&mut self, call: &CallContext<'_>) -> Option<Timestamp> {
        let farthest = call.lease_end().saturating_add(call.terms.clock_skew);
        let is_held =
            |(owner, until): &(OwnerId, Timestamp)| owner != call.owner && *until > call.now && *until <= farthest;
        if self.retention_claim.as_ref().is_some_and(is_held) {
            return None;
        }
        self.retention_claim = Some((call.owner.clone(), call.lease_end()));
        Some(call.now)
    }

    pub(super) fn apply_retention(
        &mut self,
        call: &CallContext<'_>,
        kind: RetentionKind,
        age: Duration,
        limit: u32,
    ) -> u32 {
        let before = call.now.saturating_sub(age);
        let limit = limit as usize;
        let count = match kind {
            RetentionKind::Intents => self.move_intents(before, limit),
            RetentionKind::Events => self.delete_events(before, limit),
            RetentionKind::LaneEvents => self.delete_lane_events(before, limit),
            RetentionKind::Attempts => self.delete_attempts(before, limit),
            RetentionKind::Commands => self.delete_commands(before, limit),
            RetentionKind::Nodes => self.delete_nodes(call, before, limit),
            RetentionKind::Audit => self.delete_audits(before, limit),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Moves ended intents out, oldest first. The model keeps their attempts in the slots.
    fn move_intents(&mut self, before: Timestamp, limit: usize) -> usize {
        let unhandled: BTreeSet<TxId> = match self.slowest_consumer() {
            Some(acked) => {
                let later = self.events.range((Edge::Excluded(acked), Edge::Unbounded));
                later.filter_map(|(_, event)| intent_of(event)).collect()
            }
            None => BTreeSet::new(),
        };
        let is_due = |tx: &IntentRecord| tx.state.name().is_terminal() && !unhandled.contains(&tx.id);
        let all = self.lanes.values().flat_map(|lane| lane.ledger.intents());
        let due = ended_before(all, before, limit, is_due);
        let is_moved = |event: &Event| intent_of(event).is_some_and(|id| due.contains(&id));
        self.archived_events.extend(self.events.extract_if(.., |_, event| is_moved(event)));
        for id in &due {
            let lane = self.lane_of.get(id).and_then(|lane| self.lanes.get_mut(lane));
            self.archived.extend(lane.and_then(|lane| lane.ledger.remove_ended(*id)).map(|tx| (*id, tx)));
        }
        due.len()
    }

    fn delete_events(&mut self, before: Timestamp, limit: usize) -> usize {
        let kept: BTreeSet<TxId> = self.archived_events.values().filter_map(intent_of).collect();
        let due = ended_before(self.archived.values(), before, limit, |tx| kept.contains(&tx.id));
        self.archived_events.retain(|_, event| intent_of(event).is_none_or(|id| !due.contains(&id)));
        due.len()
    }

    /// Deletes in the order of positions, and stops at the first event that is not due: after a jump of the clock a
    /// later event can have an earlier time, and a consumer must never see a gap between two events.
    fn delete_lane_events(&mut self, before: Timestamp, limit: usize) -> usize {
        let slowest = self.slowest_consumer();
        let is_due = |event: &Event| event.at < before && slowest.is_none_or(|acked| event.position <= acked);
        let due = self.events.values().filter(|event| intent_of(event).is_none()).take_while(|event| is_due(event));
        let due: Vec<EventPosition> = due.take(limit).map(|event| event.position).collect();
        due.iter().filter_map(|position| self.events.remove(position)).count()
    }

    fn delete_attempts(&mut self, before: Timestamp, limit: usize) -> usize {
        let due = ended_before(self.archived.values(), before, limit, |tx| self.has_only_closed_attempts(tx));
        for lane in self.lanes.values_mut() {
            for record in lane.ledger.slots.values_mut() {
                if record.owner().is_some_and(|id| due.contains(&id)) {
                    record.attempts.clear();
                }
            }
        }
        due.len()
    }

    /// True if the intent has attempts, and the slots of all of them are closed.
    fn has_only_closed_attempts(&self, tx: &IntentRecord) -> bool {
        let open_nonce = self.ledger(tx.intent.submitter()).map_or(Nonce::ZERO, LaneLedger::open_nonce);
        let attempts = self.attempts_of(tx.id);
        !attempts.is_empty() && attempts.iter().all(|attempt| attempt.nonce < open_nonce)
    }

    fn delete_commands(&mut self, before: Timestamp, limit: usize) -> usize {
        let mut due: Vec<(Timestamp, SubmitterId, CommandId)> = Vec::new();
        for (submitter, lane) in &self.lanes {
            let finished = lane.finished_at.iter().filter(|(_, at)| **at < before);
            due.extend(finished.map(|(id, at)| (*at, submitter.clone(), *id)));
        }
        due.sort();
        due.truncate(limit);
        for (_, submitter, id) in &due {
            let lane = self.lane_mut(submitter);
            lane.ledger.results.remove(id);
            lane.finished_at.remove(id);
        }
        due.len()
    }

    fn delete_nodes(&mut self, call: &CallContext<'_>, before: Timestamp, limit: usize) -> usize {
        let dead_since = call.now.saturating_sub(call.terms.duration).saturating_sub(call.terms.clock_skew);
        let before = before.min(dead_since);
        let holders: BTreeSet<&OwnerId> = self
            .lanes
            .values()
            .filter_map(|lane| lane.lease.as_ref())
            .filter(|lease| lease.is_valid(call))
            .map(|lease| &lease.owner)
            .collect();
        let is_stale =
            |owner: &OwnerId, seen_at: Timestamp| seen_at < before && owner != call.owner && !holders.contains(owner);
        let stale = self.nodes.iter().filter(|(owner, seen_at)| is_stale(owner, **seen_at));
        let stale: BTreeSet<(Timestamp, OwnerId)> = stale.map(|(owner, seen_at)| (*seen_at, owner.clone())).collect();
        let mut count = 0;
        for (seen_at, owner) in stale.into_iter().take(limit) {
            match self.dead_marks.get(&owner) {
                Some((marked, since)) if *marked == seen_at && *since < dead_since => {
                    self.nodes.remove(&owner);
                    self.canaries.remove(&owner);
                    self.dead_marks.remove(&owner);
                    count += 1;
                }
                Some((marked, _)) if *marked == seen_at => {}
                _ => drop(self.dead_marks.insert(owner, (seen_at, call.now))),
            }
        }
        count
    }

    fn delete_audits(&mut self, before: Timestamp, limit: usize) -> usize {
        let due = self.audits.values().filter(|entry| entry.at < before);
        let due: Vec<u64> = due.take(limit).map(|entry| entry.id).collect();
        due.iter().filter_map(|id| self.audits.remove(id)).count()
    }

    /// The newest position that every consumer has acknowledged. `None` if there is no consumer.
    fn slowest_consumer(&self) -> Option<EventPosition> {
        self.consumers.values().map(|consumer| consumer.acked).min()
    }
}

/// The oldest intents that ended before a time. A terminal state never changes, so the last change is the end.
fn ended_before<'a>(
    intents: impl Iterator<Item = &'a IntentRecord>,
    before: Timestamp,
    limit: usize,
    is_due: impl Fn(&IntentRecord) -> bool,
) -> BTreeSet<TxId> {
    let due = intents.filter(|tx| tx.updated_at < before && is_due(tx));
    let due: BTreeSet<(Timestamp, TxId)> = due.map(|tx| (tx.updated_at, tx.id)).collect();
    due.into_iter().take(limit).map(|(_, id)| id).collect()
}
