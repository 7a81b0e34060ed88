//! Whole engines on the model store and a made-up chain: one transaction's way, and what may happen to it.
#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what supports a test says by panicking what it expects, too")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    Cancellation, CommandKind, FailReason, FinalFailure, LaneState, NewCommand, ProtectCode, StateName, SubmitterId,
    TxState,
};
use gapless_store::Store;
use gapless_store::conformance::fixtures::{intent, text};
use support::toy_chain::Answer;
use support::{World, get, nonces, until_all};

const A_WHILE: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn an_intent_is_confirmed() {
    let world = World::new(1).await;
    let node = world.node("a");
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(world.chain.mined(&world.lanes[0]).len(), 1);
    assert_eq!(world.chain.sends().len(), 1, "sent once");
}

/// proves N11, N12
#[tokio::test(start_paused = true)]
async fn a_strict_lane_goes_one_by_one_in_order() {
    let world = World::new(1).await;
    let node = world.node("a");
    let ids = node.submit(&world.lanes[0], 0..20).await;
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(120)).await;
    assert_eq!(nonces(&node.store, &ids).await, (0..20).collect::<Vec<_>>());
    let attempts: Vec<_> = futures_util::future::join_all(ids.iter().map(|id| node.store.attempts(*id))).await;
    let bound: Vec<_> = attempts.into_iter().map(|attempts| attempts.unwrap()[0].created_at).collect();
    for (before, after) in ids.iter().zip(&bound[1..]) {
        let TxState::Confirmed(settled) = get(&node.store, *before).await.state else { panic!("not confirmed") };
        // The toy chain's block n comes n seconds after the start.
        let mined_at = 1_900_000_000_000_000 + i64::try_from(settled.inclusion.block.number).unwrap() * 1_000_000;
        assert!(after.as_micros() >= mined_at, "bound before the one below was mined");
    }
}

/// proves N13
#[tokio::test(start_paused = true)]
async fn a_window_is_filled_and_never_exceeded() {
    let world = World::without_blocks(1).await.window(8);
    let node = world.node("a");
    let ids = node.submit(&world.lanes[0], 0..20).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.chain.sends().len(), 8, "the window is full, and nothing is mined");
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&node.store, &ids).await, (0..20).collect::<Vec<_>>());
    assert_eq!(world.chain.sends().len(), 20);
}

/// proves S04
#[tokio::test(start_paused = true)]
async fn a_time_out_keeps_the_nonce_and_the_bytes() {
    let world = World::new(1).await;
    let node = world.node("a");
    world
        .chain
        .trouble(|trouble| trouble.answers.extend([Answer::TimeOut, Answer::TimeOut, Answer::Text("what is this")]));
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    let sends = world.chain.sends();
    assert_eq!(sends.len(), 4);
    assert!(sends.iter().all(|send| *send == sends[0]), "always the same bytes");
}

/// proves S06
#[tokio::test(start_paused = true)]
async fn accepted_but_not_heard_of_is_found_on_chain() {
    let world = World::without_blocks(1).await;
    let node = world.node("a");
    world.chain.trouble(|trouble| trouble.answers.push_back(Answer::TimeOutAfterAccepting));
    let ids = node.submit(&world.lanes[0], 0..1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(get(&node.store, ids[0]).await.state.name(), StateName::Allocated);
    // Mined before the second send, which is then answered with "nonce too low".
    world.chain.mine();
    world.chain.mine_every(Duration::from_secs(10));
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(60)).await;
}

/// proves N09, S19
#[tokio::test(start_paused = true)]
async fn a_revert_in_simulation_fails_without_a_nonce() {
    let world = World::new(1).await;
    let node = world.node("a");
    world.chain.trouble(|trouble| trouble.estimate_reverts = true);
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::FailedFinal, A_WHILE).await;
    let TxState::FailedFinal(FinalFailure::Unbound(reason, _)) = get(&node.store, ids[0]).await.state else { panic!() };
    assert_eq!(reason, FailReason::SimulationReverted);
    world.chain.trouble(|trouble| trouble.estimate_reverts = false);
    let next = node.submit(&world.lanes[0], 1..2).await;
    until_all(&node.store, &next, StateName::Confirmed, A_WHILE).await;
    assert_eq!(nonces(&node.store, &next).await, [0], "the failed one used no nonce");
}

/// proves N09
#[tokio::test(start_paused = true)]
async fn without_funds_nothing_is_bound_and_it_goes_on_when_funded() {
    let world = World::new(1).await;
    let node = world.node("a");
    world.chain.trouble(|trouble| trouble.balance = Some(1000));
    let ids = node.submit(&world.lanes[0], 0..1).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(get(&node.store, ids[0]).await.state, TxState::Queued);
    assert!(world.chain.sends().is_empty());
    world.chain.trouble(|trouble| trouble.balance = None);
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
}

/// proves O02
#[tokio::test(start_paused = true)]
async fn with_rpc_away_intake_goes_on_and_lanes_wait() {
    let world = World::new(1).await.window(4);
    let node = world.node("a");
    let first = node.submit(&world.lanes[0], 0..2).await;
    until_all(&node.store, &first, StateName::Tracking, A_WHILE).await;
    world.chain.trouble(|trouble| trouble.away = true);
    let second = node.submit(&world.lanes[0], 2..6).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.chain.trouble(|trouble| trouble.away = false);
    let all = [first, second].concat();
    until_all(&node.store, &all, StateName::Confirmed, Duration::from_secs(120)).await;
    assert_eq!(nonces(&node.store, &all).await, [0, 1, 2, 3, 4, 5]);
}

