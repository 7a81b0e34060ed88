//! The life of an intent: whole engines on the model store and the simulator's chain.
#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test panic too")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use gapless_chain::Reason;
use gapless_domain::{
    Cancellation, CommandKind, FailReason, FinalFailure, LaneState, NewCommand, ProtectCode, StateName, SubmitterId,
    TxState,
};
use gapless_sim::testing::ScriptedSend;
use gapless_store::Store;
use gapless_store::conformance::fixtures::{intent, text};
use support::{World, get, nonces, until_all};

const A_WHILE: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn intent_is_sent_once_and_confirmed() {
    let world = World::new(1).await;
    let node = world.node("a");
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(world.chain.mined(&world.lanes[0]).len(), 1);
    assert_eq!(world.chain.sends().len(), 1, "sent once");
}

/// proves N11, N12
#[tokio::test(start_paused = true)]
async fn strict_lane_binds_one_by_one_in_order() {
    let world = World::new(1).await;
    let node = world.node("a");
    let ids = node.submit(&world.lanes[0], 0..20).await;
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(120)).await;
    assert_eq!(nonces(&node.store, &ids).await, (0..20).collect::<Vec<_>>());
    let attempts: Vec<_> = futures_util::future::join_all(ids.iter().map(|id| node.store.attempts(*id))).await;
    let bound: Vec<_> = attempts.into_iter().map(|attempts| attempts.unwrap()[0].created_at).collect();
    for (before, after) in ids.iter().zip(&bound[1..]) {
        let TxState::Confirmed(settled) = get(&node.store, *before).await.state else { panic!("not confirmed") };
        // Block n is mined n seconds after the start.
        let mined_at = 1_900_000_000_000_000 + i64::try_from(settled.inclusion.block.number).unwrap() * 1_000_000;
        assert!(after.as_micros() >= mined_at, "bound before the nonce below was mined");
    }
}

/// proves N13
#[tokio::test(start_paused = true)]
async fn window_is_filled_and_not_exceeded() {
    let world = World::without_blocks(1).await.window(8);
    let node = world.node("a");
    let ids = node.submit(&world.lanes[0], 0..20).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.chain.sends().len(), 8, "the window is full, and no block is mined");
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&node.store, &ids).await, (0..20).collect::<Vec<_>>());
    assert_eq!(world.chain.sends().len(), 20);
}

/// proves S04
#[tokio::test(start_paused = true)]
async fn send_timeout_keeps_nonce_and_bytes() {
    let world = World::new(1).await;
    let node = world.node("a");
    world.chain.script(|script| {
        script.sends.extend([
            ScriptedSend::TimeOut,
            ScriptedSend::TimeOut,
            ScriptedSend::Refused(Reason::Unrecognized, "what is this"),
        ])
    });
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    let sends = world.chain.sends();
    assert_eq!(sends.len(), 4);
    assert!(sends.iter().all(|send| *send == sends[0]), "always the same bytes");
}

/// proves S06
#[tokio::test(start_paused = true)]
async fn accepted_send_with_lost_answer_is_found_on_chain() {
    let world = World::without_blocks(1).await;
    let node = world.node("a");
    world.chain.script(|script| script.sends.push_back(ScriptedSend::TimeOutAfterAccepting));
    let ids = node.submit(&world.lanes[0], 0..1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(get(&node.store, ids[0]).await.state.name(), StateName::Allocated);
    // The block is mined before the second send, whose answer is then "nonce too low".
    world.chain.mine();
    world.chain.mine_every(Duration::from_secs(10));
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(60)).await;
}

/// proves N09, S19
#[tokio::test(start_paused = true)]
async fn simulation_revert_fails_without_a_nonce() {
    let world = World::new(1).await;
    let node = world.node("a");
    world.chain.script(|script| script.estimate_reverts = true);
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::FailedFinal, A_WHILE).await;
    let TxState::FailedFinal(FinalFailure::Unbound(reason, _)) = get(&node.store, ids[0]).await.state else { panic!() };
    assert_eq!(reason, FailReason::SimulationReverted);
    world.chain.script(|script| script.estimate_reverts = false);
    let next = node.submit(&world.lanes[0], 1..2).await;
    until_all(&node.store, &next, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&node.store, &next).await, [0], "the failed intent used no nonce");
}

