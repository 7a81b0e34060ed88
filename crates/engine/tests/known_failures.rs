//! Failures of other transaction managers (DESIGN §1, found by reading their code): each test makes the situation in
//! which one of them loses a transaction, sends one twice, or stops.
#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test panic too")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use gapless_chain::Reason;
use gapless_domain::{AttemptKind, LaneState, SignedTx, StateName, SubmitterId};
use gapless_engine::{FaultPoint, FaultPoints};
use gapless_sim::testing::{ScriptedChain, ScriptedSend};
use gapless_store::Store;
use support::{World, get, nonces, until_all};

const A_WHILE: Duration = Duration::from_secs(60);

/// engine-core: a receipt RPC error requeues a transaction at a new nonce.
#[tokio::test(start_paused = true)]
async fn receipt_error_keeps_the_nonce() {
    let world = World::new(1).await;
    let node = world.node("a");
    world.chain.script(|script| (script.no_block_receipts, script.null_receipts) = (true, true));
    let ids = node.submit(&world.lanes[0], 0..1).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(get(&node.store, ids[0]).await.state.name(), StateName::Tracking);
    assert_eq!(nonces(&node.store, &ids).await, [0]);
    world.chain.script(|script| (script.no_block_receipts, script.null_receipts) = (false, false));
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!((nonces(&node.store, &ids).await, world.chain.mined(&world.lanes[0]).len()), (vec![0], 1));
}

/// engine-core: a send time-out recycles the nonce and forgets the hash.
#[tokio::test(start_paused = true)]
async fn send_timeout_keeps_nonce_and_hash() {
    let world = World::without_blocks(1).await.window(2);
    let node = world.node("a");
    world.chain.script(|script| script.sends.extend([ScriptedSend::TimeOutAfterAccepting, ScriptedSend::TimeOut]));
    let ids = node.submit(&world.lanes[0], 0..2).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = nonces(&node.store, &ids).await;
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!((before.clone(), nonces(&node.store, &ids).await), (vec![0, 1], before));
    for id in &ids {
        assert_eq!(node.store.attempts(*id).await.unwrap().len(), 1, "one attempt: the first bytes");
    }
}

/// Compares every send with the store at the moment of the send.
#[derive(Debug)]
struct SendAudit {
    chain: Arc<ScriptedChain>,
    store: Arc<dyn Store>,
    lane: SubmitterId,
    unknown: AtomicUsize,
}

impl FaultPoints for SendAudit {
    fn reach(&self, point: FaultPoint) {
        if point == FaultPoint::AfterBroadcast {
            let slots = self.store.open_slots(&self.lane, None, 100).now_or_never().unwrap().unwrap();
            let stored = |sent: &SignedTx| {
                let mut attempts = slots.iter().flat_map(|slot| &slot.attempts);
                attempts.any(|attempt| attempt.hash == sent.hash && attempt.raw == sent.raw)
            };
            let unknown = self.chain.sends().iter().filter(|sent| !stored(sent)).count();
            self.unknown.fetch_add(unknown, Ordering::SeqCst);
        }
    }
}

