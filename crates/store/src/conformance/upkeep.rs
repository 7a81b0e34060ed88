//! Retention of all rows except intents, which `retention.rs` covers, and the claim of the node that applies it.

use std::slice::from_ref;
use std::time::Duration;

use gapless_domain::{
    CommandKind, Event, EventBody, EventPosition, LaneEventKind, NewCommand, RequestId, SubmitterId, TxId,
};

use super::Harness;
use super::fixtures::*;
use crate::retention::RetentionKind;
use crate::roles::{Accepted, AuditFilter, CommitVerdict};

const TICK: Duration = Duration::from_millis(5);
const HOUR: Duration = Duration::from_secs(3600);

async fn confirmed(node: &Node, lane: &SubmitterId, request: &str) -> TxId {
    let id = bound(node, lane, request).await.id;
    confirm(node, lane, id).await;
    id
}

/// Applies one batch with an age that no row has reached.
async fn too_young(node: &Node, kind: RetentionKind) -> u32 {
    node.apply_retention(kind, HOUR, 100).await.unwrap()
}

pub(super) async fn open_nonce_keeps_attempts_of_moved_out_intent(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let open = bound(&a, &lane, "open").await.id;
    let ended = confirmed(&a, &lane, "ended").await;
    let (before, attempts) = (view(&a, &lane).await.lane, a.attempts(ended).await.unwrap());
    h.pass(TICK).await;
    assert_eq!(move_out(&a, 10).await, 1);
    h.pass(TICK).await;
    assert_eq!(retain(&a, RetentionKind::Attempts, 10).await, 0, "nonce 0 is open, so nonce 1 is not closed");
    let after = view(&a, &lane).await.lane;
    assert_eq!(
        (&after.attempts, &after.slots),
        (&before.attempts, &before.slots),
        "the lane loads the rows that it loaded before"
    );
    assert_eq!(a.attempts(ended).await.unwrap(), attempts);

    confirm(&a, &lane, open).await;
    close_all(&a, &lane).await;
    assert_eq!(a.attempts(ended).await.unwrap(), attempts);
    assert_eq!(retain(&a, RetentionKind::Attempts, 10).await, 1, "the other intent is not moved out");
    assert_eq!((a.attempts(ended).await.unwrap().len(), a.attempts(open).await.unwrap().len()), (0, 1));
}

/// proves S11: a request still gets its answer after the attempts and the events of its intent are deleted
pub(super) async fn attempts_and_events_are_deleted_oldest_intent_first(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let mut ids = Vec::new();
    for request in ["0", "1", "2"] {
        ids.push(confirmed(&a, &lane, request).await);
        h.pass(TICK).await;
    }
    close_all(&a, &lane).await;
    for kind in [RetentionKind::Attempts, RetentionKind::Events] {
        assert_eq!(retain(&a, kind, 10).await, 0, "no intent is moved out yet");
    }
    assert_eq!(move_out(&a, 10).await, 3);
    let records = a.get(&ids).await.unwrap();
    for kind in [RetentionKind::Attempts, RetentionKind::Events] {
        assert_eq!(too_young(&a, kind).await, 0);
        assert_eq!((retain(&a, kind, 2).await, retain(&b, kind, 2).await), (2, 1));
        assert_eq!(retain(&a, kind, 2).await, 0);
    }
    for (id, request) in ids.iter().zip(["0", "1", "2"]) {
        assert_eq!(b.attempts(*id).await.unwrap(), []);
        assert_eq!(b.events_of(*id, 10).await.unwrap(), []);
        assert_eq!(b.find_request(&lane, &RequestId::restore(request)).await.unwrap(), Some(*id));
        assert_eq!(b.accept(&[new_intent(&lane, request)]).await.unwrap(), [Accepted::Existing(*id)]);
    }
    assert_eq!(b.get(&ids).await.unwrap(), records);
    assert_eq!(bound(&a, &lane, "next").await.state.nonce(), Some(nonce(3)), "the nonces stay bound");
}

