//! Lane commits with a conflict: a valid bind together with one invalid part. The commit must write nothing.

use std::time::Duration;

use gapless_domain::{
    AttemptKind, Cursor, LaneCommit, LockOwner, ReservationStep, SendOutcome, SubmitterId, Transition, TxState,
};

use super::Harness;
use super::fixtures::*;
use super::trace::trace;
use crate::roles::{CancelVerdict, CommitVerdict, Conflict};

/// A lane with one intent at nonce 0 and two more in the queue.
async fn busy_lane(node: &Node) -> SubmitterId {
    let lane = lane(node, 1).await;
    bound(node, &lane, "0").await;
    accept(node, &lane, &["1", "2"]).await;
    lane
}

/// Adds an invalid part to a valid bind of nonce 1. Asserts that the verdict is this conflict and that no row changed.
async fn assert_refused(node: &Node, lane: &SubmitterId, conflict: Conflict, add_invalid: impl Fn(&mut LaneCommit)) {
    let seen = view(node, lane).await;
    let before = trace(node, lane).await;
    let verdict = commit(node, lane, |commit| {
        commit.bind(&seen.cursor, &seen.queue[0], seen.next_attempt()).unwrap();
        commit.audit(audit("test", "of a commit with a conflict"));
        add_invalid(commit);
    })
    .await;
    assert_eq!(verdict, CommitVerdict::Conflict(conflict));
    assert_eq!(trace(node, lane).await, before);
}

/// Asserts that the lane binds the next nonces as usual.
async fn assert_binds_next(node: &Node, lane: &SubmitterId) {
    assert_eq!(bind_next(node, lane).await.state.nonce(), Some(nonce(1)));
    assert_eq!(bind_next(node, lane).await.state.nonce(), Some(nonce(2)));
}

/// proves N10
pub(super) async fn stale_cursor_changes_nothing(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = busy_lane(&a).await;
    let stale = view(&a, &lane).await;
    commit_done(&a, &lane, |commit| {
        commit.observe_counts(&stale.cursor, nonce(1), nonce(0)).unwrap();
    })
    .await;
    let newest = view(&a, &lane).await.cursor;
    let ahead = Cursor { version: newest.version + 1, ..newest.clone() };
    let never_written = Cursor { version: 0, ..newest };
    let before = trace(&a, &lane).await;
    for cursor in [&stale.cursor, &ahead, &never_written] {
        let verdict = commit(&a, &lane, |commit| {
            commit.bind(cursor, &stale.queue[0], stale.next_attempt()).unwrap();
        })
        .await;
        assert_eq!(verdict, CommitVerdict::Conflict(Conflict::Cursor));
        assert_eq!(trace(&a, &lane).await, before);
    }
    assert_binds_next(&a, &lane).await;
}

/// proves N10
pub(super) async fn stale_intent_version_changes_nothing(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = busy_lane(&a).await;
    let stale = view(&a, &lane).await.lane.bound.remove(0);
    change(&a, &lane, stale.id, Transition::AwaitFunds).await;
    assert_refused(&a, &lane, Conflict::Tx(stale.id), |commit| {
        commit.change(stale.change(Transition::Acknowledge).unwrap());
    })
    .await;
    let mut unknown = stale.clone();
    unknown.id = fresh_id();
    assert_refused(&a, &lane, Conflict::Tx(unknown.id), |commit| {
        commit.change(unknown.change(Transition::Acknowledge).unwrap());
    })
    .await;
    assert_binds_next(&a, &lane).await;
}

/// proves N10: a change that does not start where the one before it ended
pub(super) async fn changes_out_of_order_change_nothing(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = busy_lane(&a).await;
    let holder = view(&a, &lane).await.lane.bound.remove(0);
    let first = holder.change(Transition::Acknowledge).unwrap();
    let twin = holder.change(Transition::AwaitFunds).unwrap();
    let mut later = holder.clone();
    later.apply(&first, holder.updated_at);
    let second = later.change(Transition::AwaitFunds).unwrap();
    later.apply(&second, holder.updated_at);
    let third = later.change(Transition::Funded).unwrap();
    for wrong_order in [
        vec![first.clone(), first.clone()],
        vec![first.clone(), twin],
        vec![second.clone(), first.clone()],
        vec![first.clone(), third.clone()],
        vec![first.clone(), second.clone(), second.clone()],
        vec![third.clone(), second.clone(), first.clone()],
    ] {
        assert_refused(&a, &lane, Conflict::Tx(holder.id), |commit| {
            for change in &wrong_order {
                commit.change(change.clone());
            }
        })
        .await;
    }
    commit_done(&a, &lane, |commit| {
        commit.change(first.clone()).change(second.clone()).change(third.clone());
    })
    .await;
    assert_eq!(record(&a, holder.id).await.version, third.to_version());
    assert_binds_next(&a, &lane).await;
}

