//! Retention: archived intents are still found, and no intent is archived too early.

use std::time::Duration;

use gapless_domain::{EventPosition, RequestId, SubmitterId, Transition, TxId};

use super::Harness;
use super::fixtures::*;
use super::trace::history;
use crate::retention::RetentionKind;
use crate::roles::{Accepted, CancelVerdict, NewIntent, TxFilter};

const TICK: Duration = Duration::from_millis(5);

async fn confirmed(node: &Node, lane: &SubmitterId, request: &str) -> TxId {
    let id = bound(node, lane, request).await.id;
    confirm(node, lane, id).await;
    id
}

async fn listed(node: &Node, lane: &SubmitterId) -> Vec<TxId> {
    let filter = TxFilter { submitter: Some(lane.clone()), limit: 100, ..TxFilter::default() };
    node.list(&filter).await.unwrap().iter().map(|tx| tx.id).collect()
}

/// proves S11: after retention too, the same request gets the same id, another payload gets a conflict
pub(super) async fn archived_intent_is_found_but_not_listed(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let id = confirmed(&a, &lane, "r").await;
    let open = accept(&a, &lane, &["open"]).await[0];
    let (before, attempts) = (record(&a, id).await, a.attempts(id).await.unwrap());
    h.pass(TICK).await;
    assert_eq!(move_out(&a, 10).await, 1);

    assert_eq!(record(&b, id).await, before);
    assert_eq!(b.attempts(id).await.unwrap(), attempts);
    assert_eq!(b.find_request(&lane, &RequestId::restore("r")).await.unwrap(), Some(id));
    assert_eq!(listed(&b, &lane).await, [open]);
    let events = events(&b).await;
    assert_eq!((history(&events, id).len(), history(&events, open).len()), (0, 1));

    let other = NewIntent { id: fresh_id(), intent: intent_with(&lane, "r", transfer(2)) };
    let reused = NewIntent { id, intent: intent(&lane, "reused id") };
    let verdicts = b.accept(&[new_intent(&lane, "r"), other, reused]).await.unwrap();
    assert_eq!(verdicts[..2], [Accepted::Existing(id), Accepted::Conflict(id)]);
    assert!(matches!(verdicts[2], Accepted::Refused(_)), "{:?}", verdicts[2]);
    assert_eq!(b.cancel_queued(&[id]).await.unwrap(), [CancelVerdict::NotQueued]);
    // The nonce of the archived intent stays bound.
    assert_eq!(bind_next(&a, &lane).await.state.nonce(), Some(nonce(1)));
    assert_eq!(move_out(&a, 10).await, 0);
}

pub(super) async fn archived_intent_keeps_its_events(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let id = bound(&a, &lane, "r").await.id;
    for _ in 0..4 {
        change(&a, &lane, id, Transition::AwaitFunds).await;
        change(&a, &lane, id, Transition::Funded).await;
    }
    confirm(&a, &lane, id).await;
    let other = confirmed(&a, &lane, "other").await;
    let open = accept(&a, &lane, &["open"]).await[0];
    let mut before = Vec::new();
    for (id, count) in [(id, 12), (other, 4), (open, 1)] {
        before.push((id, a.events_of(id, 100).await.unwrap()));
        assert_eq!(before.last().unwrap().1.len(), count);
    }
    h.pass(TICK).await;
    assert_eq!(move_out(&a, 10).await, 2);
    for (id, events) in before {
        assert_eq!(b.events_of(id, 100).await.unwrap(), events);
        for limit in [0, 1, 3, 11] {
            assert_eq!(b.events_of(id, limit).await.unwrap(), events[..events.len().min(limit as usize)], "{limit}");
        }
    }
}

pub(super) async fn only_old_terminal_intents_are_archived(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let ended = confirmed(&a, &lane, "ended").await;
    let open = bound(&a, &lane, "open").await.id;
    let ids = accept(&a, &lane, &["queued", "canceled"]).await;
    a.cancel_queued(&ids[1..]).await.unwrap();
    h.pass(TICK).await;
    assert_eq!(a.apply_retention(RetentionKind::Intents, Duration::from_secs(3600), 10).await.unwrap(), 0);
    assert_eq!(move_out(&a, 10).await, 2);
    assert_eq!(listed(&a, &lane).await, [ids[0], open]);
    assert_eq!(view(&a, &lane).await.lane.bound[0].id, open);
    assert!(record(&a, ended).await.state.name().is_terminal());
}

pub(super) async fn retention_waits_for_every_consumer(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let id = confirmed(&a, &lane, "r").await;
    let all = events(&a).await;
    h.pass(TICK).await;
    ack(&a, "fast", all.last().unwrap().position).await;
    ack(&a, "slow", all[all.len() - 2].position).await;
    assert_eq!(move_out(&a, 10).await, 0, "one consumer has not handled the last event");
    assert_eq!(listed(&a, &lane).await, [id]);
    ack(&a, "slow", all.last().unwrap().position).await;
    assert_eq!(move_out(&a, 10).await, 1);
    assert_eq!(listed(&a, &lane).await, []);
}

async fn ack(node: &Node, consumer: &str, upto: EventPosition) {
    for _ in 0..20 {
        node.claim_events(consumer, 1).await.unwrap().unwrap();
        if node.ack_events(consumer, upto).await.unwrap() {
            return;
        }
    }
    panic!("{TOO_SLOW}")
}

pub(super) async fn intents_are_archived_oldest_first_up_to_limit(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let ids = accept(&a, &lane, &["0", "1", "2"]).await;
    for n in [2, 0, 1] {
        a.cancel_queued(&[ids[n]]).await.unwrap();
        h.pass(TICK).await;
    }
    for left in [vec![ids[1], ids[0]], vec![ids[1]], vec![]] {
        assert_eq!(move_out(&a, 1).await, 1);
        assert_eq!(listed(&a, &lane).await, left);
    }
    assert_eq!(move_out(&a, 1).await, 0);
}
