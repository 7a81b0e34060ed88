//! Replacements: another payload for the same intent.

use std::slice::from_ref;
use std::time::Duration;

use gapless_domain::{CancelReason, EventKind, Goal, Transition, TransitionName, TxState};

use super::Harness;
use super::fixtures::*;
use super::trace::{history, trace};
use crate::roles::{Accepted, CancelVerdict, NewIntent, TxFilter};

const TICK: Duration = Duration::from_millis(5);

fn replace(amount: u64) -> Transition {
    Transition::WantReplace(transfer(amount))
}

pub(super) async fn replacement_in_queue_keeps_queue_position(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let ids = accept(&a, &lane, &["0", "1", "2"]).await;
    let before = record(&a, ids[1]).await;
    assert_eq!((&before.replacement, before.payload()), (&None, &transfer(1)));
    for (amount, version) in [(7, 2), (8, 3)] {
        let tx = change(&a, &lane, ids[1], replace(amount)).await;
        assert_eq!((&tx.state, tx.version, tx.seq), (&TxState::Queued, version, before.seq));
        assert_eq!((&tx.replacement, &tx.intent), (&Some(transfer(amount)), &before.intent));
        let queue = b.peek_queues(&[(lane.clone(), 9)], &[]).await.unwrap().remove(0);
        assert_eq!(queue.iter().map(|tx| tx.id).collect::<Vec<_>>(), ids);
        assert_eq!(queue[1], tx);
        let listed =
            b.list(&TxFilter { submitter: Some(lane.clone()), limit: 9, ..TxFilter::default() }).await.unwrap();
        assert_eq!((&listed[1], listed.len()), (&tx, 3));
    }
    let seen = trace(&a, &lane).await;
    let replaced = (3, EventKind::Tx(TransitionName::WantReplace), TxState::Queued);
    assert_eq!(history(&seen.events, ids[1])[2..], [replaced]);
    assert_eq!(seen.queue.iter().map(|tx| tx.replacement.is_some()).collect::<Vec<_>>(), [false, true, false]);

    // The replacement survives a bind, the loss of the nonce, and another bind.
    bind_next(&a, &lane).await;
    let tx = bind_next(&a, &lane).await;
    assert_eq!((tx.id, tx.state.nonce(), &tx.replacement), (ids[1], Some(nonce(1)), &Some(transfer(8))));
    let lost = change(&a, &lane, ids[1], Transition::LoseNonce).await;
    assert_eq!((&lost.state, lost.seq, lost.payload()), (&TxState::Queued, before.seq, &transfer(8)));
    let tx = bind_next(&a, &lane).await;
    assert_eq!((tx.id, tx.state.nonce(), tx.payload()), (ids[1], Some(nonce(2)), &transfer(8)));

    // A replaced intent in the queue can be canceled.
    change(&a, &lane, ids[2], replace(9)).await;
    assert_eq!(b.cancel_queued(&[ids[2]]).await.unwrap(), [CancelVerdict::Canceled]);
    assert_eq!(record(&b, ids[2]).await.replacement, Some(transfer(9)));
}

pub(super) async fn replacement_of_bound_intent_keeps_nonce(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let before = bound(&a, &lane, "r").await;
    let slots = view(&a, &lane).await.lane.slots;
    let tx = change(&a, &lane, before.id, replace(7)).await;
    assert_eq!((tx.state.nonce(), tx.seq, tx.version), (before.state.nonce(), before.seq, before.version + 1));
    assert_eq!(tx.state.bound().unwrap().goal, Goal::Replace);
    assert_eq!((&tx.replacement, &tx.intent), (&Some(transfer(7)), &before.intent));

    let lease = acquire(&a, &lane).await;
    a.release(&[lease]).await.unwrap();
    let seen = view(&b, &lane).await;
    assert_eq!((&seen.lane.slots, &seen.lane.bound[..]), (&slots, from_ref(&tx)));
    assert!(seen.queue.is_empty());
    assert_eq!(b.open_slots(&lane, None, 9).await.unwrap()[0].tx.as_ref(), Some(&tx));

    change(&b, &lane, tx.id, Transition::Acknowledge).await;
    let ended = confirm(&b, &lane, tx.id).await;
    assert_eq!(ended.replacement, Some(transfer(7)));
    h.pass(TICK).await;
    assert_eq!(move_out(&b, 9).await, 1);
    assert_eq!(record(&a, tx.id).await, ended);
    assert_eq!(a.open_slots(&lane, None, 9).await.unwrap()[0].tx, Some(ended));
}

/// Each replacement has an event, and the row has the last payload.
pub(super) async fn last_replacement_of_one_commit_stays(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let mut tx = bound(&a, &lane, "r").await;
    let mut changes = Vec::new();
    for transition in [replace(7), replace(8), Transition::Acknowledge, Transition::WantCancel(CancelReason::User)] {
        let change = tx.change(transition).unwrap();
        tx.apply(&change, tx.updated_at);
        changes.push(change);
    }
    commit_done(&a, &lane, |commit| {
        for change in &changes {
            commit.change(change.clone());
        }
    })
    .await;
    let found = record(&a, tx.id).await;
    assert_eq!((&found.state, found.version, &found.replacement), (&tx.state, 6, &Some(transfer(8))));
    assert_eq!(view(&a, &lane).await.lane.bound, [found]);
    let events = events(&a).await;
    let kinds = history(&events, tx.id).into_iter().skip(2).map(|(_, kind, _)| kind).collect::<Vec<_>>();
    assert_eq!(kinds, changes.iter().map(|change| change.event()).collect::<Vec<_>>());
}

/// The request id belongs to the first payload while the intent is queued, bound and archived. A repetition of the
/// first call gets the id, and the payload of the replacement is a conflict.
///
/// proves S11
pub(super) async fn request_id_belongs_to_first_payload(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let id = accept(&a, &lane, &["r"]).await[0];
    let again = async || {
        let replaced = NewIntent { id: fresh_id(), intent: intent_with(&lane, "r", transfer(7)) };
        b.accept(&[new_intent(&lane, "r"), replaced]).await.unwrap()
    };
    let expected = [Accepted::Existing(id), Accepted::Conflict(id)];
    change(&a, &lane, id, replace(7)).await;
    assert_eq!(again().await, expected);
    bind_next(&a, &lane).await;
    assert_eq!(again().await, expected);
    confirm(&a, &lane, id).await;
    h.pass(TICK).await;
    assert_eq!(move_out(&a, 9).await, 1);
    assert_eq!(again().await, expected);
}
