//! The slots of a lane with their intents, reservations and attempts; lost and foreign nonces.

use std::slice::from_ref;
use std::time::Duration;

use gapless_domain::{
    CommitError, Cursor, FailReason, FinalFailure, IntentRecord, LaneCommit, LockOwner, LostRule, Payload, ProtectCode,
    Protection, Reservation, ReservationRequest, ReservationStatus, ReservationStep, SendOutcome, SlotKind,
    SubmitterId, Transition, TxState,
};

use super::Harness;
use super::fixtures::*;
use crate::roles::{CommitVerdict, Conflict, NewIntent, SlotStatus};

const LONG: Duration = Duration::from_secs(3600);

async fn open_slots(node: &Node, lane: &SubmitterId) -> Vec<SlotStatus> {
    node.open_slots(lane, None, 1000).await.unwrap()
}

/// Nonce, intent and number of attempts of each slot.
async fn outline(node: &Node, lane: &SubmitterId) -> Vec<(u64, Option<gapless_domain::TxId>, usize)> {
    let all = open_slots(node, lane).await.into_iter();
    all.map(|status| (status.slot.nonce.get(), status.tx.map(|tx| tx.id), status.attempts.len())).collect()
}

/// Queues a reservation request.
async fn queue_reservation(node: &Node, lane: &SubmitterId, name: &str) -> (IntentRecord, LockOwner) {
    let lock_owner = LockOwner::new(name).unwrap();
    let payload = Payload::Reservation(ReservationRequest { lock_owner: lock_owner.clone(), hold_ms: 600_000 });
    let new = NewIntent { id: fresh_id(), intent: intent_with(lane, name, payload) };
    node.accept(from_ref(&new)).await.unwrap();
    (record(node, new.id).await, lock_owner)
}

pub(super) async fn open_slots_show_intent_reservation_and_attempts(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let id = accept(&a, &lane, &["r"]).await[0];
    let (requester, lock_owner) = queue_reservation(&a, &lane, "alice").await;
    let seen = view(&a, &lane).await;
    let cursor = &seen.cursor;
    let first = seen.next_attempt();
    let reserve =
        ReservationStep::Reserve { nonce: nonce(3), tx_id: requester.id, lock_owner: lock_owner.clone(), hold: LONG };
    commit_done(&a, &lane, |commit| {
        commit.bind(cursor, &seen.queue[0], first.clone()).unwrap();
        commit.bind_above(Some(block(41))).adopt_foreign(cursor, nonce(1), text("0xdef in block 41")).unwrap();
        commit.adopt_foreign(cursor, nonce(2), text("0xabc in block 42")).unwrap();
        commit.bind_above(Some(block(0))).bind_reserved(cursor, &requester, reserve.clone()).unwrap();
    })
    .await;
    commit_done(&a, &lane, |commit| {
        commit.report(report(&first, SendOutcome::Accepted, "taken")).claim_resubmit(claim(nonce(0), LONG));
        commit.attempt(attempt(nonce(0), 1, "bump"));
    })
    .await;
    let found = open_slots(&b, &lane).await;
    let [intent, first, second, reservation] = &found[..] else { panic!("{found:?}") };
    let loaded = view(&a, &lane).await.lane;
    assert_eq!(found.iter().map(|status| status.slot.clone()).collect::<Vec<_>>(), loaded.slots);
    let kinds = [SlotKind::Intent(id), SlotKind::Foreign, SlotKind::Foreign, SlotKind::Reservation];
    assert_eq!(loaded.slots.iter().map(|slot| slot.kind).collect::<Vec<_>>(), kinds);
    let above = [None, Some(block(41)), Some(block(41)), Some(block(0))];
    assert_eq!(loaded.slots.iter().map(|slot| slot.above).collect::<Vec<_>>(), above);
    let evidence = [None, Some(text("0xdef in block 41")), Some(text("0xabc in block 42")), None];
    assert_eq!(loaded.slots.iter().map(|slot| slot.evidence.clone()).collect::<Vec<_>>(), evidence);
    assert!(loaded.slots[0].next_resubmit_at.is_some());

    assert_eq!(intent.tx, Some(record(&a, id).await));
    assert_eq!(intent.attempts, a.attempts(id).await.unwrap());
    assert_eq!((intent.attempts.len(), intent.attempts[0].sends, &intent.reservation), (2, 1, &None));
    for foreign in [first, second] {
        assert_eq!((&foreign.tx, foreign.attempts.len(), &foreign.reservation), (&None, 0, &None));
    }
    assert_eq!(reservation.tx, Some(record(&a, requester.id).await));
    assert_eq!(reservation.reservation.as_ref(), loaded.reservations.first());
    assert!(reservation.attempts.is_empty());

    // After its use the slot has an attempt, and the row still shows the reservation.
    let given = attempt(nonce(3), 0, "alice's own");
    commit_done(&a, &lane, |commit| {
        commit.reservation(ReservationStep::Use { nonce: nonce(3), lock_owner: lock_owner.clone() });
        commit.attempt(given.clone());
    })
    .await;
    let used = open_slots(&b, &lane).await.remove(3);
    let status = ReservationStatus::Used { tx_id: Some(requester.id) };
    assert_eq!(used.reservation, Some(Reservation { nonce: nonce(3), status }));
    assert_eq!((used.tx.map(|tx| tx.id), used.attempts[0].hash), (Some(requester.id), given.hash));
}

