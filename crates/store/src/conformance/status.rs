//! The status of lanes, for operators.

use std::time::Duration;

use gapless_domain::{LockOwner, Payload, ReservationRequest, ReservationStep, SubmitterId, Transition};

use super::Harness;
use super::fixtures::*;
use crate::roles::{LaneStatus, LeaseStatus, NewIntent, NewSubmitter};

async fn status(node: &Node, lane: &SubmitterId) -> LaneStatus {
    node.lane_status(std::slice::from_ref(lane)).await.unwrap().remove(0).unwrap()
}

pub(super) async fn status_answers_each_lane_in_order(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let [named, plain, unknown] = [submitter(1), submitter(2), submitter(3)];
    let new = |id: &SubmitterId, alias: Option<&str>| NewSubmitter { id: id.clone(), alias: alias.map(str::to_owned) };
    a.register_submitters(&[new(&named, Some("treasury")), new(&plain, None)]).await.unwrap();
    // The lane has an owner, but its submitter is not registered.
    acquire(&a, &unknown).await;
    let first = bound(&a, &named, "bound").await;
    let ids = accept(&a, &named, &["first", "second"]).await;

    let asked = [unknown.clone(), plain.clone(), named.clone(), unknown, plain];
    let found = b.lane_status(&asked).await.unwrap();
    assert_eq!((&found[0], &found[3]), (&None, &None));
    assert_eq!(found[1], found[4]);
    let idle = found[1].as_ref().unwrap();
    let now = idle.now;
    assert_eq!(
        *idle,
        LaneStatus {
            alias: None,
            cursor: None,
            lease: None,
            queued: 0,
            open: 0,
            oldest_queued_at: None,
            regressed: false,
            now
        }
    );
    let busy = found[2].as_ref().unwrap();
    assert_eq!((busy.alias.as_deref(), busy.now, busy.regressed), (Some("treasury"), now, false));
    assert_eq!(busy.cursor, view(&a, &named).await.lane.cursor);
    assert_eq!((busy.queued, busy.open), (2, 1));
    let oldest = record(&a, ids[0]).await.created_at;
    assert_eq!(busy.oldest_queued_at, Some(oldest));
    assert!(first.created_at <= oldest && oldest <= busy.now);
    assert_eq!(busy.lease.as_ref().unwrap().owner, *a.owner());
    assert_eq!(b.lane_status(&[]).await.unwrap(), []);
}

/// Terminal intents and requeued intents have no nonce. An intent with a reserved nonce counts.
pub(super) async fn status_counts_intents_that_have_a_nonce(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let counts = async || {
        let status = status(&a, &lane).await;
        (status.queued, status.open)
    };
    let ended = bound(&a, &lane, "ended").await.id;
    let lost = bound(&a, &lane, "lost").await.id;
    let stuck = bound(&a, &lane, "stuck").await.id;
    assert_eq!(counts().await, (0, 3));
    confirm(&a, &lane, ended).await;
    assert_eq!(counts().await, (0, 2));
    change(&a, &lane, lost, Transition::LoseNonce).await;
    assert_eq!(counts().await, (1, 1));
    bind_next(&a, &lane).await;
    assert_eq!(counts().await, (0, 2), "two slots of one intent count once");
    change(&a, &lane, stuck, Transition::Acknowledge).await;

    let lock_owner = LockOwner::new("alice").unwrap();
    let payload = Payload::Reservation(ReservationRequest { lock_owner: lock_owner.clone(), hold_ms: 600_000 });
    let new = NewIntent { id: fresh_id(), intent: intent_with(&lane, "alice", payload) };
    a.accept(std::slice::from_ref(&new)).await.unwrap();
    assert_eq!(counts().await, (1, 2));
    let (tx, seen) = (record(&a, new.id).await, view(&a, &lane).await);
    let hold = Duration::from_secs(600);
    let step = ReservationStep::Reserve { nonce: seen.cursor.next_nonce, tx_id: tx.id, lock_owner, hold };
    commit_done(&a, &lane, |commit| {
        commit.bind_reserved(&seen.cursor, &tx, step.clone()).unwrap();
    })
    .await;
    assert_eq!(counts().await, (0, 3), "a reserved nonce");
}

pub(super) async fn status_shows_newest_lease_valid_or_over(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let mut token = None;
    for attempt in 0.. {
        let from = database_now(&a).await;
        let lease = acquire(&a, &lane).await;
        let shown = status(&b, &lane).await;
        if shown.now < from.saturating_add(h.terms().duration) {
            let held = shown.lease.unwrap();
            assert_eq!((&held.owner, held.token, held.valid), (a.owner(), lease.token(), true));
            assert!(held.expires_at > shown.now && held.expires_at <= shown.now.saturating_add(h.terms().duration));
            token = Some(held.token);
            break;
        }
        assert!(attempt < 20, "{TOO_SLOW}");
    }
    h.pass(h.terms().duration + Duration::from_millis(1)).await;
    let shown = status(&b, &lane).await;
    let expired = shown.lease.unwrap();
    assert_eq!((&expired.owner, Some(expired.token), expired.valid), (a.owner(), token, false));
    assert!(expired.expires_at <= shown.now);

    let lease = acquire(&a, &lane).await;
    a.release(std::slice::from_ref(&lease)).await.unwrap();
    let released =
        LeaseStatus { owner: a.owner().clone(), token: lease.token(), expires_at: LeaseStatus::RELEASED, valid: false };
    assert_eq!(status(&b, &lane).await.lease, Some(released));
}

pub(super) async fn status_shows_regressed_lane(h: &dyn Harness) {
    let a = h.node("a").await;
    let (old, fresh) = (lane(&a, 1).await, lane(&a, 2).await);
    bound(&a, &old, "r").await;
    declare_lost(&a, "a test").await;
    assert!(status(&a, &old).await.regressed && status(&a, &fresh).await.regressed);
    let cursor = view(&a, &old).await.cursor;
    commit_done(&a, &old, |commit| {
        commit.protect(&cursor, gapless_domain::Protection::store_regressed()).unwrap();
    })
    .await;
    let acknowledged = status(&a, &old).await;
    assert!(!acknowledged.regressed && acknowledged.cursor.unwrap().is_protected());
}

pub(super) async fn status_counts_up_to_limit(h: &dyn Harness) {
    const BATCH: usize = 1000;
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let limit = LaneStatus::MAX_COUNTED as usize;
    for from in (0..limit - 1).step_by(BATCH) {
        let batch: Vec<_> = (from..(from + BATCH).min(limit - 1)).map(|n| new_intent(&lane, &n.to_string())).collect();
        a.accept(&batch).await.unwrap();
    }
    assert_eq!(status(&a, &lane).await.queued, LaneStatus::MAX_COUNTED - 1);
    accept(&a, &lane, &["one", "more", "and more"]).await;
    assert_eq!(status(&a, &lane).await.queued, LaneStatus::MAX_COUNTED);
}