pub(super) async fn first_batch_of_events_takes_oldest_intent(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let ids = accept(&a, &lane, &["0", "1"]).await;
    for id in [ids[1], ids[0]] {
        a.cancel_queued(&[id]).await.unwrap();
        h.pass(TICK).await;
    }
    assert_eq!(move_out(&a, 10).await, 2);
    assert_eq!(retain(&a, RetentionKind::Events, 1).await, 1);
    let left = [a.events_of(ids[0], 9).await.unwrap().len(), a.events_of(ids[1], 9).await.unwrap().len()];
    assert_eq!(left, [2, 0], "an intent keeps all of its events, or none");
    assert_eq!(retain(&a, RetentionKind::Attempts, 9).await, 0, "a canceled intent of the queue has no attempts");
}

async fn write_lane_event(node: &Node, lane: &SubmitterId, detail: &str) {
    let cursor = view(node, lane).await.cursor;
    commit_done(node, lane, |commit| {
        commit.lane_event(&cursor, LaneEventKind::LowBalance, text(detail)).unwrap();
    })
    .await;
}

/// The numbers of the lane events that are left.
async fn lane_events(node: &Node) -> Vec<u64> {
    let number = |event: Event| match event.body {
        EventBody::Lane { seq, .. } => Some(seq),
        EventBody::Tx { .. } => None,
    };
    events(node).await.into_iter().filter_map(number).collect()
}

pub(super) async fn lane_events_wait_for_every_consumer(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    for text_of_event in ["0", "1", "2"] {
        write_lane_event(&a, &lane, text_of_event).await;
    }
    accept(&a, &lane, &["open"]).await;
    let all = events(&a).await;
    h.pass(TICK).await;
    acknowledge(&a, all[1].position).await;
    assert_eq!(too_young(&a, RetentionKind::LaneEvents).await, 0);
    assert_eq!(retain(&a, RetentionKind::LaneEvents, 1).await, 1);
    assert_eq!(retain(&a, RetentionKind::LaneEvents, 10).await, 1, "the third event is not handled");
    assert_eq!(lane_events(&a).await, [3]);
    write_lane_event(&a, &lane, "3").await;
    assert_eq!(lane_events(&a).await, [3, 4], "the numbers continue");
    let left = events(&a).await;
    assert_eq!(left.iter().filter_map(intent_of).count(), 1, "events of open intents stay");
}

/// A consumer reads a part of the events, in their order, without a gap.
///
/// proves W07
pub(super) async fn later_lane_event_is_never_deleted_before_an_earlier_one(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    write_lane_event(&a, &lane, "before the jump").await;
    h.jump_back(HOUR).await;
    write_lane_event(&a, &lane, "after the jump").await;
    h.pass(TICK).await;
    assert_eq!(retain(&a, RetentionKind::LaneEvents, 10).await, 0, "the first event is of the future");
    assert_eq!(lane_events(&a).await, [1, 2]);
}

async fn acknowledge(node: &Node, upto: EventPosition) {
    for _ in 0..20 {
        node.claim_events("consumer", 1).await.unwrap().unwrap();
        if node.ack_events("consumer", upto).await.unwrap() {
            return;
        }
    }
    panic!("{TOO_SLOW}")
}

pub(super) async fn finished_commands_are_deleted_open_ones_stay(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let put = |kind| NewCommand { submitter: lane.clone(), kind, issued_by: text("operator") };
    let kinds = [CommandKind::Pause, CommandKind::Resume, CommandKind::Pause, CommandKind::Resume];
    let ids = a.put_commands(&kinds.map(put)).await.unwrap();
    let open = a.open_commands(from_ref(&lane)).await.unwrap().remove(0);
    for command in &open[..3] {
        commit_done(&a, &lane, |commit| {
            commit.command_done(command, done("done"));
        })
        .await;
        h.pass(TICK).await;
    }
    assert_eq!(too_young(&a, RetentionKind::Commands).await, 0);
    assert_eq!(retain(&a, RetentionKind::Commands, 2).await, 2);
    let is_known = async || {
        let found = a.commands(&ids).await.unwrap();
        found.iter().map(Option::is_some).collect::<Vec<_>>()
    };
    assert_eq!(is_known().await, [false, false, true, true], "oldest first");
    assert_eq!(retain(&a, RetentionKind::Commands, 9).await, 1);
    assert_eq!(is_known().await, [false, false, false, true]);
    let later = a.put_commands(&[put(CommandKind::Pause)]).await.unwrap();
    assert!(later[0] > ids[3], "an id is never given twice");
}