pub(super) async fn released_nonce_is_shown_without_intent(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let (tx, lock_owner) = queue_reservation(&a, &lane, "alice").await;
    let seen = view(&a, &lane).await;
    let reserve =
        ReservationStep::Reserve { nonce: nonce(0), tx_id: tx.id, lock_owner: lock_owner.clone(), hold: LONG };
    commit_done(&a, &lane, |commit| {
        commit.bind_reserved(&seen.cursor, &tx, reserve.clone()).unwrap();
    })
    .await;
    let tx = record(&a, tx.id).await;
    commit_done(&a, &lane, |commit| {
        let release = ReservationStep::Release { nonce: nonce(0), lock_owner: lock_owner.clone() };
        commit.end_reservation(&tx, release).unwrap();
    })
    .await;
    let free = open_slots(&a, &lane).await.remove(0);
    let status = ReservationStatus::Recyclable;
    assert_eq!((free.tx, free.reservation), (None, Some(Reservation { nonce: nonce(0), status })));
    commit_done(&a, &lane, |commit| {
        commit.reservation(ReservationStep::Fill { nonce: nonce(0) }).attempt(attempt(nonce(0), 0, "fill"));
    })
    .await;
    let filled = open_slots(&a, &lane).await.remove(0);
    let status = ReservationStatus::Used { tx_id: None };
    assert_eq!((filled.tx, filled.reservation), (None, Some(Reservation { nonce: nonce(0), status })));
    assert_eq!(filled.attempts.len(), 1);
}

/// Retention may archive the intent before its slot is closed.
pub(super) async fn terminal_intent_is_shown_until_slot_is_closed(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let ended = bound(&a, &lane, "0").await.id;
    let open = bound(&a, &lane, "1").await.id;
    confirm(&a, &lane, ended).await;
    let both = [(0, Some(ended), 1), (1, Some(open), 1)];
    assert_eq!(outline(&a, &lane).await, both);
    h.pass(Duration::from_millis(5)).await;
    assert_eq!(move_out(&a, 10).await, 1);
    assert_eq!(outline(&a, &lane).await, both);
    let cursor = view(&a, &lane).await.cursor;
    commit_done(&a, &lane, |commit| {
        commit.close_below(&cursor, nonce(1)).unwrap();
    })
    .await;
    assert_eq!(outline(&a, &lane).await, both[1..]);
    assert_eq!(
        a.open_slots(&lane, Some(nonce(0)), 10).await.unwrap().len(),
        1,
        "a closed slot is not shown, even below `from`"
    );
}

