//! Lane commits that are done: all rows of a commit are written together.

use std::slice::from_ref;
use std::time::Duration;

use gapless_domain::{
    AttemptKind, CancelReason, Cursor, EventKind, LaneCommit, LaneState, SendOutcome, SlotKind, StateName, Transition,
    TransitionName, TxId, TxState,
};

use super::Harness;
use super::fixtures::*;
use super::trace::{history, trace};
use crate::roles::{CommitVerdict, Conflict};

/// proves N10: nonce, intent and attempt commit together
pub(super) async fn bind_writes_nonce_intent_attempt_and_event_together(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let id = accept(&a, &lane, &["r"]).await[0];
    let before = view(&a, &lane).await;
    assert_eq!(before.lane.cursor, None);
    let tx = bind_next(&a, &lane).await;
    assert_eq!((tx.id, tx.version, tx.state.name(), tx.state.nonce()), (id, 2, StateName::Allocated, Some(nonce(0))));
    assert!(tx.updated_at >= tx.created_at);
    assert_eq!(tx.seq, before.queue[0].seq);

    let lease = acquire(&a, &lane).await;
    a.release(&[lease]).await.unwrap();
    let seen = trace(&b, &lane).await;
    let cursor = seen.lane.cursor.unwrap();
    assert_eq!((cursor.next_nonce, cursor.version, cursor.state), (nonce(1), 1, LaneState::InFlight));
    let slot = &seen.lane.slots[0];
    assert_eq!((slot.nonce, slot.kind, slot.next_resubmit_at), (nonce(0), SlotKind::Intent(id), None));
    let made = before.next_attempt();
    let kept = &seen.lane.attempts[0];
    assert_eq!((kept.nonce, kept.ordinal, kept.kind), (made.nonce, made.ordinal, made.kind));
    assert_eq!((kept.hash, &kept.raw, kept.fees), (made.hash, &made.raw, made.fees));
    assert_eq!((kept.sends, kept.last_sent_at, &kept.last_outcome), (0, None, &None));
    assert_eq!(seen.attempts, from_ref(&seen.lane.attempts));
    assert_eq!(seen.lane.bound, from_ref(&tx));
    assert_eq!(seen.records, from_ref(&tx));
    assert!(seen.queue.is_empty() && !seen.lane.regressed);
    let events = history(&seen.events, id);
    assert_eq!(events[1], (2, EventKind::Tx(TransitionName::Bind), tx.state));
    assert_eq!((events.len(), seen.lane.slots.len(), seen.lane.attempts.len()), (2, 1, 1));
}

pub(super) async fn binds_in_one_commit_take_contiguous_nonces(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let ids = accept(&a, &lane, &["0", "1", "2"]).await;
    let seen = view(&a, &lane).await;
    commit_done(&a, &lane, |commit| {
        for (n, tx) in seen.queue.iter().enumerate() {
            commit.bind(&seen.cursor, tx, attempt(nonce(n as u64), 0, "bind")).unwrap();
        }
    })
    .await;
    let after = view(&a, &lane).await;
    assert_eq!(after.cursor.next_nonce, nonce(3));
    let slots: Vec<_> = after.lane.slots.iter().map(|slot| (slot.nonce.get(), slot.kind)).collect();
    let expected: Vec<_> = ids.iter().enumerate().map(|(n, id)| (n as u64, SlotKind::Intent(*id))).collect();
    assert_eq!(slots, expected);
    assert_eq!(after.lane.bound.iter().map(|tx| tx.id).collect::<Vec<_>>(), ids);
}

pub(super) async fn reports_and_claims_are_stored_with_their_rows(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let tx = bound(&a, &lane, "r").await;
    let first = attempt(nonce(0), 0, "bind");
    let second = attempt(nonce(0), 1, "bump");
    commit_done(&a, &lane, |commit| {
        commit.report(report(&first, SendOutcome::Unknown, "time-out"));
        commit.report(report(&first, SendOutcome::Underpriced, "fee too low"));
        commit.attempt(second.clone());
        commit.claim_resubmit(claim(nonce(0), Duration::from_secs(3600)));
    })
    .await;
    let seen = view(&a, &lane).await.lane;
    let claimed = seen.slots[0].next_resubmit_at.unwrap();
    assert!(claimed > seen.now && claimed <= seen.now.saturating_add(Duration::from_secs(3600)));
    let [one, two] = &seen.attempts[..] else { panic!("{:?}", seen.attempts) };
    assert_eq!((one.sends, &one.last_outcome), (2, &Some((SendOutcome::Underpriced, text("fee too low")))));
    assert!(one.last_sent_at.unwrap() >= one.created_at && one.last_sent_at.unwrap() <= seen.now);
    assert_eq!((two.ordinal, two.hash, two.sends), (1, second.hash, 0));

    commit_done(&a, &lane, |commit| {
        commit.report(report(&second, SendOutcome::Accepted, ""));
        commit.change(tx.change(Transition::Acknowledge).unwrap());
    })
    .await;
    let attempts = a.attempts(tx.id).await.unwrap();
    assert_eq!(attempts[1].last_outcome, Some((SendOutcome::Accepted, text(""))));
    assert_eq!((attempts[0].sends, attempts[1].sends), (2, 1));
}