/// proves N09
#[tokio::test(start_paused = true)]
async fn unfunded_lane_binds_nothing_until_funded() {
    let world = World::new(1).await;
    let node = world.node("a");
    world.chain.script(|script| script.balance = Some(1000));
    let ids = node.submit(&world.lanes[0], 0..1).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(get(&node.store, ids[0]).await.state, TxState::Queued);
    assert!(world.chain.sends().is_empty());
    world.chain.script(|script| script.balance = None);
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
}

/// proves O02
#[tokio::test(start_paused = true)]
async fn unreachable_rpc_stops_lanes_but_not_intake() {
    let world = World::new(1).await.window(4);
    let node = world.node("a");
    let first = node.submit(&world.lanes[0], 0..2).await;
    until_all(&node.store, &first, StateName::Tracking, A_WHILE).await;
    world.chain.script(|script| script.unreachable = true);
    let second = node.submit(&world.lanes[0], 2..6).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.chain.script(|script| script.unreachable = false);
    let all = [first, second].concat();
    until_all(&node.store, &all, StateName::Confirmed, Duration::from_secs(120)).await;
    assert_eq!(nonces(&node.store, &all).await, [0, 1, 2, 3, 4, 5]);
}

/// proves R05
#[tokio::test(start_paused = true)]
async fn reorged_out_transaction_is_sent_again() {
    let world = World::without_blocks(1).await;
    let node = world.node("a");
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
    world.chain.mine();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mined = get(&node.store, ids[0]).await;
    assert_eq!(mined.state.sub_state().unwrap().as_str(), "MINED");
    world.chain.reorg(1, false);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let back = get(&node.store, ids[0]).await;
    assert_eq!((back.state.name(), back.state.sub_state().unwrap().as_str()), (StateName::Tracking, "PENDING"));
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(world.chain.mined(&world.lanes[0]).len(), 1);
}

/// proves S05
#[tokio::test(start_paused = true)]
async fn null_receipts_change_no_state() {
    let world = World::without_blocks(1).await;
    let node = world.node("a");
    world.chain.script(|script| script.null_receipts = true);
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
    drop(node);
    tokio::time::sleep(Duration::from_secs(20)).await;
    // The next owner looks every hash up, and finds none.
    let other = world.node("b");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let waiting = get(&other.store, ids[0]).await;
    assert_eq!((waiting.state.name(), waiting.state.nonce().map(|n| n.get())), (StateName::Tracking, Some(0)));
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&other.store, &ids, StateName::Confirmed, A_WHILE).await;
}

/// A node dies with intents at every stage. Another node goes on with the same bytes.
/// proves S03, N20
#[tokio::test(start_paused = true)]
async fn takeover_finishes_intents_with_the_same_bytes() {
    let world = World::new(3).await.window(3);
    let a = world.node("a");
    let mut ids = Vec::new();
    for lane in &world.lanes {
        ids.extend(a.submit(lane, 0..10).await);
    }
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let sent_before = world.chain.sends();
    drop(a);
    let b = world.node("b");
    until_all(&b.store, &ids, StateName::Confirmed, Duration::from_secs(120)).await;
    for lane in &world.lanes {
        let mined: Vec<u64> = world.chain.mined(lane).into_iter().map(|(nonce, _)| nonce).collect();
        assert_eq!(mined, (0..10).collect::<Vec<_>>());
    }
    let mined: std::collections::HashSet<_> =
        world.lanes.iter().flat_map(|lane| world.chain.mined(lane)).map(|(_, hash)| hash).collect();
    assert!(
        sent_before.iter().all(|sent| mined.contains(&sent.hash)),
        "every sent transaction is mined: no intent was signed again"
    );
}

