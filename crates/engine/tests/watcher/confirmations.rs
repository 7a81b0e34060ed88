//! Blocks, gaps, finality, reverts, and reorgs below the final block.

use std::time::Duration;

use gapless_chain::Revert;
use gapless_domain::{
    Amount, BlockLink, Event, EventBody, EventKind, Execution, FinalFailure, LaneEventKind, NodeText, StateName,
    TransitionName, TxId, TxState,
};
use gapless_engine::Finality;
use gapless_store::Accepted;
use gapless_store::conformance::fixtures;

use crate::support::{World, get, until_all};
use crate::{A_WHILE, events, finality_violation, one_sent, pass, protected, sub_state};

/// The confirmations that a consumer has who reads only events.
fn confirmations(events: &[Event], id: TxId) -> Vec<BlockLink> {
    let mut list = Vec::new();
    for event in events {
        if let EventBody::Tx { tx_id, kind, notice, .. } = &event.body
            && *tx_id == id
        {
            if *kind == EventKind::Tx(TransitionName::Unmine) {
                list.clear();
            }
            notice.iter().for_each(|notice| notice.apply(&mut list));
        }
    }
    list
}

/// proves R06
#[tokio::test(start_paused = true)]
async fn height_on_another_branch_makes_nothing_final() {
    let world = World::without_blocks(1).await;
    let (node, ids) = one_sent(&world).await;
    world.chain.mine();
    world.chain.mine();
    pass(3).await;
    let block = world.chain.height() - 1;
    // The new branch is high enough, and does not have the transaction.
    world.chain.script(|script| script.empty_blocks = true);
    world.chain.reorg(2, true);
    assert!(world.chain.height() >= block + 2);
    pass(10).await;
    assert_eq!(sub_state(&node.store, ids[0]).await, Some("PENDING"));
    world.chain.script(|script| script.empty_blocks = false);
    world.chain.mine();
    pass(3).await;
    assert_eq!(sub_state(&node.store, ids[0]).await, Some("MINED"));
    world.chain.mine();
    world.chain.mine();
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    let list = confirmations(&events(&node.store).await, ids[0]);
    assert_eq!(list.len(), 3);
    let TxState::Confirmed(settled) = get(&node.store, ids[0]).await.state else { panic!() };
    assert_eq!(list[0], settled.inclusion.link());
}

/// proves R07
#[tokio::test(start_paused = true)]
async fn gap_is_read_back_to_the_common_block() {
    let world = World::without_blocks(2).await;
    (0..5).for_each(|_| world.chain.mine());
    let node = world.node("a");
    let one = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &one, StateName::Tracking, A_WHILE).await;
    world.chain.mine();
    pass(3).await;
    assert_eq!(sub_state(&node.store, one[0]).await, Some("MINED"));
    let two = node.submit(&world.lanes[1], 0..1).await;
    until_all(&node.store, &two, StateName::Tracking, A_WHILE).await;
    // While the endpoint is unreachable, two blocks are replaced, and hundreds follow.
    world.chain.script(|script| script.unreachable = true);
    world.chain.reorg(2, true);
    (0..300).for_each(|_| world.chain.mine());
    let before = world.chain.requests("headers");
    world.chain.script(|script| script.unreachable = false);
    until_all(&node.store, &[one.clone(), two].concat(), StateName::Confirmed, A_WHILE).await;
    assert!(world.chain.requests("headers") - before <= 6, "in few requests");
    assert_eq!(world.chain.mined(&world.lanes[0]).len(), 1);
    let list = confirmations(&events(&node.store).await, one[0]);
    let TxState::Confirmed(settled) = get(&node.store, one[0]).await.state else { panic!() };
    assert_eq!((list.len(), list[0]), (3, settled.inclusion.link()));
}

/// proves R08
#[tokio::test(start_paused = true)]
async fn final_revert_fails_with_its_reason() {
    let world = World::without_blocks(1).await;
    let why = Revert { reason: Some(NodeText::new("not today")), data: b"data"[..].into() };
    world.chain.script(|script| {
        script.reverting = Some(world.lanes[0].clone());
        script.revert = Some(why.clone());
    });
    let (node, ids) = one_sent(&world).await;
    world.chain.mine();
    pass(3).await;
    let mined = get(&node.store, ids[0]).await;
    assert_eq!((mined.state.name(), sub_state(&node.store, ids[0]).await), (StateName::Tracking, Some("MINED")));
    world.chain.mine();
    world.chain.mine();
    until_all(&node.store, &ids, StateName::FailedFinal, A_WHILE).await;
    let TxState::FailedFinal(FinalFailure::Reverted(settled)) = get(&node.store, ids[0]).await.state else { panic!() };
    assert_eq!(settled.inclusion.execution, Execution::Reverted { reason: why.reason, data: why.data });
    assert_eq!((settled.inclusion.work_used, settled.inclusion.unit_price), (21_000, Amount::from(1_200_000_000_u64)));
}

