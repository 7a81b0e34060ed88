//! Gaps too wide to walk, endpoints that lag or fail, other chains, slow answers.

use std::sync::Arc;
use std::time::Duration;

use gapless_chain::Revert;
use gapless_domain::{EventBody, EventKind, Execution, FinalFailure, NodeText, StateName, TransitionName, TxState};
use gapless_engine::Finality;

use crate::support::{World, get, until_all};
use crate::{A_WHILE, events, one_sent, pass, protected, sub_state};

/// The watcher runs through the outage.
#[tokio::test(start_paused = true)]
async fn transaction_mined_in_a_wide_gap_is_confirmed() {
    let mut world = World::without_blocks(1).await;
    (world.watcher.walk_max, world.watcher.margin) = (20, 2);
    (0..10).for_each(|_| world.chain.mine());
    let (node, ids) = one_sent(&world).await;
    world.chain.script(|script| script.unreachable = true);
    (0..200).for_each(|_| world.chain.mine());
    world.chain.script(|script| script.unreachable = false);
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(600)).await;
}

/// The node restarts during the gap.
#[tokio::test(start_paused = true)]
async fn transaction_mined_in_a_gap_over_a_restart_is_confirmed() {
    let mut world = World::without_blocks(1).await;
    (world.watcher.walk_max, world.watcher.margin) = (20, 2);
    (0..10).for_each(|_| world.chain.mine());
    let (node, ids) = one_sent(&world).await;
    world.chain.mine();
    pass(3).await;
    node.engine.drain().await;
    (0..200).for_each(|_| world.chain.mine());
    let node = world.node("b");
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(600)).await;
}

/// The `finalized` tag is deeper than the kept headers and `walk_max` together.
#[tokio::test(start_paused = true)]
async fn deep_finalized_tag_makes_final() {
    let mut world = World::without_blocks(1).await;
    (world.watcher.walk_max, world.watcher.margin) = (20, 2);
    world.watcher.finality = Finality::Finalized;
    world.chain.script(|script| script.finalized_depth = Some(60));
    (0..10).for_each(|_| world.chain.mine());
    let (node, ids) = one_sent(&world).await;
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(600)).await;
}

/// A node starts on an endpoint that is behind, on a tip that was orphaned.
#[tokio::test(start_paused = true)]
async fn lagging_endpoint_on_orphaned_tip_is_no_deep_reorg() {
    let mut world = World::without_blocks(1).await;
    let behind = world.other_chain();
    (0..9).for_each(|_| behind.mine());
    behind.reorg(1, false); // 9', 10'
    (0..12).for_each(|_| world.chain.mine());
    let a = world.node("a");
    pass(10).await;
    a.engine.drain().await;
    world.chain = behind;
    let b = world.node("b");
    pass(10).await;
    assert_eq!(protected(&b.store, &world.lanes[0]).await, None);
}

/// The node saves its head with the orphaned tip after another node has saved a newer one.
#[tokio::test(start_paused = true)]
async fn late_save_of_an_orphaned_tip_is_no_deep_reorg() {
    let mut world = World::without_blocks(1).await;
    let behind = world.other_chain();
    (0..8).for_each(|_| behind.mine());
    (0..12).for_each(|_| world.chain.mine());
    let main = std::mem::replace(&mut world.chain, Arc::clone(&behind));
    world.watcher.save_interval = Duration::from_secs(30);
    let b = world.node("b");
    pass(3).await;
    behind.mine();
    behind.reorg(1, false); // 9', 10'; the final block 8 is on both
    pass(3).await;
    world.chain = main;
    let a = world.node("a");
    pass(3).await;
    let kept = a.store.head(world.lanes[0].chain()).await.unwrap().unwrap();
    assert_eq!(kept.finalized.map(|block| block.number), Some(10));
    assert_eq!(protected(&b.store, &world.lanes[0]).await, None);
    pass(60).await;
    assert_eq!(b.engine.view().chain_status(world.lanes[0].chain()).unwrap().broken().map(|p| p.code.as_str()), None);
    assert_eq!(protected(&b.store, &world.lanes[0]).await, None);
}