pub(super) async fn open_slots_page_lowest_first(h: &dyn Harness) {
    let a = h.node("a").await;
    let (lane, other) = (lane(&a, 1).await, lane(&a, 2).await);
    for request in ["0", "1", "2", "3", "4"] {
        bound(&a, &lane, request).await;
    }
    bound(&a, &other, "0").await;
    let page = async |from: Option<u64>, limit: u32| {
        let page = a.open_slots(&lane, from.map(nonce), limit).await.unwrap();
        page.into_iter().map(|status| status.slot.nonce.get()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 2).await, [0, 1]);
    assert_eq!(page(Some(2), 2).await, [2, 3]);
    assert_eq!(page(Some(4), 2).await, [4]);
    assert_eq!(page(Some(5), 2).await, [0; 0]);
    assert_eq!((page(None, 0).await, page(None, u32::MAX).await.len()), (vec![], 5));
    let two = a.open_slots(&lane, Some(nonce(2)), 2).await.unwrap();
    let full = open_slots(&a, &lane).await;
    assert_eq!(two, full[2..4], "a page shows the same details as the whole list");
    assert_eq!(a.open_slots(&submitter(3), None, 10).await.unwrap(), []);
}

/// The old slot stays bound to the intent for ever (P4), and the attempts of both slots are listed.
pub(super) async fn intent_that_lost_nonce_has_two_slots(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let tx = bound(&a, &lane, "r").await;
    let old = a.attempts(tx.id).await.unwrap();
    commit_done(&a, &lane, |commit| {
        commit.lose_nonce(&tx, LostRule::Requeue, true, text("not kept")).unwrap();
    })
    .await;
    let queued = record(&a, tx.id).await;
    assert_eq!((&queued.state, queued.version, queued.seq), (&TxState::Queued, tx.version + 1, tx.seq));
    assert_eq!(outline(&a, &lane).await, [(0, None, 1)]);
    let again = bind_next(&a, &lane).await;
    assert_eq!((again.id, again.state.nonce()), (tx.id, Some(nonce(1))));
    assert_eq!(outline(&a, &lane).await, [(0, None, 1), (1, Some(tx.id), 1)]);
    let slots = view(&a, &lane).await.lane.slots;
    assert!(slots.iter().all(|slot| slot.kind == SlotKind::Intent(tx.id)));
    let all = a.attempts(tx.id).await.unwrap();
    assert_eq!((all.len(), &all[..1], all[1].nonce), (2, &old[..], nonce(1)));
    // The old slot may be closed while the intent is open.
    let cursor = view(&a, &lane).await.cursor;
    commit_done(&a, &lane, |commit| {
        commit.close_below(&cursor, nonce(1)).unwrap();
    })
    .await;
    assert_eq!(outline(&a, &lane).await, [(1, Some(tx.id), 1)]);
}

pub(super) async fn intent_that_lost_nonce_may_fail_in_same_commit(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let tx = bound(&a, &lane, "r").await;
    commit_done(&a, &lane, |commit| {
        commit.lose_nonce(&tx, LostRule::Fail, true, text("used by 0xabc")).unwrap();
        commit.audit(audit("resync", "one failed"));
    })
    .await;
    let failed = record(&a, tx.id).await;
    let state = TxState::FailedFinal(FinalFailure::Unbound(FailReason::NonceLost, text("used by 0xabc")));
    assert_eq!((failed.state, failed.version), (state, tx.version + 2));
    assert_eq!(a.events_of(tx.id, 10).await.unwrap().len(), 4, "each of the two changes has an event");
    assert_eq!(outline(&a, &lane).await, [(0, None, 1)]);
    let seen = view(&a, &lane).await;
    assert!(seen.lane.bound.is_empty() && seen.queue.is_empty());
    commit_done(&a, &lane, |commit| {
        commit.close_below(&seen.cursor, nonce(1)).unwrap();
    })
    .await;
    assert_eq!(audits(&a, &lane).await.len(), 1);
    // The commit that takes the nonce from the intent may close the slot.
    let next = bound(&a, &lane, "next").await;
    let cursor = view(&a, &lane).await.cursor;
    commit_done(&a, &lane, |commit| {
        commit.lose_nonce(&next, LostRule::Requeue, true, text("gone")).unwrap();
        commit.close_below(&cursor, nonce(2)).unwrap();
    })
    .await;
    assert_eq!((outline(&a, &lane).await.len(), record(&a, next.id).await.state), (0, TxState::Queued));
}