/// proves R05
#[tokio::test(start_paused = true)]
async fn what_a_reorg_takes_away_is_sent_again() {
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
async fn null_receipts_move_nothing() {
    let world = World::without_blocks(1).await;
    let node = world.node("a");
    world.chain.trouble(|trouble| trouble.null_receipts = true);
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
    drop(node);
    tokio::time::sleep(Duration::from_secs(20)).await;
    // The next owner looks every hash up, and hears of none.
    let other = world.node("b");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let waiting = get(&other.store, ids[0]).await;
    assert_eq!((waiting.state.name(), waiting.state.nonce().map(|n| n.get())), (StateName::Tracking, Some(0)));
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&other.store, &ids, StateName::Confirmed, A_WHILE).await;
}

/// A node dies with work at every stage; another one goes on with the same bytes.
/// proves S03, N20
#[tokio::test(start_paused = true)]
async fn another_node_finishes_what_a_dead_one_began() {
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
        "what was sent is what was mined: nothing was signed anew"
    );
}

/// proves N21
#[tokio::test(start_paused = true)]
async fn a_drained_node_hands_over_at_once() {
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
    assert!(owner(&b).await.unwrap().starts_with("b/"), "the other node has it within a second");
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&b.store, &ids, StateName::Confirmed, A_WHILE).await;
}

/// proves N20
#[tokio::test(start_paused = true)]
async fn a_lane_that_goes_idle_hears_of_what_comes_just_then() {
    let world = World::new(1).await;
    let node = world.node("a");
    let lane = &world.lanes[0];
    // Around the moment at which the lane is given back, in small steps.
    for round in 0..60_u64 {
        let ids = node.submit(lane, round..round + 1).await;
        until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
        tokio::time::sleep(Duration::from_millis(4700 + round * 10)).await;
    }
}

/// proves N19
#[tokio::test(start_paused = true)]
async fn a_submitter_with_history_is_protected() {
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

/// Somebody else uses the key while we work.
/// proves N16
#[tokio::test(start_paused = true)]
async fn a_count_ahead_of_ours_protects() {
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
async fn a_paused_lane_binds_nothing_until_it_is_resumed() {
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
async fn what_is_refused_for_good_is_filled_at_its_own_nonce() {
    let world = World::new(1).await;
    let node = world.node("a");
    world.chain.trouble(|trouble| {
        trouble.answers.push_back(Answer::Text("intrinsic gas too low: gas 0, minimum needed 21000"))
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
async fn two_intents_with_one_payload_are_two_transactions() {
    let world = World::new(1).await;
    let node = world.node("a");
    let lane = &world.lanes[0];
    let ids = node.accept(vec![intent(lane, "one"), intent(lane, "other")]).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    assert_eq!(world.chain.mined(lane).len(), 2);
}

/// In the steady state an intent that needs no estimate costs one send; everything else is shared by all, and goes with
/// blocks and time.
#[tokio::test(start_paused = true)]
async fn a_send_is_all_that_an_intent_costs() {
    use gapless_domain::{EvmCall, Payload};
    let world = World::new(1).await.window(64);
    let node = world.node("a");
    let lane = &world.lanes[0];
    let call = EvmCall { gas_limit: Some(21_000), to: lane.evm_address(), ..EvmCall::default() };
    let with =
        |n: u64| gapless_store::conformance::fixtures::intent_with(lane, &format!("r{n}"), Payload::Evm(call.clone()));
    let height = world.chain.height();
    let ids = node.accept((0..1000).map(with).collect()).await;
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(120)).await;
    let blocks = usize::try_from(world.chain.height() - height).unwrap();
    assert_eq!(world.chain.sends().len(), 1000);
    assert!(world.chain.calls("broadcast") <= 1000);
    assert_eq!(world.chain.calls("estimate_gas"), 0);
    assert_eq!(world.chain.calls("receipts"), 0, "no transaction is looked up by itself");
    assert!(world.chain.calls("quote") <= blocks + 2, "one price a head");
    assert!(world.chain.calls("block_receipts") <= blocks + 2, "the receipts of a block are read once");
    assert!(world.chain.calls("accounts") <= 2 + blocks / 10, "counts and balance are read from time to time");
}

/// On a chain whose blocks come faster than prices change, not every block is asked for its price; and none is taken for ever.
#[tokio::test(start_paused = true)]
async fn a_price_is_good_for_a_second_and_is_asked_for_anew_after_it() {
    let world = World::without_blocks(1).await;
    world.chain.mine_every(Duration::from_millis(100));
    let node = world.node("a");
    let height = world.chain.height();
    let ids = node.submit(&world.lanes[0], 0..50).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    let seconds = usize::try_from(world.chain.height() - height).unwrap() / 10;
    let quotes = world.chain.calls("quote");
    assert!(seconds >= 5 && (seconds / 2..=seconds + 2).contains(&quotes), "{quotes} in {seconds} s");
}

/// Why the lane is in PROTECT, by what the store says.
async fn protected(store: &Arc<dyn Store>, lane: &SubmitterId) -> Option<&'static str> {
    let status = store.lane_status(std::slice::from_ref(lane)).await.unwrap().remove(0).unwrap();
    match status.cursor?.state {
        LaneState::Protect(protection) => Some(protection.code.as_str()),
        LaneState::Idle | LaneState::InFlight => None,
    }
}

/// The PROTECT of a first loss is lost by a second one. Its owner still knows of it, has nothing to write, and must all the same notice that the
/// database does not. (Seed 14222 of the simulator: the lane was stopped for ever, and nobody could see why.)
///
/// proves O07
#[tokio::test(start_paused = true)]
async fn a_lane_that_has_nothing_to_write_notices_a_loss() {
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