/// proves N21
#[tokio::test(start_paused = true)]
async fn drained_node_hands_its_lane_over_at_once() {
    let world = World::without_blocks(1).await;
    let a = world.node("a");
    let b = world.node("b");
    let ids = a.submit(&world.lanes[0], 0..3).await;
    until_all(&a.store, &ids[..1], StateName::Tracking, A_WHILE).await;
    let owner = async |node: &support::Node| {
        let status = node.store.lane_status(&world.lanes[..1]).await.unwrap().remove(0).unwrap();
        status.lease.filter(|lease| lease.valid).map(|lease| lease.owner.to_string())
    };
    assert!(owner(&b).await.unwrap().starts_with("a/"));
    a.engine.drain().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(owner(&b).await.unwrap().starts_with("b/"), "the other node has the lane within a second");
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&b.store, &ids, StateName::Confirmed, A_WHILE).await;
}

/// proves N20
#[tokio::test(start_paused = true)]
async fn intent_that_arrives_as_the_lane_goes_idle_is_noticed() {
    let world = World::new(1).await;
    let node = world.node("a");
    let lane = &world.lanes[0];
    // Submits around the moment at which the lane releases its lease, in small steps.
    for round in 0..60_u64 {
        let ids = node.submit(lane, round..round + 1).await;
        until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
        tokio::time::sleep(Duration::from_millis(4700 + round * 10)).await;
    }
}

/// proves N19
#[tokio::test(start_paused = true)]
async fn submitter_with_history_is_protected() {
    let world = World::new(2).await;
    world.chain.foreign(&world.lanes[0], 0);
    world.chain.mine();
    let node = world.node("a");
    let ids = node.submit(&world.lanes[0], 0..1).await;
    let fresh = node.submit(&world.lanes[1], 0..1).await;
    until_all(&node.store, &fresh, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&node.store, &fresh).await, [0]);
    assert_eq!(get(&node.store, ids[0]).await.state, TxState::Queued);
    let status = node.store.lane_status(&world.lanes[..1]).await.unwrap().remove(0).unwrap();
    let LaneState::Protect(protection) = status.cursor.unwrap().state else { panic!("not protected") };
    assert_eq!(protection.code, ProtectCode::HistoryWithoutStart);
}

/// Another user of the key sends a transaction while the lane is idle.
/// proves N16
#[tokio::test(start_paused = true)]
async fn chain_count_ahead_of_ledger_protects() {
    let world = World::new(1).await;
    let node = world.node("a");
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    world.chain.foreign(&world.lanes[0], 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let next = node.submit(&world.lanes[0], 1..2).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let status = node.store.lane_status(&world.lanes[..1]).await.unwrap().remove(0).unwrap();
    assert!(status.cursor.unwrap().is_protected());
    assert_eq!(get(&node.store, next[0]).await.state, TxState::Queued);
}

#[tokio::test(start_paused = true)]
async fn paused_lane_binds_nothing_until_resumed() {
    let world = World::new(1).await;
    let node = world.node("a");
    let lane = world.lanes[0].clone();
    let command = |kind| NewCommand { submitter: lane.clone(), kind, issued_by: text("me") };
    node.store.put_commands(&[command(CommandKind::Pause)]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let ids = node.submit(&lane, 0..2).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(get(&node.store, ids[0]).await.state, TxState::Queued);
    node.store.put_commands(&[command(CommandKind::Resume)]).await.unwrap();
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
}

/// proves S20
#[tokio::test(start_paused = true)]
async fn rejected_intent_is_canceled_at_its_own_nonce() {
    let world = World::new(1).await;
    let node = world.node("a");
    world.chain.script(|script| {
        script
            .sends
            .push_back(ScriptedSend::Refused(Reason::GasTooLow, "intrinsic gas too low: gas 0, minimum needed 21000"))
    });
    let ids = node.submit(&world.lanes[0], 0..2).await;
    until_all(&node.store, &ids[..1], StateName::Canceled, A_WHILE).await;
    until_all(&node.store, &ids[1..], StateName::Confirmed, A_WHILE).await;
    let TxState::Canceled(Cancellation::OnChain(reason, settled)) = get(&node.store, ids[0]).await.state else {
        panic!()
    };
    assert_eq!((reason.as_str(), settled.nonce.get()), ("rejected", 0));
    assert_eq!(nonces(&node.store, &ids).await, [0, 1]);
}

/// proves S21
#[tokio::test(start_paused = true)]
async fn equal_payloads_are_two_transactions() {
    let world = World::new(1).await;
    let node = world.node("a");
    let lane = &world.lanes[0];
    let ids = node.accept(vec![intent(lane, "one"), intent(lane, "other")]).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(world.chain.mined(lane).len(), 2);
}

/// Before batches, 1,000 intents cost 1,000 requests for estimates.
#[tokio::test(start_paused = true)]
async fn estimates_of_one_batch_are_one_request() {
    let world = World::new(1).await.window(64);
    let node = world.node("a");
    let lane = &world.lanes[0];
    let ids = node.accept((0..1000).map(|n| intent(lane, &format!("r{n}"))).collect()).await;
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(120)).await;
    let requests = world.chain.requests("measure");
    assert!((1..=100).contains(&requests), "{requests} requests for 1000 intents");
}

/// An intent with a gas limit costs one send. Every other request is shared by all intents, and its number depends on
/// blocks and time.
#[tokio::test(start_paused = true)]
async fn intent_with_gas_limit_costs_one_send() {
    use gapless_domain::EvmCall;
    let world = World::new(1).await.window(64);
    let node = world.node("a");
    let lane = &world.lanes[0];
    let call = EvmCall { gas_limit: Some(21_000), to: lane.evm_address(), ..EvmCall::default() };
    let with = |n: u64| gapless_store::conformance::fixtures::intent_with(lane, &format!("r{n}"), call.clone().into());
    let height = world.chain.height();
    let ids = node.accept((0..1000).map(with).collect()).await;
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(120)).await;
    let blocks = usize::try_from(world.chain.height() - height).unwrap();
    assert_eq!(world.chain.sends().len(), 1000);
    assert!(world.chain.requests("broadcast") <= 1000);
    assert_eq!(world.chain.requests("measure"), 0);
    assert_eq!(world.chain.requests("receipts"), 0, "no transaction is looked up by hash");
    assert!(world.chain.requests("quote") <= blocks + 2, "one quote per head");
    assert!(world.chain.requests("block_receipts") <= blocks + 2, "the receipts of a block are read once");
    assert!(world.chain.requests("accounts") <= 2 + blocks / 10, "counts and balances are read at intervals");
}

