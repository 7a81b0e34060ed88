//! The queue: intents in order of acceptance.

use gapless_domain::{FailReason, FinalFailure, Transition, TxState};

use super::Harness;
use super::fixtures::*;

pub(super) async fn peek_returns_first_of_queue_up_to_limit(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (one, two) = (lane(&a, 1).await, lane(&a, 2).await);
    let ids = accept(&a, &one, &["d", "c", "b", "a"]).await;
    let asked = [(two.clone(), 5), (one.clone(), 3), (one.clone(), 0), (submitter(3), 5)];
    let queues = b.peek_queues(&asked, &[]).await.unwrap();
    assert_eq!(queues.iter().map(Vec::len).collect::<Vec<_>>(), [0, 3, 0, 0]);
    assert_eq!(queues[1].iter().map(|tx| tx.id).collect::<Vec<_>>(), ids[..3]);
    let without = b.peek_queues(&[(one.clone(), 2)], &[ids[2], ids[0]]).await.unwrap().remove(0);
    assert_eq!(without.iter().map(|tx| tx.id).collect::<Vec<_>>(), [ids[1], ids[3]], "skipped intents are not counted");
    b.cancel_queued(&[ids[1]]).await.unwrap();
    bind_next(&a, &one).await;
    let queue = b.peek_queues(&[(one, 9)], &[]).await.unwrap().remove(0);
    assert_eq!(queue.iter().map(|tx| tx.id).collect::<Vec<_>>(), ids[2..]);
}

pub(super) async fn intent_that_lost_nonce_keeps_queue_position(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let ids = accept(&a, &lane, &["0", "1", "2", "3"]).await;
    for _ in 0..3 {
        bind_next(&a, &lane).await;
    }
    let before = record(&a, ids[1]).await;
    let lost = change(&a, &lane, ids[1], Transition::LoseNonce).await;
    assert_eq!((&lost.state, lost.seq, lost.version), (&TxState::Queued, before.seq, 3));
    let seen = view(&a, &lane).await;
    assert_eq!(seen.queue.iter().map(|tx| tx.id).collect::<Vec<_>>(), [ids[1], ids[3]]);
    assert_eq!(seen.lane.bound.iter().map(|tx| tx.id).collect::<Vec<_>>(), [ids[0], ids[2]]);
    assert_eq!(seen.lane.slots.len(), 3, "the old slot stays bound to the intent");
    let again = bind_next(&a, &lane).await;
    assert_eq!((again.id, again.state.nonce()), (ids[1], Some(nonce(3))));
}

pub(super) async fn failure_in_queue_takes_no_nonce(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let ids = accept(&a, &lane, &["0", "1"]).await;
    let reason = Transition::FailInQueue(FailReason::SimulationReverted, text("no"));
    let failed = change(&a, &lane, ids[0], reason).await;
    assert_eq!(failed.state, TxState::FailedFinal(FinalFailure::Unbound(FailReason::SimulationReverted, text("no"))));
    let seen = view(&a, &lane).await;
    assert_eq!((seen.lane.cursor, seen.lane.slots.len()), (None, 0));
    assert_eq!(bind_next(&a, &lane).await.state.nonce(), Some(nonce(0)));
}
