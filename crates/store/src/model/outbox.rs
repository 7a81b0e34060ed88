//! Events, their consumers, and retention, which waits for them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound as Edge;
use std::time::Duration;

use gapless_domain::{Event, EventBody, EventPosition, IntentRecord, TxId};

use super::tables::{Call, Consumer, Tables};

impl Tables {
    pub(super) fn read_events(&self, after: EventPosition, limit: u32) -> Vec<Event> {
        let later = self.events.range((Edge::Excluded(after), Edge::Unbounded));
        later.map(|(_, event)| event.clone()).take(limit as usize).collect()
    }

    /// Positions rise with the numbers of one intent, and its events are either here or moved out, never both.
    pub(super) fn events_of(&self, id: TxId, limit: u32) -> Vec<Event> {
        let all = self.archived_events.values().chain(self.events.values());
        all.filter(|event| intent_of(event) == Some(id)).take(limit as usize).cloned().collect()
    }

    /// The first claim makes a consumer known; from then on retention waits for it.
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

    /// Oldest first. Terminal states never change, so the last change is when it ended.
    pub(super) fn archive(&mut self, call: &Call<'_>, age: Duration, limit: u32) -> u32 {
        let newest = call.now.saturating_sub(age);
        let unhandled = self.unhandled();
        let is_due =
            |tx: &&IntentRecord| tx.state.name().is_terminal() && tx.updated_at < newest && !unhandled.contains(&tx.id);
        let due: BTreeSet<_> = self.txs.values().filter(is_due).map(|tx| (tx.updated_at, tx.id)).collect();
        let due: BTreeSet<TxId> = due.into_iter().take(limit as usize).map(|(_, id)| id).collect();
        let is_moved = |event: &Event| intent_of(event).is_some_and(|id| due.contains(&id));
        self.archived_events.extend(self.events.extract_if(.., |_, event| is_moved(event)));
        let moved: BTreeMap<TxId, IntentRecord> = due.iter().filter_map(|id| self.txs.remove_entry(id)).collect();
        let count = moved.len();
        self.archived.extend(moved);
        u32::try_from(count).unwrap_or(limit)
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
