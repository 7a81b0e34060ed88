//! Reservations: nonces for callers that sign their own transactions.

use std::slice::from_ref;
use std::time::Duration;

use gapless_domain::{
    AttemptKind, CancelReason, Intent, IntentRecord, LockOwner, NewAttempt, Nonce, Payload, Reservation,
    ReservationStatus, ReservationStep, SubmitterId, Transition,
};

use super::Harness;
use super::fixtures::*;
use super::trace::trace;
use crate::roles::{Accepted, CommitVerdict, Conflict, NewIntent};

const LONG: Duration = Duration::from_secs(3600);

fn owner(name: &str) -> LockOwner {
    LockOwner::new(name).unwrap()
}

fn reservation_intent(lane: &SubmitterId, request: &str) -> Intent {
    let payload = gapless_domain::ReservationRequest { lock_owner: owner(request), hold_ms: 600_000 };
    intent_with(lane, request, Payload::Reservation(payload))
}

fn reserve(at: Nonce, tx: &IntentRecord, hold: Duration) -> ReservationStep {
    ReservationStep::Reserve { nonce: at, tx_id: tx.id, lock_owner: owner(tx.intent.request_id().as_str()), hold }
}

fn use_reserved(at: Nonce, name: &str) -> ReservationStep {
    ReservationStep::Use { nonce: at, lock_owner: owner(name) }
}

fn release(at: Nonce, name: &str) -> ReservationStep {
    ReservationStep::Release { nonce: at, lock_owner: owner(name) }
}

async fn queue_reservation(node: &Node, lane: &SubmitterId, request: &str) -> IntentRecord {
    let new = NewIntent { id: fresh_id(), intent: reservation_intent(lane, request) };
    assert_eq!(node.accept(from_ref(&new)).await.unwrap(), [Accepted::New]);
    record(node, new.id).await
}

/// Queues a reservation request and reserves the lane's next nonce for it.
async fn reserve_next(node: &Node, lane: &SubmitterId, request: &str, hold: Duration) -> (IntentRecord, Nonce) {
    let tx = queue_reservation(node, lane, request).await;
    let seen = view(node, lane).await;
    let at = seen.cursor.next_nonce;
    commit_done(node, lane, |commit| {
        commit.bind_reserved(&seen.cursor, &tx, reserve(at, &tx, hold)).unwrap();
    })
    .await;
    (record(node, tx.id).await, at)
}

async fn step(node: &Node, lane: &SubmitterId, step: ReservationStep) -> CommitVerdict {
    commit(node, lane, |commit| {
        commit.reservation(step.clone());
    })
    .await
}

async fn assert_refused(node: &Node, lane: &SubmitterId, refused: ReservationStep) {
    let before = trace(node, lane).await;
    let conflict = Conflict::Reservation(refused.nonce());
    assert_eq!(step(node, lane, refused).await, CommitVerdict::Conflict(conflict));
    assert_eq!(trace(node, lane).await, before);
}

async fn open_reservations(node: &Node, lane: &SubmitterId) -> Vec<Reservation> {
    view(node, lane).await.lane.reservations
}

pub(super) async fn reserved_nonce_is_used_by_its_lock_owner_only(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let (tx, at) = reserve_next(&a, &lane, "alice", LONG).await;
    assert_eq!(tx.state.nonce(), Some(at));
    let open = open_reservations(&a, &lane).await;
    let [Reservation { nonce, status: ReservationStatus::Reserved { tx_id, lock_owner, locked_until } }] = &open[..]
    else {
        panic!("{open:?}")
    };
    assert_eq!((*nonce, *tx_id, lock_owner), (at, tx.id, &owner("alice")));
    assert!(*locked_until > tx.created_at);

    assert_refused(&a, &lane, use_reserved(at, "mallory")).await;
    assert_refused(&a, &lane, release(at, "mallory")).await;
    let given = attempt(at, 0, "alice's own");
    commit_done(&a, &lane, |commit| {
        commit.reservation(use_reserved(at, "alice")).attempt(given.clone());
        commit.change(tx.change(Transition::Acknowledge).unwrap());
    })
    .await;
    assert!(open_reservations(&a, &lane).await.is_empty());
    assert_eq!(a.attempts(tx.id).await.unwrap()[0].hash, given.hash);
    assert_refused(&a, &lane, use_reserved(at, "alice")).await;
    assert_refused(&a, &lane, release(at, "alice")).await;
}