/// OpenZeppelin Relayer: the bumped hash is broadcast before it is stored.
#[tokio::test(start_paused = true)]
async fn replacement_is_stored_before_it_is_broadcast() {
    let world = World::without_blocks(1).await;
    let (store, lane) = (world.store("a"), world.lanes[0].clone());
    let (chain, unknown) = (Arc::clone(&world.chain), AtomicUsize::new(0));
    let seen = Arc::new(SendAudit { chain, store: Arc::clone(&store), lane, unknown });
    let node = world.node_with(store, Arc::<SendAudit>::clone(&seen));
    // The endpoint asks for a higher price, and then rejects the transaction: the lane makes more attempts at the
    // nonce.
    let answers = [
        ScriptedSend::Refused(Reason::FeeTooLow, "transaction underpriced"),
        ScriptedSend::Refused(Reason::GasTooLow, "intrinsic gas too low"),
    ];
    world.chain.script(|script| script.sends.extend(answers));
    let ids = node.submit(&world.lanes[0], 0..1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let stored = node.store.attempts(ids[0]).await.unwrap();
    assert_eq!(stored.last().unwrap().kind, AttemptKind::Cancel);
    assert!(world.chain.sends().len() > 2);
    assert_eq!(seen.unknown.load(Ordering::SeqCst), 0);
}

/// OpenZeppelin Relayer: "replacement transaction underpriced" counts as our own success.
#[tokio::test(start_paused = true)]
async fn replacement_underpriced_is_no_success() {
    let world = World::without_blocks(1).await;
    let node = world.node("a");
    let refusals =
        vec![ScriptedSend::Refused(Reason::ReplacementUnderpriced, "replacement transaction underpriced"); 3];
    world.chain.script(|script| script.sends.extend(refusals));
    let ids = node.submit(&world.lanes[0], 0..1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(get(&node.store, ids[0]).await.state.name(), StateName::Allocated, "no endpoint has acknowledged it");
    let outcome = node.store.attempts(ids[0]).await.unwrap()[0].last_outcome.clone().unwrap().0;
    assert_eq!(outcome.as_str(), "replacement_underpriced");
}

/// Biconomy, rrelayer: the nonce counter lives in memory.
#[tokio::test(start_paused = true)]
async fn nonce_counter_survives_a_crash() {
    let world = World::without_blocks(1).await.window(4);
    let first = world.node("a");
    let ids = first.submit(&world.lanes[0], 0..3).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The pools forget the transactions, and the process dies: only the ledger has the nonces.
    world.chain.script(|script| script.empty_blocks = true);
    world.chain.forget_pool();
    drop(first);
    tokio::time::sleep(Duration::from_secs(15)).await;
    let second = world.node("b");
    let more = second.submit(&world.lanes[0], 3..5).await;
    world.chain.script(|script| script.empty_blocks = false);
    world.chain.mine_every(Duration::from_secs(1));
    let all = [ids, more].concat();
    until_all(&second.store, &all, StateName::Confirmed, Duration::from_secs(180)).await;
    assert_eq!(nonces(&second.store, &all).await, [0, 1, 2, 3, 4]);
}

/// FireFly, OpenZeppelin Relayer: `max(chain, local)` jumps forward silently.
#[tokio::test(start_paused = true)]
async fn larger_chain_count_is_not_adopted_silently() {
    let world = World::new(1).await;
    let (node, lane) = (world.node("a"), &world.lanes[0]);
    let ids = node.submit(lane, 0..1).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    world.chain.foreign(lane, 1);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let next = node.submit(lane, 1..2).await;
    tokio::time::sleep(A_WHILE).await;
    let status = node.store.lane_status(std::slice::from_ref(lane)).await.unwrap().remove(0).unwrap();
    let cursor = status.cursor.unwrap();
    assert!(matches!(cursor.state, LaneState::Protect(_)), "{cursor:?}");
    assert_eq!((cursor.next_nonce.get(), get(&node.store, next[0]).await.state.name()), (1, StateName::Queued));
}

/// rrelayer: only the last hash is tracked.
#[tokio::test(start_paused = true)]
async fn earlier_hash_that_is_mined_completes_the_intent() {
    let world = World::without_blocks(1).await;
    let node = world.node("a");
    // The original is pooled and reported as rejected. The lane signs a cancel, and the original is mined.
    let refused = [ScriptedSend::AcceptedButRefused(Reason::GasTooLow, "intrinsic gas too low"), ScriptedSend::TimeOut];
    world.chain.script(|script| script.sends.extend(refused));
    let ids = node.submit(&world.lanes[0], 0..1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(node.store.attempts(ids[0]).await.unwrap().len(), 2);
    world.chain.mine();
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    let first = node.store.attempts(ids[0]).await.unwrap()[0].hash;
    assert_eq!(world.chain.mined(&world.lanes[0]), [(0, first)]);
}