/// proves N10
pub(super) async fn intent_of_other_lane_changes_nothing(h: &dyn Harness) {
    let a = h.node("a").await;
    let (lane, other) = (busy_lane(&a).await, lane(&a, 2).await);
    let foreign = bound(&a, &other, "foreign").await;
    assert_refused(&a, &lane, Conflict::Tx(foreign.id), |commit| {
        commit.change(foreign.change(Transition::Acknowledge).unwrap());
    })
    .await;
    assert_eq!(record(&a, foreign.id).await, foreign);
    assert_binds_next(&a, &lane).await;
}

/// proves N08 and N10: a slot is bound once, even with a wrong cursor
pub(super) async fn bound_nonce_is_not_bound_again(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = busy_lane(&a).await;
    let seen = view(&a, &lane).await;
    let before = trace(&a, &lane).await;
    // The cursor of a lane that takes nonce 0 for free.
    let mistaken = Cursor { next_nonce: nonce(0), ..seen.cursor.clone() };
    let verdict = commit(&a, &lane, |commit| {
        commit.bind(&mistaken, &seen.queue[0], attempt(nonce(0), 1, "again")).unwrap();
    })
    .await;
    assert_eq!(verdict, CommitVerdict::Conflict(Conflict::Slot(nonce(0))));
    assert_eq!(trace(&a, &lane).await, before);
    assert_binds_next(&a, &lane).await;
}

/// proves N10
pub(super) async fn attempt_without_slot_changes_nothing(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = busy_lane(&a).await;
    assert_refused(&a, &lane, Conflict::Slot(nonce(9)), |commit| {
        commit.attempt(attempt(nonce(9), 0, "loose"));
    })
    .await;
    assert_binds_next(&a, &lane).await;
}

/// proves N10
pub(super) async fn duplicate_attempt_changes_nothing(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = busy_lane(&a).await;
    let known = attempt(nonce(0), 0, "bind");
    let same_ordinal = attempt(nonce(0), 0, "other bytes");
    let mut same_hash = attempt(nonce(0), 1, "bump");
    same_hash.hash = known.hash;
    for again in [known, same_ordinal, same_hash] {
        assert_refused(&a, &lane, Conflict::Slot(again.nonce), |commit| {
            commit.attempt(again.clone());
        })
        .await;
    }
    // Two equal attempts in one commit are a conflict too.
    let mut same_hash = attempt(nonce(0), 2, "x");
    same_hash.hash = attempt(nonce(0), 1, "x").hash;
    for twin in [attempt(nonce(0), 1, "y"), same_hash] {
        assert_refused(&a, &lane, Conflict::Slot(nonce(0)), |commit| {
            commit.attempt(attempt(nonce(0), 1, "x")).attempt(twin.clone());
        })
        .await;
    }
    assert_binds_next(&a, &lane).await;
}

/// proves N10
pub(super) async fn report_of_unknown_hash_changes_nothing(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = busy_lane(&a).await;
    let known = attempt(nonce(0), 0, "bind");
    let unknown = report(&attempt(nonce(0), 0, "unknown"), SendOutcome::Accepted, "");
    let mut elsewhere = report(&known, SendOutcome::Accepted, "");
    elsewhere.nonce = nonce(1);
    // An attempt of the same commit cannot have been sent yet: sending needs a durable attempt.
    let too_early = report(&attempt(nonce(1), 0, "bind"), SendOutcome::Accepted, "");
    for wrong in [unknown, elsewhere, too_early] {
        assert_refused(&a, &lane, Conflict::Slot(wrong.nonce), |commit| {
            commit.report(wrong.clone());
        })
        .await;
    }
    assert_binds_next(&a, &lane).await;
}

/// proves N10
pub(super) async fn claim_without_slot_changes_nothing(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = busy_lane(&a).await;
    assert_refused(&a, &lane, Conflict::Slot(nonce(2)), |commit| {
        commit
            .claim_resubmit(claim(nonce(0), Duration::from_secs(1)))
            .claim_resubmit(claim(nonce(2), Duration::from_secs(1)));
    })
    .await;
    assert_binds_next(&a, &lane).await;
}

/// proves N10
pub(super) async fn refused_reservation_step_changes_nothing(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = busy_lane(&a).await;
    let lock_owner = LockOwner::new("me").unwrap();
    let tx_id = view(&a, &lane).await.queue[1].id;
    // Nonce 0 belongs to an intent, and nonce 1 is bound to one in this commit. Neither was ever reserved.
    for wrong in [
        ReservationStep::Reserve {
            nonce: nonce(0),
            tx_id,
            lock_owner: lock_owner.clone(),
            hold: Duration::from_secs(1),
        },
        ReservationStep::Reserve {
            nonce: nonce(1),
            tx_id,
            lock_owner: lock_owner.clone(),
            hold: Duration::from_secs(1),
        },
        ReservationStep::Use { nonce: nonce(0), lock_owner: lock_owner.clone() },
        ReservationStep::Release { nonce: nonce(0), lock_owner },
        ReservationStep::Expire { nonce: nonce(0) },
        ReservationStep::Fill { nonce: nonce(0) },
        ReservationStep::Cancel { nonce: nonce(0) },
    ] {
        assert_refused(&a, &lane, Conflict::Reservation(wrong.nonce()), |commit| {
            commit.reservation(wrong.clone());
        })
        .await;
    }
    assert_binds_next(&a, &lane).await;
}

