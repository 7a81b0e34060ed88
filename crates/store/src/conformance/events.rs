//! Events: complete, ordered, and delivered at least once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gapless_domain::{
    AttemptKind, CancelReason, Event, EventBody, EventPosition, LaneEventKind, ProtectCode, Protection, StuckReason,
    Transition, TxId,
};

use super::Harness;
use super::fixtures::*;
use super::trace::history;

/// proves W02: a refused commit in between leaves no event, and the newest event is the state
pub(super) async fn each_change_has_one_event_and_last_event_is_state(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let ids = accept(&a, &lane, &["0", "1", "2"]).await;
    a.cancel_queued(&[ids[2]]).await.unwrap();
    let first = bind_next(&a, &lane).await;
    bind_next(&a, &lane).await;
    change(&a, &lane, ids[0], Transition::Acknowledge).await;
    let refused = commit(&a, &lane, |commit| {
        commit.change(first.change(Transition::AwaitFunds).unwrap());
    })
    .await;
    assert!(matches!(refused, crate::CommitVerdict::Conflict(_)));
    let mined = inclusion(attempt(nonce(0), 0, "bind").hash, AttemptKind::Original, 5);
    for transition in [
        Transition::WantCancel(CancelReason::User),
        Transition::AwaitFunds,
        Transition::Funded,
        Transition::GiveUp(StuckReason::OutOfTries),
        Transition::Mine(mined.clone()),
        Transition::Unmine,
        Transition::Mine(mined),
        Transition::Settle(None),
    ] {
        change(&a, &lane, ids[0], transition).await;
    }
    change(&a, &lane, ids[1], Transition::LoseNonce).await;
    let events = events(&a).await;
    for id in ids {
        let tx = record(&a, id).await;
        let history = history(&events, id);
        let numbers: Vec<u32> = history.iter().map(|(seq, _, _)| *seq).collect();
        assert_eq!(numbers, (1..=tx.version).collect::<Vec<_>>(), "no hole and no repeat");
        assert_eq!(history.last().unwrap().2, tx.state);
    }
    assert_eq!(events.len(), 11 + 3 + 2);
    assert!(events.iter().all(|event| event.submitter == lane));
}

pub(super) async fn lane_events_are_numbered_without_holes(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let protection = Protection { code: ProtectCode::DeepReorg, detail: text("block 7") };
    let cursor = view(&a, &lane).await.cursor;
    commit_done(&a, &lane, |commit| {
        commit.set_paused(&cursor, true, text("by op")).unwrap();
        commit.protect(&cursor, protection.clone()).unwrap();
    })
    .await;
    let cursor = view(&a, &lane).await.cursor;
    assert_eq!((cursor.event_seq, cursor.paused, cursor.is_protected()), (2, true, true));
    commit_done(&a, &lane, |commit| {
        commit.set_paused(&cursor, false, text("by op")).unwrap();
    })
    .await;
    let cursor = view(&a, &lane).await.cursor;
    assert!(cursor.is_protected(), "resuming does not clear PROTECT");
    let lane_events: Vec<_> = events(&a).await.into_iter().map(|event| event.body).collect();
    let expected = [
        (1, LaneEventKind::Paused, "by op"),
        (2, LaneEventKind::Protected, "deep_reorg: block 7"),
        (3, LaneEventKind::Resumed, "by op"),
    ];
    assert_eq!(lane_events, expected.map(|(seq, kind, detail)| EventBody::Lane { seq, kind, text: text(detail) }));
}

pub(super) async fn events_of_intent_are_oldest_first_up_to_limit(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (one, two) = (lane(&a, 1).await, lane(&a, 2).await);
    let ids = [accept(&a, &one, &["0"]).await[0], accept(&a, &two, &["0"]).await[0], accept(&a, &one, &["1"]).await[0]];
    bind_next(&a, &one).await;
    bind_next(&a, &two).await;
    change(&a, &one, ids[0], Transition::LoseNonce).await;
    // The sequence numbers reach two digits, so a store that sorts them as text fails.
    for _ in 0..5 {
        change(&a, &two, ids[1], Transition::AwaitFunds).await;
        change(&a, &two, ids[1], Transition::Funded).await;
    }
    bind_next(&a, &one).await;
    let cursor = view(&a, &one).await.cursor;
    commit_done(&a, &one, |commit| {
        commit.set_paused(&cursor, true, text("by op")).unwrap();
    })
    .await;
    let all = events(&a).await;
    for (id, count) in ids.into_iter().zip([4, 12, 1]) {
        let own: Vec<Event> = all.iter().filter(|event| intent_of(event) == Some(id)).cloned().collect();
        assert_eq!(own.len(), count);
        assert_eq!(b.events_of(id, 100).await.unwrap(), own);
        for limit in [0, 1, 3, 10, 11] {
            let first = &own[..own.len().min(limit as usize)];
            assert_eq!(b.events_of(id, limit).await.unwrap(), first, "{limit}");
        }
    }
    assert_eq!(b.events_of(fresh_id(), 100).await.unwrap(), []);
}