/// proves N18: after the hold, and after the nonce was reserved for another caller
pub(super) async fn late_use_or_release_is_refused(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let hold = Duration::from_millis(50);
    let (tx, at) = reserve_next(&a, &lane, "alice", hold).await;
    h.pass(hold).await;
    assert_refused(&a, &lane, use_reserved(at, "alice")).await;
    assert_refused(&a, &lane, release(at, "alice")).await;
    let expired = commit(&a, &lane, |commit| {
        commit.end_reservation(&tx, ReservationStep::Expire { nonce: at }).unwrap();
    })
    .await;
    assert_eq!(expired, CommitVerdict::Done);
    assert_eq!(open_reservations(&a, &lane).await, [Reservation { nonce: at, status: ReservationStatus::Recyclable }]);
    assert_refused(&a, &lane, use_reserved(at, "alice")).await;

    let bob = queue_reservation(&a, &lane, "bob").await;
    commit_done(&a, &lane, |commit| {
        commit.reserve_again(&bob, reserve(at, &bob, LONG)).unwrap();
    })
    .await;
    assert_refused(&a, &lane, use_reserved(at, "alice")).await;
    assert_refused(&a, &lane, release(at, "alice")).await;
    assert_eq!(step(&a, &lane, use_reserved(at, "bob")).await, CommitVerdict::Done);
}

/// The intent keeps the nonce, and the reservation counts as used by it.
///
/// proves N18
pub(super) async fn reservation_is_canceled_only_after_its_hold(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let (_, long) = reserve_next(&a, &lane, "long", LONG).await;
    assert_refused(&a, &lane, ReservationStep::Cancel { nonce: long }).await;
    let hold = Duration::from_millis(1);
    let (tx, short) = reserve_next(&a, &lane, "short", hold).await;
    h.pass(hold).await;
    let cancel = NewAttempt { kind: AttemptKind::Cancel, ..attempt(short, 0, "cancel") };
    commit_done(&a, &lane, |commit| {
        commit.change(tx.change(Transition::WantCancel(CancelReason::Expired)).unwrap());
        commit.reservation(ReservationStep::Cancel { nonce: short }).attempt(cancel.clone());
    })
    .await;
    let open = open_reservations(&a, &lane).await;
    assert_eq!(open.iter().map(|reservation| reservation.nonce).collect::<Vec<_>>(), [long]);
    assert_eq!(a.used_for(&lane, short).await.unwrap(), Some(tx.id));
    assert_eq!(record(&a, tx.id).await.state.bound().map(|bound| bound.nonce), Some(short));
    assert_refused(&a, &lane, use_reserved(short, "short")).await;
    assert_refused(&a, &lane, ReservationStep::Expire { nonce: short }).await;
    assert_refused(&a, &lane, ReservationStep::Cancel { nonce: short }).await;
}

/// proves N18
pub(super) async fn reservation_expires_only_after_its_hold(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let (_, long) = reserve_next(&a, &lane, "long", LONG).await;
    assert_refused(&a, &lane, ReservationStep::Expire { nonce: long }).await;
    let (_, short) = reserve_next(&a, &lane, "short", Duration::from_millis(1)).await;
    h.pass(Duration::from_millis(1)).await;
    assert_eq!(step(&a, &lane, ReservationStep::Expire { nonce: short }).await, CommitVerdict::Done);
    assert_refused(&a, &lane, ReservationStep::Expire { nonce: short }).await;
}

/// proves N18: the smallest recyclable nonce first, and before any fresh nonce
pub(super) async fn released_nonces_are_reserved_again_smallest_first(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let mut reserved = Vec::new();
    for name in ["n0", "n1", "n2", "n3"] {
        reserved.push(reserve_next(&a, &lane, name, LONG).await);
    }
    for n in [3, 1] {
        let (tx, at) = &reserved[n];
        commit_done(&a, &lane, |commit| {
            commit.end_reservation(tx, release(*at, tx.intent.request_id().as_str())).unwrap();
        })
        .await;
    }
    let next = queue_reservation(&a, &lane, "next").await;
    assert_refused(&a, &lane, reserve(nonce(3), &next, LONG)).await;
    assert_refused(&a, &lane, reserve(nonce(2), &next, LONG)).await;
    let seen = view(&a, &lane).await;
    let fresh = commit(&a, &lane, |commit| {
        commit.bind_reserved(&seen.cursor, &next, reserve(nonce(4), &next, LONG)).unwrap();
    })
    .await;
    assert_eq!(fresh, CommitVerdict::Conflict(Conflict::Reservation(nonce(4))));
    for at in [1, 3] {
        let next = queue_reservation(&a, &lane, &format!("again{at}")).await;
        commit_done(&a, &lane, |commit| {
            commit.reserve_again(&next, reserve(nonce(at), &next, LONG)).unwrap();
        })
        .await;
        assert_eq!(record(&a, next.id).await.state.nonce(), Some(nonce(at)));
    }
    assert_eq!(reserve_next(&a, &lane, "fresh", LONG).await.1, nonce(4));
    assert_eq!(open_reservations(&a, &lane).await.len(), 5);
}