/// On a chain with ten blocks a second, a quote is used for about a second.
#[tokio::test(start_paused = true)]
async fn quote_is_used_for_about_a_second() {
    let world = World::without_blocks(1).await;
    world.chain.mine_every(Duration::from_millis(100));
    let node = world.node("a");
    let height = world.chain.height();
    let ids = node.submit(&world.lanes[0], 0..50).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    let seconds = usize::try_from(world.chain.height() - height).unwrap() / 10;
    let quotes = world.chain.requests("quote");
    assert!(seconds >= 5 && (seconds / 2..=seconds + 2).contains(&quotes), "{quotes} quotes in {seconds} s");
}

/// The code of the lane's PROTECT, as the store has it.
async fn protected(store: &Arc<dyn Store>, lane: &SubmitterId) -> Option<&'static str> {
    let status = store.lane_status(std::slice::from_ref(lane)).await.unwrap().remove(0).unwrap();
    match status.cursor?.state {
        LaneState::Protect(protection) => Some(protection.code.as_str()),
        LaneState::Idle | LaneState::InFlight => None,
    }
}

/// A second loss takes away the commit that put the lane into PROTECT after a first one. The owner has nothing to
/// write, and must still notice the loss. (Seed 14222 of the simulator: the lane was stopped for ever, and no status
/// said why.)
///
/// proves O07
#[tokio::test(start_paused = true)]
async fn idle_protected_lane_notices_a_second_loss() {
    let world = World::new(1).await;
    let node = world.node("a");
    let lane = world.lanes[0].clone();
    let tell = async |kind| {
        let command = NewCommand { submitter: lane.clone(), kind, issued_by: text("operator") };
        node.store.put_commands(&[command]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    tell(CommandKind::Pause).await;
    node.submit(&lane, 0..1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = world.model.snapshot();
    node.store.declare_lost(&text("operator"), "a first loss").await.unwrap();
    tell(CommandKind::Resume).await;
    assert_eq!(protected(&node.store, &lane).await, Some("store_regressed"));
    world.model.restore(before);
    assert_eq!(protected(&node.store, &lane).await, None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(protected(&node.store, &lane).await, Some("store_regressed"));
}
