//! Events, their consumers, and retention, which waits for the consumers.

use std::collections::BTreeSet;
use std::ops::Bound as Edge;
use std::time::Duration;

use gapless_domain::{Event, EventBody, EventPosition, IntentRecord, TxId};

use super::tables::{Call, Consumer, Tables};

impl Tables {
    pub(super) fn read_events(&self, after: EventPosition, limit: u32) -> Vec<Event> {
        let later = self.events.range((Edge::Excluded(after), Edge::Unbounded));
        later.map(|(_, event)| event.clone()).take(limit as usize).collect()
    }

    /// The events of one intent, oldest first. They are moved out all together, and positions rise with their numbers.
    pub(super) fn events_of(&self, id: TxId, limit: u32) -> Vec<Event> {
        let all = self.archived_events.values().chain(self.events.values());
        all.filter(|event| intent_of(event) == Some(id)).take(limit as usize).cloned().collect()
    }

    /// Claims the next events for a consumer. From its first claim on, retention waits for the consumer.
    pub(super) fn claim_events(&mut self, call: &Call<'_>, name: &str, limit: u32) -> Option<Vec<Event>> {
        let known = self.consumers.get(name);
        if known.is_some_and(|consumer| consumer.holder != *call.owner && consumer.held_until > call.now) {
            return None;
        }
        let acked = known.map_or(EventPosition::default(), |consumer| consumer.acked);
        let consumer = Consumer { acked, holder: call.owner.clone(), held_until: call.lease_end() };
        self.consumers.insert(name.to_owned(), consumer);
        Some(self.read_events(acked, limit))
    }

    pub(super) fn ack_events(&mut self, call: &Call<'_>, name: &str, upto: EventPosition) -> bool {
        let holds = |consumer: &&mut Consumer| consumer.holder == *call.owner && consumer.held_until > call.now;
        let Some(consumer) = self.consumers.get_mut(name).filter(holds) else { return false };
        consumer.acked = consumer.acked.max(upto);
        true
    }

    /// Moves ended intents out, oldest first. A terminal state never changes, so the last change is the end.
    pub(super) fn archive(&mut self, call: &Call<'_>, age: Duration, limit: u32) -> u32 {
        let newest = call.now.saturating_sub(age);
        let unhandled = self.unhandled();
        let is_due =
            |tx: &&IntentRecord| tx.state.name().is_terminal() && tx.updated_at < newest && !unhandled.contains(&tx.id);
        let all = self.lanes.values().flat_map(|lane| lane.ledger.intents());
        let due: BTreeSet<_> = all.filter(is_due).map(|tx| (tx.updated_at, tx.id)).collect();
        let due: BTreeSet<TxId> = due.into_iter().take(limit as usize).map(|(_, id)| id).collect();
        let is_moved = |event: &Event| intent_of(event).is_some_and(|id| due.contains(&id));
        self.archived_events.extend(self.events.extract_if(.., |_, event| is_moved(event)));
        for id in &due {
            let lane = self.lane_of.get(id).and_then(|lane| self.lanes.get_mut(lane));
            self.archived.extend(lane.and_then(|lane| lane.ledger.remove_ended(*id)).map(|tx| (*id, tx)));
        }
        u32::try_from(due.len()).unwrap_or(limit)
    }

    /// Intents with an event that some consumer has not handled yet.
    fn unhandled(&self) -> BTreeSet<TxId> {
        let Some(slowest) = self.consumers.values().map(|consumer| consumer.acked).min() else {
            return BTreeSet::new();
        };
        let later = self.events.range((Edge::Excluded(slowest), Edge::Unbounded));
        later.filter_map(|(_, event)| intent_of(event)).collect()
    }
}

fn intent_of(event: &Event) -> Option<TxId> {
    match event.body {
        EventBody::Tx { tx_id, .. } => Some(tx_id),
        EventBody::Lane { .. } => None,
    }
}