/// proves N10: an intent that is canceled after the peek uses no nonce
pub(super) async fn cancel_between_peek_and_bind_wins(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = busy_lane(&a).await;
    let seen = view(&a, &lane).await;
    let (first, second) = (&seen.queue[0], &seen.queue[1]);
    assert_eq!(b.cancel_queued(&[first.id]).await.unwrap(), [CancelVerdict::Canceled]);
    let before = trace(&a, &lane).await;
    let verdict = commit(&a, &lane, |commit| {
        commit.bind(&seen.cursor, first, seen.next_attempt()).unwrap();
        commit.bind(&seen.cursor, second, attempt(nonce(2), 0, "bind")).unwrap();
    })
    .await;
    assert_eq!(verdict, CommitVerdict::Conflict(Conflict::Tx(first.id)));
    assert_eq!(trace(&a, &lane).await, before);
    assert!(matches!(record(&a, first.id).await.state, TxState::Canceled(_)));
    let next = bind_next(&a, &lane).await;
    assert_eq!((next.id, next.state.nonce()), (second.id, Some(nonce(1))));
}

/// proves W01 and W08: one bad operation, here a hash that exists, fails alone
pub(super) async fn conflict_does_not_fail_other_commits(h: &dyn Harness) {
    let a = h.node("a").await;
    let lanes = submitters(1..6);
    register(&a, &lanes).await;
    for lane in &lanes {
        bound(&a, lane, "0").await;
        accept(&a, lane, &["1"]).await;
    }
    for _ in 0..20 {
        let verdicts = bind_all_with_every_second_bad(&a, &lanes).await;
        for (n, (lane, verdict)) in lanes.iter().zip(&verdicts).enumerate() {
            match verdict {
                CommitVerdict::Done => assert_eq!(n % 2, 0),
                CommitVerdict::Conflict(Conflict::Slot(_)) => assert_eq!(n % 2, 1),
                // On a slow machine a lease may expire. Then no row was written, and the round is repeated.
                CommitVerdict::Fenced | CommitVerdict::Busy => {}
                other => panic!("lane {n}: {other:?}"),
            }
            let is_bound = view(&a, lane).await.cursor.next_nonce == nonce(2);
            assert_eq!(is_bound, *verdict == CommitVerdict::Done, "lane {n}");
        }
        if verdicts.contains(&CommitVerdict::Done) {
            return;
        }
    }
    panic!("{TOO_SLOW}")
}

async fn bind_all_with_every_second_bad(node: &Node, lanes: &[SubmitterId]) -> Vec<CommitVerdict> {
    let mut commits = Vec::new();
    for (n, lane) in lanes.iter().enumerate() {
        let seen = view(node, lane).await;
        let mut commit = LaneCommit::new(&acquire(node, lane).await);
        commit.bind(&seen.cursor, &seen.queue[0], seen.next_attempt()).unwrap();
        if n % 2 == 1 {
            let mut twin = attempt(nonce(0), 1, "bump");
            twin.hash = attempt(nonce(0), 0, "bind").hash;
            commit.attempt(twin);
        }
        commits.push(commit);
    }
    let verdicts = node.commit(&commits).await.unwrap().verdicts;
    assert_eq!(verdicts.len(), lanes.len());
    verdicts
}

async fn assert_conflict(node: &Node, lane: &SubmitterId, build: impl Fn(&mut LaneCommit)) {
    let before = trace(node, lane).await;
    let verdict = commit(node, lane, build).await;
    assert!(matches!(verdict, CommitVerdict::Conflict(_)), "{verdict:?}");
    assert_eq!(trace(node, lane).await, before);
}

/// A lane that closed the slot of an open intent would never load the intent again.
pub(super) async fn closing_slot_of_open_intent_changes_nothing(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let id = bound(&a, &lane, "r").await.id;
    let cursor = view(&a, &lane).await.cursor;
    assert_conflict(&a, &lane, |commit| {
        commit.close_below(&cursor, nonce(1)).unwrap();
    })
    .await;
    // The commit that ends the intent may close its slot.
    change(&a, &lane, id, Transition::Acknowledge).await;
    let hash = a.attempts(id).await.unwrap()[0].hash;
    let mined = change(&a, &lane, id, Transition::Mine(inclusion(hash, AttemptKind::Original, 9))).await;
    commit_done(&a, &lane, |commit| {
        commit.change(mined.change(Transition::Settle(None)).unwrap());
        commit.close_below(&cursor, nonce(1)).unwrap();
    })
    .await;
    assert!(view(&a, &lane).await.lane.slots.is_empty());
}