pub(super) async fn terminal_intent_rejects_stale_change(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let id = bound(&a, &lane, "r").await.id;
    change(&a, &lane, id, Transition::Acknowledge).await;
    let hash = attempt(nonce(0), 0, "bind").hash;
    let mined = change(&a, &lane, id, Transition::Mine(inclusion(hash, AttemptKind::Original, 9))).await;
    assert_eq!(view(&a, &lane).await.lane.bound, from_ref(&mined));
    let end = change(&a, &lane, id, Transition::Settle(None)).await;
    assert!(matches!(&end.state, TxState::Confirmed(settled) if settled.inclusion.block == block(9)));
    assert_eq!(end.version, 5);
    assert!(view(&a, &lane).await.lane.bound.is_empty());
    // A change from an older version cannot overwrite the terminal state.
    let verdict = commit(&a, &lane, |commit| {
        commit.change(mined.change(Transition::Unmine).unwrap());
    })
    .await;
    assert_eq!(verdict, CommitVerdict::Conflict(Conflict::Tx(id)));
    assert_eq!(record(&a, id).await, end);
}

pub(super) async fn lane_twice_in_one_call_is_written_once(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    accept(&a, &lane, &["0", "1"]).await;
    let seen = view(&a, &lane).await;
    for _ in 0..20 {
        let lease = acquire(&a, &lane).await;
        let mut commits = [LaneCommit::new(&lease), LaneCommit::new(&lease)];
        commits[0].bind(&seen.cursor, &seen.queue[0], attempt(nonce(0), 0, "x")).unwrap();
        commits[1].change(seen.queue[1].change(Transition::CancelInQueue(CancelReason::Expired)).unwrap());
        let verdicts = a.commit(&commits).await.unwrap().verdicts;
        assert_ne!(verdicts[1], CommitVerdict::Done);
        assert_eq!(record(&a, seen.queue[1].id).await, seen.queue[1]);
        if verdicts[0] == CommitVerdict::Done {
            assert_eq!(verdicts[1], CommitVerdict::Conflict(Conflict::Cursor));
            assert_eq!(record(&a, seen.queue[0].id).await.version, 2);
            return;
        }
    }
    panic!("{TOO_SLOW}")
}

/// An intent that is still bound below the final count keeps its slot and its attempts. The lane needs their hashes to
/// find the transaction that consumed the nonce.
pub(super) async fn final_count_alone_closes_no_slot(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let mut ids = Vec::new();
    for request in ["0", "1", "2"] {
        ids.push(bound(&a, &lane, request).await.id);
    }
    confirm(&a, &lane, ids[0]).await;
    let seen = view(&a, &lane).await;
    commit_done(&a, &lane, |commit| {
        commit.observe_counts(&seen.cursor, nonce(3), nonce(2)).unwrap();
    })
    .await;
    let after = view(&a, &lane).await;
    let cursor = &after.cursor;
    assert_eq!((cursor.chain_nonce, cursor.final_nonce, cursor.open_nonce), (nonce(3), nonce(2), nonce(0)));
    assert_eq!(cursor.version, seen.cursor.version + 1);
    assert_eq!(loaded(&after), (vec![0, 1, 2], vec![0, 1, 2], ids[1..].to_vec()));
    assert_eq!(a.attempts(ids[1]).await.unwrap(), after.lane.attempts[1..2]);
}