pub(super) async fn steps_of_one_commit_apply_in_order(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    for name in ["n0", "n1"] {
        reserve_next(&a, &lane, name, LONG).await;
    }
    let (x, y) = (queue_reservation(&a, &lane, "x").await, queue_reservation(&a, &lane, "y").await);
    let wrong_order = commit(&a, &lane, |commit| {
        commit.reservation(release(nonce(0), "n0")).reservation(release(nonce(1), "n1"));
        commit.reservation(reserve(nonce(1), &x, LONG)).reservation(reserve(nonce(0), &y, LONG));
    })
    .await;
    assert_eq!(wrong_order, CommitVerdict::Conflict(Conflict::Reservation(nonce(1))));
    commit_done(&a, &lane, |commit| {
        commit.reservation(release(nonce(0), "n0")).reservation(release(nonce(1), "n1"));
        commit.reservation(reserve(nonce(0), &x, LONG)).reservation(reserve(nonce(1), &y, LONG));
    })
    .await;
    assert_refused(&a, &lane, release(nonce(0), "n0")).await;
    let (z, seen) = (queue_reservation(&a, &lane, "z").await, view(&a, &lane).await);
    let reserved_twice = commit(&a, &lane, |commit| {
        commit.bind_reserved(&seen.cursor, &z, reserve(nonce(2), &z, LONG)).unwrap();
        commit.reservation(reserve(nonce(2), &x, LONG));
    })
    .await;
    assert_eq!(reserved_twice, CommitVerdict::Conflict(Conflict::Reservation(nonce(2))));
    assert_eq!(step(&a, &lane, release(nonce(0), "x")).await, CommitVerdict::Done);
}

pub(super) async fn used_nonce_is_not_reserved_again(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let (_, at) = reserve_next(&a, &lane, "alice", LONG).await;
    assert_eq!(step(&a, &lane, use_reserved(at, "alice")).await, CommitVerdict::Done);
    let next = queue_reservation(&a, &lane, "next").await;
    assert_refused(&a, &lane, reserve(at, &next, LONG)).await;
    assert_refused(&a, &lane, ReservationStep::Expire { nonce: at }).await;
    assert_eq!(reserve_next(&a, &lane, "fresh", LONG).await.1, nonce(1));
}

/// proves N18: a caller that submits the same bytes again finds its intent at any later time
pub(super) async fn intent_of_used_nonce_is_found_after_retention(h: &dyn Harness) {
    let a = h.node("a").await;
    let (lane, other) = (lane(&a, 1).await, lane(&a, 2).await);
    let (tx, at) = reserve_next(&a, &lane, "alice", LONG).await;
    assert_eq!(a.used_for(&lane, at).await.unwrap(), None, "the nonce is reserved and not used");
    let signed = attempt(at, 0, "mine");
    commit_done(&a, &lane, |commit| {
        commit.reservation(use_reserved(at, "alice")).attempt(signed.clone());
    })
    .await;
    assert_eq!(a.used_for(&lane, at).await.unwrap(), Some(tx.id));
    let released = recyclable(&a, &lane, "released").await;
    assert_eq!(a.used_for(&lane, released).await.unwrap(), None);
    commit_done(&a, &lane, |commit| {
        commit.reservation(ReservationStep::Fill { nonce: released }).attempt(attempt(released, 0, "fill"));
    })
    .await;
    assert_eq!(a.used_for(&lane, released).await.unwrap(), None, "a filler belongs to no intent");
    assert_eq!(a.used_for(&lane, nonce(7)).await.unwrap(), None);
    assert_eq!(a.used_for(&other, at).await.unwrap(), None);

    confirm(&a, &lane, tx.id).await;
    let cursor = view(&a, &lane).await.cursor;
    commit_done(&a, &lane, |commit| {
        commit.close_below(&cursor, nonce(1)).unwrap();
    })
    .await;
    h.pass(Duration::from_millis(5)).await;
    assert_eq!(move_out(&a, 10).await, 2, "the released request is archived too");
    assert_eq!(a.used_for(&lane, at).await.unwrap(), Some(tx.id));
    let kept = a.attempts(tx.id).await.unwrap();
    assert_eq!(kept.iter().map(|attempt| attempt.hash).collect::<Vec<_>>(), [signed.hash]);
}

/// Reserves the next nonce and releases it.
async fn recyclable(node: &Node, lane: &SubmitterId, request: &str) -> Nonce {
    let (tx, at) = reserve_next(node, lane, request, LONG).await;
    commit_done(node, lane, |commit| {
        commit.end_reservation(&tx, release(at, request)).unwrap();
    })
    .await;
    at
}