/// No endpoint knows the reason of a revert. The intent still ends, and other intents do not wait.
/// proves R02
#[tokio::test(start_paused = true)]
async fn revert_without_a_reason_ends() {
    let world = World::new(2).await;
    world.chain.script(|script| script.reverting = Some(world.lanes[0].clone()));
    let node = world.node("a");
    let reverts = node.submit(&world.lanes[0], 0..1).await;
    let other = node.submit(&world.lanes[1], 0..1).await;
    until_all(&node.store, &other, StateName::Confirmed, A_WHILE).await;
    until_all(&node.store, &reverts, StateName::FailedFinal, A_WHILE).await;
}

/// A transaction reverted while no node ran, longer ago than headers are kept. The watcher links the old headers
/// again, and keeps them until the reason is known. (Seed 2178 of the simulator: the intent never ended.)
/// proves R08
#[tokio::test(start_paused = true)]
async fn revert_older_than_the_kept_headers_ends() {
    let mut world = World::without_blocks(1).await;
    world.watcher.margin = 4;
    world.chain.script(|script| script.reverting = Some(world.lanes[0].clone()));
    let (node, ids) = one_sent(&world).await;
    drop(node);
    (0..40).for_each(|_| world.chain.mine());
    world.chain.mine_every(Duration::from_secs(1));
    let other = world.node("b");
    until_all(&other.store, &ids, StateName::FailedFinal, A_WHILE).await;
}

/// proves R02
#[tokio::test(start_paused = true)]
async fn block_without_receipts_delays_no_intent_for_ever() {
    let world = World::without_blocks(1).await;
    let (node, ids) = one_sent(&world).await;
    world.chain.script(|script| script.no_block_receipts = true);
    world.chain.mine_every(Duration::from_secs(5));
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(120)).await;
}

/// The endpoint shows blocks without their receipts.
#[tokio::test(start_paused = true)]
async fn hidden_receipt_is_looked_up_after_a_while() {
    let mut world = World::without_blocks(1).await;
    // The account is read too seldom to show that the count has moved.
    world.setup.limits.account_interval = Duration::from_secs(3600);
    let (node, ids) = one_sent(&world).await;
    world.chain.script(|script| script.hidden_receipts = true);
    world.chain.mine_every(Duration::from_secs(1));
    pass(40).await;
    assert_eq!(sub_state(&node.store, ids[0]).await, Some("PENDING"));
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(60)).await;
}

/// proves R09
#[tokio::test(start_paused = true)]
async fn deep_reorg_protects_lanes_and_changes_no_end() {
    let world = World::without_blocks(2).await;
    (0..10).for_each(|_| world.chain.mine());
    let (node, ids) = one_sent(&world).await;
    (0..3).for_each(|_| world.chain.mine());
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    let ended = get(&node.store, ids[0]).await;
    // Both lanes are idle, and the second never had an intent.
    pass(30).await;
    world.chain.reorg(5, false);
    pass(30).await;
    assert_eq!(protected(&node.store, &world.lanes[0]).await, Some("deep_reorg"));
    assert_eq!(protected(&node.store, &world.lanes[1]).await, None, "a lane without a start has no final nonce");
    assert_eq!(get(&node.store, ids[0]).await, ended);
    let told = events(&node.store)
        .await
        .into_iter()
        .filter(|event| matches!(&event.body, EventBody::Lane { kind: LaneEventKind::Protected, .. }));
    assert_eq!(told.count(), 1, "one event");
    let later = node.engine.intake().accept(vec![fixtures::intent(&world.lanes[0], "later")]).await.unwrap();
    assert!(matches!(later[0].1, Accepted::Protected(_)), "{later:?}");
    let other = node.submit(&world.lanes[1], 0..1).await;
    pass(30).await;
    assert_eq!(
        get(&node.store, other[0]).await.state,
        TxState::Queued,
        "a lane does not start during a finality violation"
    );
}

/// The reorg happens while no node runs. The final block is in the store.
/// proves R09
#[tokio::test(start_paused = true)]
async fn deep_reorg_while_no_node_runs_is_noticed() {
    let world = World::without_blocks(1).await;
    (0..10).for_each(|_| world.chain.mine());
    let (node, ids) = one_sent(&world).await;
    (0..3).for_each(|_| world.chain.mine());
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    pass(10).await;
    let kept = node.store.head(world.lanes[0].chain()).await.unwrap().unwrap();
    assert_eq!(kept.finalized.map(|block| block.number), Some(world.chain.height() - 2));
    assert_eq!(kept.tail.last().number, world.chain.height());
    node.engine.drain().await;
    world.chain.reorg(5, false);
    (0..100).for_each(|_| world.chain.mine());
    let next = world.node("b");
    pass(30).await;
    assert_eq!(protected(&next.store, &world.lanes[0]).await, Some("deep_reorg"));
    assert_eq!(get(&next.store, ids[0]).await.state.name(), StateName::Confirmed);
}