/// An endpoint shows another chain. No intent ends by it.
#[tokio::test(start_paused = true)]
async fn no_intent_ends_on_another_chain() {
    let mut world = World::without_blocks(1).await;
    world.watcher.margin = 2;
    world.chain.script(|script| script.empty_blocks = true);
    (0..30).for_each(|_| world.chain.mine());
    let (node, ids) = one_sent(&world).await;
    pass(10).await;
    world.chain.begin_anew(3);
    pass(10).await;
    assert_eq!(protected(&node.store, &world.lanes[0]).await, Some("other_chain"));
    world.chain.script(|script| script.empty_blocks = false);
    for _ in 0..15 {
        world.chain.mine();
        pass(20).await;
    }
    assert_eq!(get(&node.store, ids[0]).await.state.name(), StateName::Tracking);
}

/// Every request for receipts fails that has one hash in it.
#[tokio::test(start_paused = true)]
async fn hash_whose_lookup_fails_does_not_delay_others() {
    let mut world = World::without_blocks(20).await;
    world.setup.limits.account_interval = Duration::from_secs(36000);
    world.watcher.stale_receipt_timeout = Duration::from_secs(5);
    let node = world.node("a");
    let mut ids = Vec::new();
    for lane in &world.lanes {
        ids.extend(node.submit(lane, 0..1).await);
    }
    until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
    let poison = node.store.attempts(ids[0]).await.unwrap()[0].hash;
    world.chain.script(|script| {
        script.hidden_receipts = true;
        script.poison = Some(poison);
    });
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids[1..], StateName::Confirmed, Duration::from_secs(600)).await;
}

/// The endpoint fails for a second when the reason of a revert is requested.
#[tokio::test(start_paused = true)]
async fn short_outage_does_not_lose_the_revert_reason() {
    let world = World::without_blocks(1).await;
    let why = Revert { reason: Some(NodeText::new("not today")), data: b"data"[..].into() };
    world.chain.script(|script| {
        script.reverting = Some(world.lanes[0].clone());
        script.revert = Some(why.clone());
        script.reverts_fail = true;
    });
    let (node, ids) = one_sent(&world).await;
    world.chain.mine();
    tokio::time::sleep(Duration::from_millis(1000)).await;
    world.chain.script(|script| script.reverts_fail = false);
    pass(30).await;
    world.chain.mine();
    world.chain.mine();
    until_all(&node.store, &ids, StateName::FailedFinal, A_WHILE).await;
    let TxState::FailedFinal(FinalFailure::Reverted(settled)) = get(&node.store, ids[0]).await.state else { panic!() };
    assert_eq!(settled.inclusion.execution, Execution::Reverted { reason: why.reason, data: why.data });
}

/// The receipts of no block are complete, and a block comes every second.
#[tokio::test(start_paused = true)]
async fn watcher_keeps_up_with_blocks_without_receipts() {
    let world = World::without_blocks(1).await;
    let node = world.node("a");
    node.submit(&world.lanes[0], 0..500).await;
    world.chain.script(|script| script.no_block_receipts = true);
    world.chain.mine_every(Duration::from_secs(1));
    pass(300).await;
    let head = node.engine.view().chain_status(world.lanes[0].chain()).unwrap().head.number;
    assert!(world.chain.height() - head < 20, "{head} of {}", world.chain.height());
}

/// The node restarts during the gap, and requests take time: the lane is loaded while the watcher links its first
/// headers.
#[tokio::test(start_paused = true)]
async fn gap_over_a_restart_with_slow_requests_is_confirmed() {
    let mut world = World::without_blocks(1).await;
    (world.watcher.walk_max, world.watcher.margin) = (20, 2);
    (0..10).for_each(|_| world.chain.mine());
    let (node, ids) = one_sent(&world).await;
    world.chain.mine();
    pass(3).await;
    node.engine.drain().await;
    (0..200).for_each(|_| world.chain.mine());
    world.chain.script(|script| script.latency = Duration::from_millis(50));
    let node = world.node("b");
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(600)).await;
}

/// An older release saved the newest block without a tail.
#[tokio::test(start_paused = true)]
async fn transaction_below_a_short_saved_tail_is_confirmed() {
    let world = World::without_blocks(1).await;
    (0..10).for_each(|_| world.chain.mine());
    let (node, ids) = one_sent(&world).await;
    world.chain.mine();
    world.chain.mine();
    pass(10).await;
    node.engine.drain().await;
    let chain = world.lanes[0].chain();
    let mut kept = node.store.head(chain).await.unwrap().unwrap();
    kept.tail = gapless_domain::Tail::new(kept.tail.get(kept.tail.last().number).unwrap());
    node.store.save_head(chain, &kept).await.unwrap();
    let node = world.node("b");
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(600)).await;
}