/// A consumed nonce is adopted even where nothing may be bound, because the way out of PROTECT needs it.
pub(super) async fn foreign_nonce_is_adopted_in_protect_and_pause(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let id = accept(&a, &lane, &["paid already"]).await[0];
    let start = Cursor::starting_at(nonce(7));
    let protection = Protection { code: ProtectCode::ExternalNonce, detail: text("the chain is ahead") };
    commit_done(&a, &lane, |commit| {
        commit.protect(&start, protection.clone()).unwrap();
        commit.set_paused(&start, true, text("asked")).unwrap();
    })
    .await;
    let seen = view(&a, &lane).await;
    let mut refused = LaneCommit::new(&acquire(&a, &lane).await);
    let bind = refused.bind(&seen.cursor, &seen.queue[0], attempt(nonce(7), 0, "bind"));
    assert_eq!(bind.err(), Some(CommitError::BindsNothing));
    let on_chain = attempt(nonce(8), 0, "found on chain");
    commit_done(&a, &lane, |commit| {
        commit.bind_above(Some(block(99))).adopt_foreign(&seen.cursor, nonce(7), text("0xabc")).unwrap();
        commit.adopt_for(&seen.cursor, &seen.queue[0], on_chain.clone(), Some(block(6))).unwrap();
        commit.audit(audit("resync", "7 is foreign, 8 is ours"));
    })
    .await;
    let after = view(&a, &lane).await;
    assert_eq!((after.cursor.next_nonce, after.cursor.paused), (nonce(9), true));
    assert_eq!(after.cursor.state, seen.cursor.state);
    let slots: Vec<_> = after.lane.slots.iter().map(|slot| (slot.nonce.get(), slot.kind, slot.above)).collect();
    assert_eq!(slots, [(7, SlotKind::Foreign, Some(block(99))), (8, SlotKind::Intent(id), Some(block(6)))]);
    assert_eq!(a.attempts(id).await.unwrap()[0].hash, on_chain.hash);
    assert_eq!(record(&a, id).await.state.nonce(), Some(nonce(8)));
    assert_eq!((after.queue.len(), audits(&a, &lane).await.len()), (0, 1));
    // A commit with a stale cursor adopts nothing.
    let stale = commit(&a, &lane, |commit| {
        commit.adopt_foreign(&seen.cursor, nonce(7), text("again")).unwrap();
    })
    .await;
    assert_eq!(stale, CommitVerdict::Conflict(Conflict::Cursor));
    change(&a, &lane, id, Transition::Acknowledge).await;
}

pub(super) async fn low_balance_is_stored_with_cursor(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let mut seen = view(&a, &lane).await;
    assert!(!seen.cursor.low_balance);
    for low in [true, false, true] {
        commit_done(&a, &lane, |commit| {
            commit.set_low_balance(&seen.cursor, low, text("3 wei")).unwrap();
        })
        .await;
        seen = view(&a, &lane).await;
        assert_eq!(seen.lane.cursor.as_ref().map(|cursor| cursor.low_balance), Some(low));
        let status = b.lane_status(from_ref(&lane)).await.unwrap().remove(0).unwrap();
        assert_eq!(status.cursor.as_ref(), Some(&seen.cursor));
    }
    bound(&a, &lane, "r").await;
    assert!(view(&a, &lane).await.cursor.low_balance, "a bind does not change it");
}