pub(super) async fn pages_of_events_have_one_order(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (one, two) = (lane(&a, 1).await, lane(&a, 2).await);
    for request in ["0", "1", "2"] {
        bound(&a, &one, request).await;
        accept(&a, &two, &[request]).await;
    }
    let all = events(&a).await;
    assert_eq!(all.len(), 9);
    assert!(all.windows(2).all(|pair| pair[0].position < pair[1].position));
    for limit in [1, 2, 100] {
        let mut read: Vec<Event> = Vec::new();
        while read.len() < all.len() {
            let after = read.last().map_or(EventPosition::default(), |event| event.position);
            let page = b.read_events(after, limit).await.unwrap();
            assert!(!page.is_empty() && page.len() <= limit as usize);
            read.extend(page);
        }
        assert_eq!(read[..all.len()], all);
    }
    assert_eq!(a.read_events(EventPosition::default(), 0).await.unwrap(), []);
}

/// A reader that keeps only its position misses no event, and gets the events of each intent in order.
pub(super) async fn reader_gets_each_event_once_during_writes(h: &dyn Harness) {
    let mut writers = Vec::new();
    let reader = h.node("reader").await;
    let lanes = submitters(1..4);
    register(&reader, &lanes).await;
    for (n, lane) in lanes.iter().enumerate() {
        let (node, lane) = (h.node(&format!("writer-{n}")).await, lane.clone());
        writers.push(beside(async move {
            let mut ids = Vec::new();
            for request in 0..12 {
                let id = accept(&node, &lane, &[&request.to_string()]).await[0];
                match request % 3 {
                    0 => drop(bind_next(&node, &lane).await),
                    _ => drop(node.cancel_queued(&[id]).await.unwrap()),
                }
                ids.push(id);
            }
            ids
        }));
    }
    let mut read: Vec<Event> = Vec::new();
    while read.len() < 3 * 24 {
        let after = read.last().map_or(EventPosition::default(), |event| event.position);
        let page = soon("the next event", async {
            loop {
                let page = reader.read_events(after, 7).await.unwrap();
                if !page.is_empty() {
                    break page;
                }
                pause().await;
            }
        })
        .await;
        read.extend(page);
    }
    let mut seen: BTreeMap<TxId, Vec<u32>> = BTreeMap::new();
    for event in &read {
        if let EventBody::Tx { tx_id, seq, .. } = event.body {
            seen.entry(tx_id).or_default().push(seq);
        }
    }
    for writer in writers {
        for id in writer.await.unwrap() {
            assert_eq!(seen.remove(&id), Some(vec![1, 2]));
        }
    }
    assert!(seen.is_empty());
}

pub(super) async fn consumer_is_claimed_by_one_node_at_a_time(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    accept(&a, &lane, &["0", "1"]).await;
    events(&a).await;
    for attempt in 0.. {
        let from = database_now(&a).await;
        let mine = a.claim_events("webhooks", 1).await.unwrap();
        let theirs = b.claim_events("webhooks", 10).await.unwrap();
        let acked = b.ack_events("webhooks", EventPosition { commit: u64::MAX >> 1, index: 0 }).await.unwrap();
        if database_now(&a).await < from.saturating_add(h.terms().duration) {
            assert_eq!(mine.unwrap().len(), 1);
            assert_eq!((theirs, acked), (None, false));
            break;
        }
        assert!(attempt < 20, "{TOO_SLOW}");
    }
    assert!(!a.ack_events("unclaimed", EventPosition::default()).await.unwrap());
}

/// proves W03: a consumer that dies before it acknowledges loses nothing; positions are stable
pub(super) async fn lost_claim_loses_no_event(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    accept(&a, &lane, &["0", "1", "2"]).await;
    bind_next(&a, &lane).await;
    let all = events(&a).await;
    let handled = claim_and_ack(&a, &all[..2]).await;
    assert_eq!(handled, all[..2]);
    // The consumer claims the next event and dies.
    let taken = a.claim_events("webhooks", 1).await.unwrap().unwrap();
    assert_eq!(taken, all[2..3]);
    h.pass(h.terms().duration + Duration::from_millis(1)).await;
    assert!(!a.ack_events("webhooks", taken[0].position).await.unwrap(), "the claim has expired");
    let next = b.claim_events("webhooks", 10).await.unwrap().unwrap();
    assert_eq!(next[..2], all[2..]);
    assert!(!a.ack_events("webhooks", taken[0].position).await.unwrap(), "the claim belongs to another node");
    let rest = claim_and_ack(&b, &all[2..]).await;
    assert_eq!(rest, all[2..]);
    // An acknowledgement of an older position does not move the consumer back.
    claim_and_ack(&b, &[]).await;
    b.ack_events("webhooks", all[0].position).await.unwrap();
    let seen: BTreeSet<_> =
        b.claim_events("webhooks", 10).await.unwrap().unwrap().into_iter().map(|e| e.position).collect();
    assert!(all.iter().all(|event| !seen.contains(&event.position)));
}

/// Claims the expected number of events until the claim lasts long enough to acknowledge them.
async fn claim_and_ack(node: &Node, expected: &[Event]) -> Vec<Event> {
    for _ in 0..20 {
        let claimed = node.claim_events("webhooks", expected.len() as u32).await.unwrap().unwrap();
        let Some(last) = claimed.last() else { return claimed };
        if node.ack_events("webhooks", last.position).await.unwrap() {
            return claimed;
        }
    }
    panic!("{TOO_SLOW}")
}

pub(super) async fn consumers_are_independent(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    accept(&a, &lane, &["0", "1"]).await;
    let all = events(&a).await;
    claim_and_ack(&a, &all).await;
    let other = b.claim_events("audit", 2).await.unwrap().unwrap();
    assert_eq!(other, all, "a new consumer starts with the first event");
}
