//! The complete visible state of a lane, for comparisons before and after a call.

use gapless_domain::{
    Attempt, AuditEntry, Event, EventBody, EventKind, IntentRecord, LaneSnapshot, SubmitterId, Timestamp, TxId, TxState,
};

use super::fixtures::{Node, audits, events, view};
use crate::roles::{SlotStatus, TxFilter};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trace {
    pub(super) lane: LaneSnapshot,
    pub(super) queue: Vec<IntentRecord>,
    pub(super) records: Vec<IntentRecord>,
    pub(super) attempts: Vec<Vec<Attempt>>,
    pub(super) events: Vec<Event>,
    pub(super) slots: Vec<SlotStatus>,
    pub(super) audits: Vec<AuditEntry>,
}

/// Reads the state through the node that owns the lane.
pub(super) async fn trace(node: &Node, lane: &SubmitterId) -> Trace {
    let filter = TxFilter { submitter: Some(lane.clone()), limit: 1000, ..TxFilter::default() };
    let records = node.list(&filter).await.unwrap();
    let mut attempts = Vec::new();
    for record in &records {
        attempts.push(node.attempts(record.id).await.unwrap());
    }
    let mut events = events(node).await;
    events.retain(|event| event.submitter == *lane);
    let (slots, audits) = (node.open_slots(lane, None, 1000).await.unwrap(), audits(node, lane).await);
    let view = view(node, lane).await;
    assert_eq!(slots.iter().map(|status| &status.slot).collect::<Vec<_>>(), view.lane.slots.iter().collect::<Vec<_>>());
    let lane = LaneSnapshot { now: Timestamp::EPOCH, ..view.lane };
    Trace { lane, queue: view.queue, records, attempts, events, slots, audits }
}

/// The events of an intent: number, kind and resulting state.
pub(super) fn history(events: &[Event], id: TxId) -> Vec<(u32, EventKind, TxState)> {
    let of = |event: &Event| match &event.body {
        EventBody::Tx { tx_id, seq, kind, state, .. } if *tx_id == id => Some((*seq, *kind, state.clone())),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}
