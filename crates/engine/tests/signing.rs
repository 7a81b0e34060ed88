//! Signers that hang, are slow, or fail for one transaction.
#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test panic too")]

#[allow(dead_code, reason = "not every test file uses all of it")]
mod support;

use std::time::Duration;

use gapless_domain::{FailReason, FinalFailure, StateName, TxState};
use gapless_engine::EngineOptions;
use gapless_signer::{SignerError, SigningLimits};
use support::{World, get, nonces, until_all};

const A_WHILE: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

/// The owner of the first lane's valid lease.
async fn owner(world: &World) -> Option<String> {
    let status = world.store("look").lane_status(&world.lanes[..1]).await.unwrap().remove(0).unwrap();
    status.lease.filter(|lease| lease.valid).map(|lease| lease.owner.to_string())
}

fn signing(limits: SigningLimits) -> EngineOptions {
    EngineOptions { signing: limits, ..EngineOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn hanging_signer_leaves_the_lane_to_another_node() {
    let world = World::new(1).await.window(16);
    let hanging = world.signer();
    hanging.script(|script| script.hangs = true);
    let first = world.node_signing("a", EngineOptions::default(), hanging.clone());
    let ids = first.submit(&world.lanes[0], 0..5).await;
    tokio::time::sleep(3 * SECOND).await;
    assert!(owner(&world).await.unwrap().starts_with("a/"));
    assert_eq!(hanging.calls().len(), 1, "the whole window is one call");
    // The second node has a signer that answers. It starts late, so that the first node has the lane.
    let second = world.node_signing("b", EngineOptions::default(), world.signer());
    tokio::time::sleep(11 * SECOND).await;
    assert!(owner(&world).await.unwrap().starts_with("b/"), "the lease did not have to expire");
    until_all(&second.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&second.store, &ids).await, [0, 1, 2, 3, 4]);
    assert_eq!(world.chain.sends().len(), 5, "nothing was signed or sent twice");
}

#[tokio::test(start_paused = true)]
async fn hanging_signer_of_the_only_node_is_asked_again() {
    let world = World::new(1).await;
    let signer = world.signer();
    signer.script(|script| script.hangs = true);
    let node = world.node_signing("a", EngineOptions::default(), signer.clone());
    let ids = node.submit(&world.lanes[0], 0..3).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let states: Vec<StateName> =
        node.store.get(&ids).await.unwrap().iter().flatten().map(|tx| tx.state.name()).collect();
    assert_eq!(states, [StateName::Queued; 3], "the intents stay queued");
    assert_eq!(world.chain.sends(), []);
    let calls = signer.calls().len();
    assert!((5..=10).contains(&calls), "{calls} calls in a minute");
    signer.script(|script| script.hangs = false);
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
}

#[tokio::test(start_paused = true)]
async fn failing_signer_leaves_the_lane_to_another_node() {
    let world = World::new(1).await.window(16);
    let failing = world.signer();
    failing.script(|script| script.fails = true);
    let first = world.node_signing("a", EngineOptions::default(), failing.clone());
    let ids = first.submit(&world.lanes[0], 0..5).await;
    tokio::time::sleep(3 * SECOND).await;
    assert!(owner(&world).await.unwrap().starts_with("a/"));
    let second = world.node_signing("b", EngineOptions::default(), world.signer());
    tokio::time::sleep(15 * SECOND).await;
    assert!(owner(&world).await.unwrap().starts_with("b/"), "{} calls failed", failing.calls().len());
    until_all(&second.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&second.store, &ids).await, [0, 1, 2, 3, 4]);
}

/// The number of seconds in which the lane had an owner, and the number of changes from one node to another.
async fn owned_and_moved(world: &World, seconds: u64) -> (u64, u64) {
    let (mut owned, mut moved) = (0, 0);
    let mut last = None;
    for _ in 0..seconds {
        tokio::time::sleep(SECOND).await;
        let Some(name) = owner(world).await else { continue };
        owned += 1;
        moved += u64::from(last.replace(name.clone()).is_some_and(|last| last != name));
    }
    (owned, moved)
}