/// A closed slot is never loaded again, whatever its kind. Its rows stay in the ledger.
pub(super) async fn closed_slots_are_not_loaded(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let mut ids = Vec::new();
    for request in ["0", "1", "2"] {
        ids.push(bound(&a, &lane, request).await.id);
    }
    let mut left = ids.clone();
    for (open, slots) in [(1, vec![1, 2]), (2, vec![2]), (3, vec![])] {
        confirm(&a, &lane, left.remove(0)).await;
        let cursor = view(&a, &lane).await.cursor;
        commit_done(&a, &lane, |commit| {
            commit.close_below(&cursor, nonce(open)).unwrap();
        })
        .await;
        let lease = acquire(&a, &lane).await;
        a.release(&[lease]).await.unwrap();
        let after = view(&b, &lane).await;
        assert_eq!((after.cursor.open_nonce, after.cursor.final_nonce), (nonce(open), nonce(0)));
        assert_eq!(loaded(&after), (slots.clone(), slots, left.clone()));
        let lease = acquire(&b, &lane).await;
        b.release(&[lease]).await.unwrap();
    }
    assert_eq!(a.attempts(ids[0]).await.unwrap().len(), 1);
    assert_eq!(bound(&a, &lane, "3").await.state.nonce(), Some(nonce(3)));
}

/// The nonces of the slots, the nonces of the attempts, and the bound intents.
fn loaded(view: &View) -> (Vec<u64>, Vec<u64>, Vec<TxId>) {
    (
        view.lane.slots.iter().map(|slot| slot.nonce.get()).collect(),
        view.lane.attempts.iter().map(|attempt| attempt.nonce.get()).collect(),
        view.lane.bound.iter().map(|tx| tx.id).collect(),
    )
}

/// An intent that is mined and settled in one commit has the same history as with one commit for each step.
pub(super) async fn changes_of_one_intent_apply_in_order_in_one_commit(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let id = accept(&a, &lane, &["r"]).await[0];
    let seen = view(&a, &lane).await;
    let mut tx = seen.queue[0].clone();
    let made = seen.next_attempt();
    let mined = Transition::Mine(inclusion(made.hash, AttemptKind::Original, 9));
    let mut bind = LaneCommit::new(&acquire(&a, &lane).await);
    bind.bind(&seen.cursor, &tx, made.clone()).unwrap();
    let mut changes = bind.changes().to_vec();
    tx.apply(&changes[0], tx.updated_at);
    for transition in [Transition::Acknowledge, mined, Transition::Settle(None)] {
        changes.push(tx.change(transition).unwrap());
        tx.apply(&changes[changes.len() - 1], tx.updated_at);
    }
    commit_done(&a, &lane, |commit| {
        commit.bind(&seen.cursor, &seen.queue[0], made.clone()).unwrap();
        commit.change(changes[1].clone());
    })
    .await;
    commit_done(&a, &lane, |commit| {
        commit.change(changes[2].clone()).change(changes[3].clone());
    })
    .await;
    let end = record(&a, id).await;
    assert_eq!((&end.state, end.version), (&tx.state, 5));
    assert!(matches!(end.state, TxState::Confirmed(_)));
    let after = trace(&a, &lane).await;
    assert!(after.lane.bound.is_empty() && after.queue.is_empty());
    let expected = changes.iter().map(|change| (change.to_version(), change.event(), change.to().clone()));
    let expected: Vec<_> = [(1, EventKind::Accepted, TxState::Queued)].into_iter().chain(expected).collect();
    assert_eq!(history(&after.events, id), expected);
}

pub(super) async fn empty_commit_is_done(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let before = trace(&a, &lane).await;
    commit_done(&a, &lane, |_| {}).await;
    assert_eq!(trace(&a, &lane).await, before);
    assert_eq!(a.commit(&[]).await.unwrap().verdicts, []);
}

pub(super) async fn foreign_slots_take_nonce_without_intent(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let start = Cursor::starting_at(nonce(5));
    commit_done(&a, &lane, |commit| {
        commit.adopt_foreign(&start, nonce(5), text("seen in block 7")).unwrap();
        commit.adopt_foreign(&start, nonce(6), text("seen in block 8")).unwrap();
    })
    .await;
    let seen = view(&a, &lane).await;
    let slots: Vec<_> = seen.lane.slots.iter().map(|slot| (slot.nonce.get(), slot.kind)).collect();
    assert_eq!(slots, [(5, SlotKind::Foreign), (6, SlotKind::Foreign)]);
    assert_eq!((seen.cursor.next_nonce, seen.lane.attempts.len()), (nonce(7), 0));
    bound(&a, &lane, "r").await;
    assert_eq!(view(&a, &lane).await.lane.bound[0].state.nonce(), Some(nonce(7)));
}
