//! Events and their consumers.

use std::ops::Bound as Edge;

use gapless_domain::{Event, EventBody, EventPosition, TxId};

use super::tables::{CallContext, Consumer, Tables};

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
    pub(super) fn claim_events(&mut self, call: &CallContext<'_>, name: &str, limit: u32) -> Option<Vec<Event>> {
        let known = self.consumers.get(name);
        if known.is_some_and(|consumer| consumer.holder != *call.owner && consumer.held_until > call.now) {
            return None;
        }
        let acked = known.map_or(EventPosition::default(), |consumer| consumer.acked);
        let consumer = Consumer { acked, holder: call.owner.clone(), held_until: call.lease_end() };
        self.consumers.insert(name.to_owned(), consumer);
        Some(self.read_events(acked, limit))
    }

    pub(super) fn ack_events(&mut self, call: &CallContext<'_>, name: &str, upto: EventPosition) -> bool {
        let holds = |consumer: &&mut Consumer| consumer.holder == *call.owner && consumer.held_until > call.now;
        let Some(consumer) = self.consumers.get_mut(name).filter(holds) else { return false };
        consumer.acked = consumer.acked.max(upto);
        true
    }
}

pub(super) fn intent_of(event: &Event) -> Option<TxId> {
    match event.body {
        EventBody::Tx { tx_id, .. } => Some(tx_id),
        EventBody::Lane { .. } => None,
    }
}
