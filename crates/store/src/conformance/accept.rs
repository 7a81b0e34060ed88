//! Intake: intents that any node accepts and cancels for any lane.

use gapless_domain::{
    Amount, Bytes, CancelReason, Cancellation, EventKind, Intent, LockOwner, Metadata, Payload, ProtectCode,
    Protection, RequestId, ReservationRequest, Speed, SubmitterId, Timestamp, TransitionName, TxState, U256, samples,
};

use super::Harness;
use super::fixtures::*;
use super::trace::history;
use crate::roles::{Accepted, CancelVerdict, NewIntent};
use crate::wake::{Wakeup, Wakeups};

pub(super) async fn accepted_intent_reads_back_unchanged(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let external = Payload::Reservation(ReservationRequest { lock_owner: LockOwner::new("me").unwrap(), hold_ms: 5 });
    let creation = samples::creation(Bytes::from_static(&[0, 1, 255]));
    let full = samples::full(Amount::new(U256::MAX), u128::MAX, (u64::MAX, U256::MAX));
    let new: Vec<_> = [full.into(), creation.into(), external]
        .into_iter()
        .enumerate()
        .map(|(n, payload)| NewIntent {
            id: fresh_id(),
            intent: Intent::restore(
                lane.clone(),
                RequestId::restore(&format!("Auftrag № {n} '\"\\ %_")),
                payload,
                Speed::ALL[n],
                (n == 0).then(|| Timestamp::from_micros(1_900_000_000_123_456)),
                (n != 1).then(|| Metadata::restore(r#"{"b": [1.50, "é\n"],  "a": null}"#.to_owned())),
            ),
        })
        .collect();
    assert_eq!(a.accept(&new).await.unwrap(), vec![Accepted::New; 3]);
    for new in &new {
        let tx = record(&b, new.id).await;
        assert_eq!((&tx.intent, &tx.state, tx.version), (&new.intent, &TxState::Queued, 1));
        assert_eq!(tx.created_at, tx.updated_at);
        assert_eq!(b.find_request(&lane, new.intent.request_id()).await.unwrap(), Some(new.id));
    }
}

pub(super) async fn new_intents_queue_in_order_given(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (one, two) = (lane(&a, 1).await, lane(&a, 2).await);
    // The request ids and the intent ids sort in another order than they are given.
    let new: Vec<_> = ["z", "a", "m"].iter().flat_map(|r| [new_intent(&one, r), new_intent(&two, r)]).rev().collect();
    assert_eq!(a.accept(&new).await.unwrap(), vec![Accepted::New; 6]);
    let late = accept(&b, &one, &["0"]).await;
    let mut seqs = Vec::new();
    for new in &new {
        seqs.push(record(&a, new.id).await.seq);
    }
    assert!(seqs.is_sorted(), "{seqs:?}");
    let queues = b.peek_queues(&[(one, 9), (two, 9)], &[]).await.unwrap();
    let requests = |n: usize| queues[n].iter().map(|tx| tx.intent.request_id().as_str()).collect::<Vec<_>>();
    assert_eq!((requests(0), requests(1)), (vec!["m", "a", "z", "0"], vec!["m", "a", "z"]));
    assert_eq!(queues[0][3].id, late[0]);
}

/// proves S11: the same request gets the same id, another payload gets a conflict
pub(super) async fn repeated_request_gets_first_id_or_conflict(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let first = accept(&a, &lane, &["r"]).await[0];
    let other = NewIntent { id: fresh_id(), intent: intent_with(&lane, "r", transfer(2)) };
    for node in [&a, &b] {
        let again = [new_intent(&lane, "r"), other.clone()];
        assert_eq!(node.accept(&again).await.unwrap(), [Accepted::Existing(first), Accepted::Conflict(first)]);
    }
    // The answer stays the same after the intent is bound.
    bind_next(&a, &lane).await;
    assert_eq!(b.accept(&[new_intent(&lane, "r")]).await.unwrap(), [Accepted::Existing(first)]);
    assert_eq!(b.get(&[other.id]).await.unwrap(), [None]);
    assert_eq!(history(&events(&a).await, first).len(), 2);
}

pub(super) async fn duplicates_in_one_batch_get_first_id(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let mut batch: Vec<_> = ["x", "r", "r", "y", "r"].iter().map(|request| new_intent(&lane, request)).collect();
    batch[4].intent = intent_with(&lane, "r", transfer(2));
    let first = batch[1].id;
    use Accepted::{Conflict, Existing, New};
    let expected = [New, New, Existing(first), New, Conflict(first)];
    assert_eq!(a.accept(&batch).await.unwrap(), expected);
    let queue = a.peek_queues(&[(lane, 9)], &[]).await.unwrap().remove(0);
    assert_eq!(queue.iter().map(|tx| tx.id).collect::<Vec<_>>(), [batch[0].id, first, batch[3].id]);
    // The call is repeated, as after an unknown outcome.
    let repeated = a.accept(&batch).await.unwrap();
    assert_eq!(repeated[..2], [Existing(batch[0].id), Existing(first)]);
    assert_eq!(repeated[2..], [Existing(first), Existing(batch[3].id), Conflict(first)]);
}

/// proves S11: the same request id a hundred times at once makes one row
pub(super) async fn concurrent_accepts_of_one_request_make_one_row(h: &dyn Harness) {
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(h.node(name).await);
    }
    let lane = lane(&nodes[0], 1).await;
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let (node, lane) = (nodes[n % 3].clone(), lane.clone());
            beside(async move {
                let new = new_intent(&lane, "order-42");
                (new.id, node.accept(&[new]).await.unwrap().remove(0))
            })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    let new: Vec<_> = answers.iter().filter(|(_, verdict)| *verdict == Accepted::New).map(|(id, _)| *id).collect();
    assert_eq!(new.len(), 1);
    assert_eq!(answers.iter().filter(|(_, verdict)| *verdict == Accepted::Existing(new[0])).count(), 99);
    let queue = nodes[1].peek_queues(&[(lane.clone(), 9)], &[]).await.unwrap().remove(0);
    assert_eq!(queue.iter().map(|tx| tx.id).collect::<Vec<_>>(), new);
    let other = NewIntent { id: fresh_id(), intent: intent_with(&lane, "order-42", transfer(2)) };
    assert_eq!(nodes[2].accept(&[other]).await.unwrap(), [Accepted::Conflict(new[0])]);
    assert_eq!(events(&nodes[0]).await.len(), 1);
}

pub(super) async fn request_id_of_two_submitters_is_two_intents(h: &dyn Harness) {
    let a = h.node("a").await;
    let (one, two) = (lane(&a, 1).await, lane(&a, 2).await);
    let batch = [new_intent(&one, "r"), new_intent(&two, "r")];
    assert_eq!(a.accept(&batch).await.unwrap(), [Accepted::New, Accepted::New]);
    assert_eq!(a.find_request(&one, &RequestId::restore("r")).await.unwrap(), Some(batch[0].id));
    assert_eq!(a.find_request(&two, &RequestId::restore("r")).await.unwrap(), Some(batch[1].id));
    assert_eq!(a.find_request(&two, &RequestId::restore("R")).await.unwrap(), None);
}

pub(super) async fn unknown_submitter_does_not_fail_other_intents(h: &dyn Harness) {
    let a = h.node("a").await;
    let (known, unknown) = (lane(&a, 1).await, submitter(2));
    let batch = [new_intent(&unknown, "r"), new_intent(&known, "r"), new_intent(&unknown, "s")];
    let verdicts = a.accept(&batch).await.unwrap();
    assert_eq!(verdicts, [Accepted::UnknownSubmitter, Accepted::New, Accepted::UnknownSubmitter]);
    assert_eq!(a.get(&[batch[0].id, batch[2].id]).await.unwrap(), [None, None]);
    register(&a, &[unknown]).await;
    assert_eq!(a.accept(&batch[..1]).await.unwrap(), [Accepted::New]);
}

pub(super) async fn protected_lane_rejects_new_and_answers_known_requests(h: &dyn Harness) {
    let a = h.node("a").await;
    let (lane, free) = (lane(&a, 1).await, lane(&a, 2).await);
    let old = accept(&a, &lane, &["old"]).await[0];
    let protection = Protection { code: ProtectCode::ExternalNonce, detail: text("count 7, expected 5") };
    let before = view(&a, &lane).await.cursor;
    commit_done(&a, &lane, |commit| {
        commit.protect(&before, protection.clone()).unwrap();
    })
    .await;
    let other = NewIntent { id: fresh_id(), intent: intent_with(&lane, "old", transfer(2)) };
    let batch = [new_intent(&lane, "new"), new_intent(&lane, "old"), other, new_intent(&free, "new")];
    use Accepted::{Conflict, Existing, New, Protected};
    assert_eq!(a.accept(&batch).await.unwrap(), [Protected(protection), Existing(old), Conflict(old), New]);
    assert_eq!(a.get(&[batch[0].id]).await.unwrap(), [None]);

    let protected = view(&a, &lane).await.cursor;
    commit_done(&a, &lane, |commit| {
        commit.unprotect(&protected, false, text("checked")).unwrap();
    })
    .await;
    assert_eq!(a.accept(&batch[..1]).await.unwrap(), [New]);
}

/// proves W08: a row that the database cannot hold, or that violates a unique key, fails alone
pub(super) async fn bad_intent_is_refused_alone(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let taken = accept(&a, &lane, &["taken"]).await[0];
    let good: Vec<_> = ["g0", "g1", "g2", "g3", "g4"].iter().map(|request| new_intent(&lane, request)).collect();
    let reused = NewIntent { id: taken, intent: intent(&lane, "reused") };
    let within = NewIntent { id: good[0].id, intent: intent(&lane, "within") };
    let batch = [
        good[0].clone(),
        with_metadata(&lane, "bad", "{\"cut\": "),
        good[1].clone(),
        reused,
        good[2].clone(),
        with_metadata(&lane, "nul", "\"\0\""),
        good[3].clone(),
        within,
        good[4].clone(),
    ];
    let verdicts = a.accept(&batch).await.unwrap();
    for (n, verdict) in verdicts.iter().enumerate() {
        match n % 2 {
            0 => assert_eq!(*verdict, Accepted::New, "row {n}"),
            _ => assert!(matches!(verdict, Accepted::Refused(_)), "row {n}: {verdict:?}"),
        }
    }
    let queue = a.peek_queues(&[(lane.clone(), 99)], &[]).await.unwrap().remove(0);
    let requests: Vec<_> = queue.iter().map(|tx| tx.intent.request_id().as_str()).collect();
    assert_eq!(requests, ["taken", "g0", "g1", "g2", "g3", "g4"]);
    assert_eq!(record(&a, taken).await.intent, intent(&lane, "taken"));
    assert_eq!(events(&a).await.len(), 6);
}

pub(super) async fn refused_intent_leaves_request_id_free(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let bad = with_metadata(&lane, "r", "no json");
    assert!(matches!(a.accept(&[bad]).await.unwrap()[0], Accepted::Refused(_)));
    assert_eq!(a.find_request(&lane, &RequestId::restore("r")).await.unwrap(), None);
    accept(&a, &lane, &["r"]).await;
}

fn with_metadata(lane: &SubmitterId, request: &str, json: &str) -> NewIntent {
    let metadata = Some(Metadata::restore(json.to_owned()));
    let request = RequestId::restore(request);
    let intent = Intent::restore(lane.clone(), request, transfer(1), Speed::Standard, None, metadata);
    NewIntent { id: fresh_id(), intent }
}

pub(super) async fn cancel_queued_cancels_only_queued_intents(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let holder = bound(&a, &lane, "bound").await.id;
    let ids = accept(&a, &lane, &["one", "two"]).await;
    use CancelVerdict::{Canceled, NotQueued, Unknown};
    let verdicts = b.cancel_queued(&[fresh_id(), ids[0], holder, ids[0]]).await.unwrap();
    assert_eq!(verdicts, [Unknown, Canceled, NotQueued, NotQueued]);
    assert_eq!(b.cancel_queued(&[ids[0]]).await.unwrap(), [NotQueued]);

    let canceled = record(&a, ids[0]).await;
    let end = TxState::Canceled(Cancellation::InQueue(CancelReason::User));
    assert_eq!((&canceled.state, canceled.version), (&end, 2));
    assert_eq!(view(&a, &lane).await.queue.iter().map(|tx| tx.id).collect::<Vec<_>>(), ids[1..]);
    let expected = [(1, EventKind::Accepted, TxState::Queued), (2, EventKind::Tx(TransitionName::CancelInQueue), end)];
    assert_eq!(history(&events(&a).await, ids[0]), expected);
}

pub(super) async fn accept_wakes_all_nodes(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let (mut own, mut other) = (a.wakeups(), b.wakeups());
    // The store may still be connecting its listener. Single wake-ups may be lost, so the call is repeated.
    let accepting = beside({
        let (a, lane) = (a.clone(), lane.clone());
        async move {
            loop {
                accept(&a, &lane, &[&fresh_id().to_string()]).await;
                for _ in 0..20 {
                    pause().await;
                }
            }
        }
    });
    soon("a wake-up on the same node", woken(&mut own, &lane)).await;
    soon("a wake-up on another node", woken(&mut other, &lane)).await;
    accepting.abort();
}

pub(super) async fn woken(wakeups: &mut Wakeups, lane: &SubmitterId) {
    while wakeups.next().await != Wakeup::Lane(lane.clone()) {}
}