/// proves N18: a nonce that a filler consumed is gone
pub(super) async fn filled_nonce_is_not_reserved_again(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let (kept, _) = reserve_next(&a, &lane, "kept", LONG).await;
    let at = recyclable(&a, &lane, "gone").await;
    let filler = attempt(at, 0, "fill");
    commit_done(&a, &lane, |commit| {
        commit.reservation(ReservationStep::Fill { nonce: at }).attempt(filler.clone());
    })
    .await;
    let seen = view(&a, &lane).await;
    assert_eq!(seen.lane.reservations.iter().map(|open| open.nonce).collect::<Vec<_>>(), [nonce(0)]);
    assert_eq!(seen.lane.slots.len(), 2);
    assert_eq!(seen.lane.attempts.iter().map(|attempt| attempt.hash).collect::<Vec<_>>(), [filler.hash]);
    assert_eq!(seen.lane.bound.iter().map(|tx| tx.id).collect::<Vec<_>>(), [kept.id], "a filler belongs to no intent");
    let next = queue_reservation(&a, &lane, "next").await;
    assert_refused(&a, &lane, reserve(at, &next, LONG)).await;
    assert_eq!(reserve_next(&a, &lane, "fresh", LONG).await.1, nonce(2));
}

/// proves N18: a nonce that is reserved, used or only expired is not filled
pub(super) async fn only_recyclable_nonce_is_filled(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let (_, used) = reserve_next(&a, &lane, "used", LONG).await;
    assert_eq!(step(&a, &lane, use_reserved(used, "used")).await, CommitVerdict::Done);
    let (_, expired) = reserve_next(&a, &lane, "expired", Duration::from_millis(1)).await;
    h.pass(Duration::from_millis(1)).await;
    let (_, reserved) = reserve_next(&a, &lane, "reserved", LONG).await;
    for at in [used, expired, reserved, nonce(3)] {
        assert_refused(&a, &lane, ReservationStep::Fill { nonce: at }).await;
    }
    commit_done(&a, &lane, |commit| {
        commit.reservation(ReservationStep::Expire { nonce: expired });
        commit.reservation(ReservationStep::Fill { nonce: expired });
    })
    .await;
    assert_refused(&a, &lane, ReservationStep::Fill { nonce: expired }).await;
    let refilled = commit(&a, &lane, |commit| {
        commit.reservation(release(reserved, "reserved"));
        commit
            .reservation(ReservationStep::Fill { nonce: reserved })
            .reservation(ReservationStep::Fill { nonce: reserved });
    })
    .await;
    assert_eq!(refilled, CommitVerdict::Conflict(Conflict::Reservation(reserved)));
}

/// proves N18: a closed recyclable nonce is neither reserved again nor waited for
pub(super) async fn closed_recyclable_nonce_does_not_block_reservations(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    // Both are reserved before either is released. Otherwise the second reservation would get the first nonce again.
    let mut reserved = Vec::new();
    for name in ["n0", "n1"] {
        reserved.push(reserve_next(&a, &lane, name, LONG).await);
    }
    for (n, (tx, at)) in reserved.iter().enumerate() {
        commit_done(&a, &lane, |commit| {
            commit.end_reservation(tx, release(*at, &format!("n{n}"))).unwrap();
        })
        .await;
    }
    let next = queue_reservation(&a, &lane, "next").await;
    let cursor = view(&a, &lane).await.cursor;
    // A slot that this commit closes is still open for the other steps of the commit.
    let too_early = commit(&a, &lane, |commit| {
        commit.close_below(&cursor, nonce(1)).unwrap().reservation(reserve(nonce(1), &next, LONG));
    })
    .await;
    assert_eq!(too_early, CommitVerdict::Conflict(Conflict::Reservation(nonce(1))));
    commit_done(&a, &lane, |commit| {
        commit.close_below(&cursor, nonce(1)).unwrap();
    })
    .await;
    assert_eq!(
        open_reservations(&a, &lane).await,
        [Reservation { nonce: nonce(1), status: ReservationStatus::Recyclable }]
    );
    assert_refused(&a, &lane, reserve(nonce(0), &next, LONG)).await;
    assert_eq!(step(&a, &lane, reserve(nonce(1), &next, LONG)).await, CommitVerdict::Done);
    assert_eq!(reserve_next(&a, &lane, "fresh", LONG).await.1, nonce(2));
}

/// A nonce that is reserved, or may be reserved again, has no known transaction. Otherwise two callers could get it.
pub(super) async fn attempt_for_reserved_nonce_needs_its_use(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let (_, at) = reserve_next(&a, &lane, "alice", LONG).await;
    let before = trace(&a, &lane).await;
    let verdict = commit(&a, &lane, |commit| {
        commit.attempt(attempt(at, 0, "ours"));
    })
    .await;
    assert!(matches!(verdict, CommitVerdict::Conflict(_)), "{verdict:?}");
    assert_eq!(trace(&a, &lane).await, before);
}