/// A process whose row is missing concludes that commits were lost, so the row of a live process always stays.
pub(super) async fn only_rows_of_dead_processes_are_deleted(h: &dyn Harness) {
    let (dead, idle, a) = (h.node("dead").await, h.node("idle").await, h.node("a").await);
    let lane = lane(&a, 1).await;
    dead.renew().await.unwrap();
    assert_eq!(retain(&a, RetentionKind::Nodes, 9).await, 0, "the duration of a lease has to pass first");
    h.pass(h.terms().duration + h.terms().clock_skew + TICK).await;
    // After a jump of the database's clock all rows look old, and a live process renews a little later.
    assert_eq!(retain(&a, RetentionKind::Nodes, 9).await, 0, "the row is only marked");
    idle.renew().await.unwrap();
    assert_eq!(retain(&a, RetentionKind::Nodes, 9).await, 0, "the duration of a lease has to pass since the mark");
    h.pass(h.terms().duration + h.terms().clock_skew + TICK).await;
    assert_eq!(too_young(&a, RetentionKind::Nodes).await, 0);
    assert_eq!(retain(&a, RetentionKind::Nodes, 9).await, 1, "the caller's own row and the renewed row stay");
    assert_eq!(retain(&a, RetentionKind::Nodes, 9).await, 0);
    for node in [&a, &idle] {
        node.renew().await.unwrap();
        assert_eq!(node.commit(&[]).await.unwrap().verdicts, []);
    }
    assert!(!view(&a, &lane).await.lane.regressed, "nothing was lost");
    assert_eq!(commit(&a, &lane, |_| {}).await, CommitVerdict::Done);
}

pub(super) async fn audit_entries_are_deleted_oldest_first(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let write = async |detail: &str| {
        commit_done(&a, &lane, |commit| {
            commit.audit(audit("test", detail));
        })
        .await;
        h.pass(TICK).await;
    };
    for detail in ["0", "1", "2"] {
        write(detail).await;
    }
    let newest = audits(&a, &lane).await[0].id;
    assert_eq!(too_young(&a, RetentionKind::Audit).await, 0);
    assert_eq!(retain(&a, RetentionKind::Audit, 2).await, 2);
    let left = a.audit_log(&AuditFilter { limit: 10, ..AuditFilter::default() }).await.unwrap();
    assert_eq!(left.iter().map(|entry| entry.detail.as_str()).collect::<Vec<_>>(), ["2"]);
    assert_eq!(retain(&a, RetentionKind::Audit, 2).await, 1);
    write("3").await;
    assert!(audits(&a, &lane).await[0].id > newest, "an id is never given twice");
}

pub(super) async fn retention_claim_is_held_by_one_process(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    for _ in 0..20 {
        let first = a.claim_retention().await.unwrap();
        let other = b.claim_retention().await.unwrap();
        let again = a.claim_retention().await.unwrap();
        // A slow machine may have lost the claim between two of these calls.
        if let (Some(first), None, Some(again)) = (first, other, again) {
            assert!(first <= again && again <= database_now(&a).await, "the answer is the database's time");
            h.pass(h.terms().duration + TICK).await;
            assert!(b.claim_retention().await.unwrap().is_some(), "an expired claim is free");
            return;
        }
        h.pass(h.terms().duration + TICK).await;
    }
    panic!("{TOO_SLOW}")
}