#[tokio::test(start_paused = true)]
async fn only_node_goes_on_with_a_failing_signer() {
    let world = World::new(1).await;
    let signer = world.signer();
    let node = world.node_signing("a", EngineOptions::default(), signer.clone());
    let first = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &first, StateName::Confirmed, A_WHILE).await;
    signer.script(|script| script.fails = true);
    let ids = node.submit(&world.lanes[0], 1..4).await;
    let before = signer.calls().len();
    let (owned, _) = owned_and_moved(&world, 600).await;
    let calls = signer.calls().len() - before;
    assert!((40..=120).contains(&calls), "{calls} calls in 10 minutes");
    assert!(owned >= 540, "the lane had an owner in {owned} of 600 seconds");
    signer.script(|script| script.fails = false);
    until_all(&node.store, &ids, StateName::Confirmed, 2 * A_WHILE).await;
    assert_eq!(nonces(&node.store, &ids).await, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn lane_moves_ever_less_between_failing_signers() {
    for hangs in [true, false] {
        let world = World::new(1).await;
        let signers = [world.signer(), world.signer()];
        signers.iter().for_each(|signer| signer.script(|script| (script.hangs, script.fails) = (hangs, !hangs)));
        let first = world.node_signing("a", EngineOptions::default(), signers[0].clone());
        let _second = world.node_signing("b", EngineOptions::default(), signers[1].clone());
        let ids = first.submit(&world.lanes[0], 0..2).await;
        let (_, early) = owned_and_moved(&world, 60).await;
        let (owned, moved) = owned_and_moved(&world, 600).await;
        assert!(early >= 2, "hangs {hangs}: moved {early} times in the first minute");
        assert!((5..=16).contains(&moved), "hangs {hangs}: moved {moved} times in 10 minutes");
        assert!(owned >= 560, "hangs {hangs}: the lane had an owner in {owned} of 600 seconds");
        signers[1].script(|script| (script.hangs, script.fails) = (false, false));
        until_all(&first.store, &ids, StateName::Confirmed, 4 * A_WHILE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn batch_slower_than_the_timeout_is_shortened() {
    let world = World::new(1).await.window(64);
    let signer = world.signer();
    signer.script(|script| script.latency_each = SECOND);
    let node = world.node_signing("a", EngineOptions::default(), signer.clone());
    let ids = node.submit(&world.lanes[0], 0..32).await;
    until_all(&node.store, &ids, StateName::Confirmed, 10 * A_WHILE).await;
    let calls = signer.calls();
    assert_eq!(calls[..4], [32, 16, 8, 4], "{calls:?}");
    assert!(calls[4..].iter().all(|call| *call <= 8), "{calls:?}");
    // The service is faster again, and the batches are longer again.
    signer.script(|script| script.latency_each = Duration::ZERO);
    for round in 1..8 {
        let ids = node.submit(&world.lanes[0], 32 * round..32 * (round + 1)).await;
        until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    }
    assert_eq!(signer.calls().last(), Some(&32));
}

/// The first batch is too long. The next one, of half its length, is signed before the lane would be handed over.
#[tokio::test(start_paused = true)]
async fn lane_with_a_slow_signer_stays_and_signs_less() {
    let world = World::new(1).await.window(16);
    let signer = world.signer();
    signer.script(|script| script.latency_each = SECOND);
    let node = world.node_signing("a", EngineOptions::default(), signer.clone());
    let ids = node.submit(&world.lanes[0], 0..8).await;
    tokio::time::sleep(SECOND).await;
    let lease = world.store("look").lane_status(&world.lanes[..1]).await.unwrap().remove(0).unwrap().lease;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    let after = world.store("look").lane_status(&world.lanes[..1]).await.unwrap().remove(0).unwrap().lease;
    assert_eq!(signer.calls()[..2], [8, 4]);
    assert_eq!(after.unwrap().token, lease.unwrap().token, "the lane was never released");
}

/// The lane ends its first run after a failure, because its only intent is canceled. Its next run is much later.
#[tokio::test(start_paused = true)]
async fn time_before_a_handover_begins_with_each_run() {
    let world = World::new(1).await;
    let signer = world.signer();
    signer.script(|script| script.fails = true);
    let node = world.node_signing("a", EngineOptions::default(), signer.clone());
    let ids = node.submit(&world.lanes[0], 0..1).await;
    tokio::time::sleep(SECOND).await;
    node.store.cancel_queued(&ids).await.unwrap();
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(owner(&world).await, None);
    let calls = signer.calls().len();
    node.submit(&world.lanes[0], 1..2).await;
    for _ in 0..14 {
        tokio::time::sleep(SECOND).await;
        assert!(owner(&world).await.is_some(), "the lane is kept for twice as long in its second run");
    }
    assert!(signer.calls().len() > calls);
    let (owned, _) = owned_and_moved(&world, 20).await;
    assert!(owned < 20, "the lane was not handed over");
}

/// The calls of the first node end after their time-out, when the second node has bound the nonces.
/// proves S01
#[tokio::test(start_paused = true)]
async fn late_signatures_are_dropped_and_never_bound() {
    let world = World::new(1).await.window(16);
    let slow = world.signer();
    slow.script(|script| script.latency = 6 * SECOND);
    let first = world.node_signing("a", EngineOptions::default(), slow.clone());
    let ids = first.submit(&world.lanes[0], 0..3).await;
    tokio::time::sleep(Duration::from_secs(11) + Duration::from_millis(500)).await;
    assert_eq!(owner(&world).await, None, "the lane is released at the second time-out");
    tokio::time::sleep(SECOND).await;
    assert_eq!(slow.calls(), [3, 1], "both calls would have ended by now");
    let states: Vec<StateName> =
        first.store.get(&ids).await.unwrap().iter().flatten().map(|tx| tx.state.name()).collect();
    assert_eq!(states, [StateName::Queued; 3]);
    assert_eq!(world.chain.sends(), []);
    let second = world.node_signing("b", EngineOptions::default(), world.signer());
    until_all(&second.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&second.store, &ids).await, [0, 1, 2]);
    assert_eq!(world.chain.sends().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn refused_transaction_fails_alone() {
    let world = World::new(1).await.window(16);
    let signer = world.signer();
    let node = world.node_signing("a", EngineOptions::default(), signer.clone());
    signer.script(|script| {
        // The second nonce of the first batch.
        script.failures.push_back((" nonce=1 ".to_owned(), SignerError::Refused("by a rule".to_owned())));
    });
    let ids = node.submit(&world.lanes[0], 0..5).await;
    let others = [&ids[..1], &ids[2..]].concat();
    until_all(&node.store, &others, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&node.store, &others).await, [0, 1, 2, 3], "no nonce is left out");
    let state = get(&node.store, ids[1]).await.state;
    assert!(matches!(state, TxState::FailedFinal(FinalFailure::Unbound(FailReason::InvalidPayload, _))), "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn unavailable_transaction_is_signed_later() {
    let world = World::new(1).await.window(16);
    let signer = world.signer();
    let node = world.node_signing("a", EngineOptions::default(), signer.clone());
    signer.script(|script| {
        script.failures.push_back((" nonce=2 ".to_owned(), SignerError::Unavailable("overloaded".to_owned())));
    });
    let ids = node.submit(&world.lanes[0], 0..5).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&node.store, &ids).await, [0, 1, 2, 3, 4]);
    assert!(owner(&world).await.is_some(), "the lane keeps its lease");
}

#[tokio::test(start_paused = true)]
async fn batch_of_a_lane_is_one_call() {
    let world = World::new(1).await.window(16);
    let signer = world.signer();
    let node = world.node_signing("a", EngineOptions::default(), signer.clone());
    let ids = node.submit(&world.lanes[0], 0..16).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(signer.calls(), [16]);
}

#[tokio::test(start_paused = true)]
async fn many_lanes_sign_at_once_within_the_bound() {
    let world = World::new(12).await;
    let signer = world.signer();
    signer.script(|script| script.latency = SECOND);
    let limits = SigningLimits { concurrency: 4, ..SigningLimits::default() };
    let node = world.node_signing("a", signing(limits), signer.clone());
    let mut ids = Vec::new();
    for lane in &world.lanes {
        ids.extend(node.submit(lane, 0..1).await);
    }
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(signer.most_running(), 4);
    assert_eq!(signer.calls().len(), 12);
}

/// Only one of the lanes has a call at a time. The others wait for a place, and must not wait for ever.
#[tokio::test(start_paused = true)]
async fn lanes_that_wait_for_a_hanging_signer_move_too() {
    let world = World::new(10).await;
    let hanging = world.signer();
    hanging.script(|script| script.hangs = true);
    let limits = SigningLimits { concurrency: 1, ..SigningLimits::default() };
    let first = world.node_signing("a", signing(limits), hanging.clone());
    let mut ids = Vec::new();
    for lane in &world.lanes {
        ids.extend(first.submit(lane, 0..2).await);
    }
    tokio::time::sleep(SECOND).await;
    assert_eq!(hanging.calls().len(), 1);
    let second = world.node_signing("b", EngineOptions::default(), world.signer());
    until_all(&second.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(world.chain.sends().len(), ids.len());
}

#[tokio::test(start_paused = true)]
async fn drain_with_a_hanging_signer_releases_the_lease() {
    let world = World::new(1).await;
    let signer = world.signer();
    signer.script(|script| script.hangs = true);
    let node = world.node_signing("a", EngineOptions::default(), signer.clone());
    node.submit(&world.lanes[0], 0..1).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(signer.calls().len(), 1);
    let drained = tokio::time::timeout(5 * SECOND, node.engine.drain()).await;
    assert!(drained.is_ok(), "the drain still waits for the signer");
    assert_eq!(owner(&world).await, None);
}