/// The watcher reads 900 blocks with slow requests, and still answers and publishes.
#[tokio::test(start_paused = true)]
async fn catching_up_does_not_block_the_watcher() {
    let world = World::without_blocks(1).await;
    (0..10).for_each(|_| world.chain.mine());
    let (node, _) = one_sent(&world).await;
    world.chain.script(|script| {
        script.unreachable = true;
        script.empty_blocks = true;
    });
    (0..900).for_each(|_| world.chain.mine());
    world.chain.script(|script| {
        script.unreachable = false;
        script.latency = Duration::from_millis(100);
    });
    let mut oldest = Duration::ZERO;
    for _ in 0..120 {
        pass(1).await;
        let status = node.engine.view().chain_status(world.lanes[0].chain()).unwrap();
        oldest = oldest.max(node.engine.view().head_age(&status));
    }
    assert!(oldest < Duration::from_secs(15), "no head was published for {oldest:?}");
}

/// A second lookup of a reverted transaction gets no reason. The first reason stays, and consumers see no reorg.
#[tokio::test(start_paused = true)]
async fn second_lookup_keeps_the_revert_reason() {
    let world = World::without_blocks(1).await;
    let why = Revert { reason: Some(NodeText::new("not today")), data: b"data"[..].into() };
    world.chain.script(|script| {
        script.reverting = Some(world.lanes[0].clone());
        script.revert = Some(why.clone());
    });
    let (node, ids) = one_sent(&world).await;
    world.chain.mine();
    pass(3).await;
    assert_eq!(sub_state(&node.store, ids[0]).await, Some("MINED"));
    // The endpoint has forgotten the reason, and every open hash is looked up again.
    world.chain.script(|script| {
        script.revert = None;
        script.no_block_receipts = true;
    });
    world.chain.mine();
    pass(30).await;
    world.chain.mine();
    until_all(&node.store, &ids, StateName::FailedFinal, A_WHILE).await;
    let unmined = events(&node.store).await.into_iter().filter(
        |event| matches!(&event.body, EventBody::Tx { kind, .. } if *kind == EventKind::Tx(TransitionName::Unmine)),
    );
    let TxState::FailedFinal(FinalFailure::Reverted(settled)) = get(&node.store, ids[0]).await.state else { panic!() };
    let reason = settled.inclusion.execution;
    assert_eq!((unmined.count(), reason), (0, Execution::Reverted { reason: why.reason, data: why.data }));
}

/// Two nodes have endpoints on different chains. The node that saves its final block second stops.
/// proves R09
#[tokio::test(start_paused = true)]
async fn nodes_with_different_final_blocks_do_not_both_go_on() {
    for (anew, code) in [(false, "deep_reorg"), (true, "other_chain")] {
        let mut world = World::without_blocks(1).await;
        let other = world.other_chain();
        (0..3).for_each(|_| other.mine());
        if anew {
            other.begin_anew(5);
        } else {
            other.reorg(1, false);
        }
        (0..12).for_each(|_| other.mine());
        (0..14).for_each(|_| world.chain.mine());
        let a = world.node("a");
        world.chain = Arc::clone(&other);
        let b = world.node("b");
        for _ in 0..20 {
            other.mine();
            pass(1).await;
        }
        let broken = [&a, &b].map(|node| {
            let status = node.engine.view().chain_status(world.lanes[0].chain()).unwrap();
            status.broken().map(|broken| broken.code.as_str())
        });
        assert_eq!(broken.into_iter().flatten().collect::<Vec<_>>(), [code], "{broken:?}");
    }
}

/// The final block is in the store before an intent ends by it.
#[tokio::test(start_paused = true)]
async fn final_block_is_saved_before_an_intent_ends() {
    let mut world = World::without_blocks(1).await;
    world.watcher.save_interval = Duration::from_secs(3600);
    let (node, ids) = one_sent(&world).await;
    (0..3).for_each(|_| world.chain.mine());
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    let TxState::Confirmed(settled) = get(&node.store, ids[0]).await.state else { panic!() };
    let kept = node.store.head(world.lanes[0].chain()).await.unwrap().unwrap();
    assert!(kept.finalized.is_some_and(|block| block.number >= settled.inclusion.block.number));
}