/// The saved head is too far below to walk to.
/// proves R09
#[tokio::test(start_paused = true)]
async fn deep_reorg_below_a_wide_gap_is_noticed() {
    for forked in [false, true] {
        let mut world = World::without_blocks(1).await;
        world.watcher.walk_max = 20;
        world.watcher.margin = 2;
        (0..10).for_each(|_| world.chain.mine());
        let node = world.node("a");
        pass(10).await;
        node.engine.drain().await;
        if forked {
            world.chain.reorg(5, false);
        }
        (0..200).for_each(|_| world.chain.mine());
        let next = world.node("b");
        pass(30).await;
        assert_eq!(finality_violation(&next, &world), forked.then_some("deep_reorg"));
    }
}

/// A dev chain that was started anew is not reported as a reorg.
#[tokio::test(start_paused = true)]
async fn other_genesis_is_reported_as_other_chain() {
    for (blocks, restarted) in [(3, false), (15, false), (15, true), (3, true)] {
        let world = World::without_blocks(1).await;
        (0..12).for_each(|_| world.chain.mine());
        let mut node = world.node("a");
        pass(10).await;
        world.chain.begin_anew(blocks);
        if restarted {
            node.engine.drain().await;
            node = world.node("b");
        }
        pass(30).await;
        assert_eq!(finality_violation(&node, &world), Some("other_chain"), "{blocks} {restarted}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_intent_ends_above_the_finality_tag() {
    for finality in [Finality::Finalized, Finality::Safe] {
        let mut world = World::without_blocks(1).await;
        world.watcher.finality = finality;
        world.chain.script(|script| script.finalized_depth = Some(6));
        (0..8).for_each(|_| world.chain.mine());
        let (node, ids) = one_sent(&world).await;
        (0..6).for_each(|_| world.chain.mine());
        pass(10).await;
        assert_eq!(sub_state(&node.store, ids[0]).await, Some("MINED"), "{finality:?}");
        world.chain.mine();
        until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
        assert_eq!(confirmations(&events(&node.store).await, ids[0]).len(), 3, "as many as required");
    }
}

/// A safe block is final when it is deep enough. A finalized block is final at once.
#[tokio::test(start_paused = true)]
async fn safe_tag_needs_depth_and_finalized_does_not() {
    for (finality, at_once) in [(Finality::Finalized, true), (Finality::Safe, false)] {
        let mut world = World::without_blocks(1).await;
        world.watcher.finality = finality;
        world.chain.script(|script| script.finalized_depth = Some(0));
        let (node, ids) = one_sent(&world).await;
        world.chain.mine();
        pass(5).await;
        assert_eq!(get(&node.store, ids[0]).await.state.name() == StateName::Confirmed, at_once);
        (0..2).for_each(|_| world.chain.mine());
        until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    }
}

/// proves R10
#[tokio::test(start_paused = true)]
async fn pending_count_is_shown_and_decides_nothing() {
    let world = World::without_blocks(1).await.window(4);
    world.chain.script(|script| script.empty_blocks = true);
    let node = world.node("a");
    let ids = node.submit(&world.lanes[0], 0..3).await;
    until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
    for _ in 0..10 {
        world.chain.mine();
        pass(5).await;
    }
    let account = node.engine.view().account(&world.lanes[0]).await.unwrap();
    assert_eq!((account.latest.get(), account.pending.get()), (0, 3));
    for id in &ids {
        assert_eq!(sub_state(&node.store, *id).await, Some("PENDING"), "preconfirmed is not mined");
    }
    assert_eq!(protected(&node.store, &world.lanes[0]).await, None);
}

/// proves R01
#[tokio::test(start_paused = true)]
async fn requests_per_block_do_not_grow_with_open_intents() {
    let mut costs = Vec::new();
    for open in [1, 100, 1000] {
        let world = World::without_blocks(1).await.window(open);
        world.chain.script(|script| script.empty_blocks = true);
        let node = world.node("a");
        let ids = node.submit(&world.lanes[0], 0..u64::from(open)).await;
        until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
        let count = |method: &'static str| world.chain.requests(method);
        let methods = ["block_receipts", "receipts", "header", "headers", "reverts"];
        let before: Vec<usize> = methods.iter().map(|method| count(method)).collect();
        for _ in 0..50 {
            world.chain.mine();
            pass(1).await;
        }
        let after = methods.iter().map(|method| count(method));
        costs.push(after.zip(before).map(|(after, before)| after - before).collect::<Vec<_>>());
    }
    assert_eq!(costs[0][0], 50, "one request per block");
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
}
