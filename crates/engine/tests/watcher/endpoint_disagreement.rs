//! Endpoints that disagree, chains that go back, old blocks that are not final, slow traces.

use crate::support::{World, get, until_all};
use crate::{A_WHILE, finality_violation, one_sent, pass};
use gapless_domain::{
    B256, BlockLink, BlockRef, Event, EventBody, EventKind, EventPosition, Head, StateName, TransitionName, TxState,
};
use gapless_engine::Finality;
use gapless_store::HeadVerdict;
use gapless_store::conformance::fixtures::text;
use std::sync::Arc;
use std::time::Duration;

/// A transaction is found by its hash, in a block that is final for this node and not saved yet.
#[tokio::test(start_paused = true)]
async fn final_block_is_saved_before_a_looked_up_intent_ends() {
    let mut world = World::without_blocks(1).await;
    world.watcher.save_interval = Duration::from_secs(3600);
    world.watcher.stale_receipt_timeout = Duration::from_secs(5);
    let (node, ids) = one_sent(&world).await;
    world.chain.script(|script| script.hidden_receipts = true);
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    let TxState::Confirmed(settled) = get(&node.store, ids[0]).await.state else { panic!() };
    let kept = node.store.head(world.lanes[0].chain()).await.unwrap().and_then(|head| head.finalized);
    let block = settled.inclusion.block.number;
    assert!(kept.is_some_and(|kept| kept.number >= block), "ended in {block}, saved {kept:?}");
}

/// The chain has no finality tag, and no block comes.
#[tokio::test(start_paused = true)]
async fn old_blocks_without_finality_are_requested_seldom() {
    let mut world = World::without_blocks(1).await;
    world.watcher.margin = 2;
    world.watcher.finality = Finality::Finalized; // and the chain has no such tag
    let node = world.node("a");
    for n in 0..30 {
        let ids = node.submit(&world.lanes[0], n..n + 1).await;
        until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
        world.chain.mine();
        pass(1).await;
    }
    for _ in 0..20 {
        world.chain.mine();
        pass(1).await;
    }
    pass(10).await;
    let before = world.chain.requests("headers") + world.chain.requests("header");
    pass(60).await;
    let asked = world.chain.requests("headers") + world.chain.requests("header") - before;
    assert!(asked < 60, "{asked} requests for headers in a minute without a block");
}

/// One endpoint shows a longer branch. Another endpoint, which answers for single headers, still has the final block.
#[tokio::test(start_paused = true)]
async fn final_block_stays_while_endpoints_disagree() {
    let mut world = World::without_blocks(1).await;
    world.watcher.save_interval = Duration::from_secs(3600);
    let other = world.other_chain();
    for _ in 0..20 {
        world.chain.mine();
        other.mine();
    }
    let node = world.node("a");
    pass(10).await;
    let before = node.engine.view().chain_status(world.lanes[0].chain()).unwrap().final_block.unwrap();
    world.chain.script(|script| script.header_from = Some(Arc::clone(&other)));
    world.chain.reorg(10, false);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let status = node.engine.view().chain_status(world.lanes[0].chain()).unwrap();
    let after = status.final_block.unwrap();
    assert!(after == before || status.broken().is_some(), "{before:?} -> {after:?}, head {:?}, no alarm", status.head);
}

/// A node is on a branch that ends below the saved tail.
#[tokio::test(start_paused = true)]
async fn no_intent_ends_on_a_branch_far_behind() {
    let mut world = World::without_blocks(1).await;
    world.watcher.margin = 2;
    let fork = world.other_chain();
    for _ in 0..5 {
        fork.mine();
        world.chain.mine();
    }
    let main = std::mem::replace(&mut world.chain, Arc::clone(&fork));
    fork.script(|script| script.empty_blocks = true);
    let b = world.node("b");
    let ids = b.submit(&world.lanes[0], 0..1).await;
    until_all(&b.store, &ids, StateName::Tracking, A_WHILE).await;
    pass(10).await;
    fork.diverge();
    fork.script(|script| script.empty_blocks = true);
    (0..195).for_each(|_| main.mine());
    world.chain = main;
    let a = world.node("a");
    pass(10).await;
    world.chain.mine();
    pass(10).await;
    let kept = a.store.head(world.lanes[0].chain()).await.unwrap().unwrap();
    assert_eq!(kept.finalized.map(|block| block.number), Some(199));
    fork.script(|script| script.empty_blocks = false);
    pass(90).await; // The transaction is sent again.
    for _ in 0..8 {
        fork.mine();
        pass(5).await;
    }
    let state = get(&b.store, ids[0]).await.state;
    assert_ne!(state.name(), StateName::Confirmed, "{state:?}");
}

/// Intents that have ended do not use up the notices of a head.
#[tokio::test(start_paused = true)]
async fn ended_intents_do_not_use_up_the_notices() {
    let mut world = World::without_blocks(1).await.window(20);
    world.watcher.confirmations = 5;
    world.setup.limits.notices_per_head = 2;
    let node = world.node("a");
    let mut last = 0;
    for n in 0..60 {
        let ids = node.submit(&world.lanes[0], n * 5..n * 5 + 5).await;
        until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
        world.chain.mine();
        pass(2).await;
        let events = node.store.read_events(EventPosition::default(), u32::MAX).await.unwrap();
        let confirm = EventKind::Tx(TransitionName::Confirm);
        let is_notice = |event: &&Event| matches!(&event.body, EventBody::Tx { kind, .. } if *kind == confirm);
        let told = events.iter().filter(is_notice).count();
        if n == 40 {
            last = told;
        }
        if n == 59 {
            assert!(told > last, "no notice in 19 heads, {told} before");
        }
    }
}

/// Another node saves its head between two rounds of a watcher that starts anew.
#[tokio::test(start_paused = true)]
async fn watcher_that_starts_anew_forgets_no_hash() {
    let world = World::without_blocks(1).await;
    (0..12).for_each(|_| world.chain.mine());
    let (node, ids) = one_sent(&world).await;
    world.chain.reorg(8, true);
    pass(5).await;
    assert_eq!(finality_violation(&node, &world), Some("deep_reorg"));
    world.chain.mine();
    pass(20).await;
    let chain = world.lanes[0].chain();
    node.store.forget_head(chain, &text("operator"), "test").await.unwrap();
    while finality_violation(&node, &world).is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let status = node.engine.view().chain_status(chain).unwrap();
    let head = Head { tail: status.facts.tail.clone(), finalized: status.final_block, genesis: None };
    node.store.save_head(chain, &head).await.unwrap();
    pass(5).await;
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(600)).await;
}

/// A dev chain is reverted below the final block, and goes on from there.
#[tokio::test(start_paused = true)]
async fn chain_that_went_back_is_noticed() {
    let world = World::without_blocks(1).await;
    (0..100).for_each(|_| world.chain.mine());
    let node = world.node("a");
    pass(5).await;
    world.chain.rollback(90);
    for _ in 0..60 {
        world.chain.mine();
        pass(60).await;
    }
    assert!(finality_violation(&node, &world).is_some(), "an hour and 60 blocks without a finality violation");
}

/// The newest final block is saved although no block follows.
/// Another node has saved a newer final block. A lane on the node that lags must not conclude from old account nonces
/// that the chain went back.
#[tokio::test(start_paused = true)]
async fn node_below_the_saved_final_block_knows_that_it_lags() {
    let world = World::without_blocks(1).await;
    let (node, _) = one_sent(&world).await;
    (0..5).for_each(|_| world.chain.mine());
    pass(10).await;
    let chain = world.lanes[0].chain();
    let lags = || node.engine.view().chain_status(chain).unwrap().lags;
    assert!(!lags());
    let kept = node.store.head(chain).await.unwrap().unwrap();
    let mut tail = kept.tail.clone();
    for number in tail.last().number + 1..100 {
        let block = BlockRef { number, hash: B256::with_last_byte(number as u8) };
        assert!(tail.push(BlockLink { block, parent_hash: tail.last().hash }));
    }
    let newer = Head { finalized: Some(tail.last()), tail, genesis: kept.genesis };
    assert_eq!(node.store.save_head(chain, &newer).await.unwrap(), HeadVerdict::Saved);
    pass(10).await;
    assert!(lags());
}

#[tokio::test(start_paused = true)]
async fn newest_final_block_is_saved_without_a_next_block() {
    let world = World::without_blocks(1).await;
    let node = world.node("a");
    pass(1).await;
    (0..50).for_each(|_| world.chain.mine());
    pass(600).await;
    let known = node.engine.view().chain_status(world.lanes[0].chain()).unwrap().final_block;
    let kept = node.store.head(world.lanes[0].chain()).await.unwrap().unwrap().finalized;
    assert_eq!(known.map(|b| b.number), kept.map(|b| b.number));
}

/// The endpoints have no old headers. A new head is still seen at once.
#[tokio::test(start_paused = true)]
async fn missing_old_headers_do_not_delay_new_heads() {
    let world = World::without_blocks(1).await;
    (0..200).for_each(|_| world.chain.mine());
    world.chain.script(|script| script.first_block = 190);
    let node = world.node("a");
    pass(60).await;
    world.chain.mine();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let head = node.engine.view().chain_status(world.lanes[0].chain()).unwrap().head.number;
    assert_eq!(head, world.chain.height());
}

/// A finality violation does not lead to more requests.
#[tokio::test(start_paused = true)]
async fn finality_violation_keeps_requests_few() {
    let mut world = World::without_blocks(1).await.window(50);
    world.watcher.margin = 2;
    (0..12).for_each(|_| world.chain.mine());
    let node = world.node("a");
    pass(5).await;
    world.chain.script(|script| script.empty_blocks = true);
    let ids = node.submit(&world.lanes[0], 0..40).await;
    until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
    world.chain.reorg(8, true);
    pass(5).await;
    assert_eq!(finality_violation(&node, &world), Some("deep_reorg"));
    world.chain.script(|script| script.empty_blocks = false);
    world.chain.mine();
    pass(1).await;
    for _ in 0..20 {
        world.chain.mine();
        pass(1).await;
    }
    let before = world.chain.requests("headers") + world.chain.requests("header");
    pass(60).await;
    let asked = world.chain.requests("headers") + world.chain.requests("header") - before;
    assert!(asked < 120, "{asked} requests for headers in a minute without a block");
}

/// After a restart, intents in many old blocks that are not final are all compared, and do not hold the window.
#[tokio::test(start_paused = true)]
async fn old_blocks_without_finality_do_not_hold_the_window() {
    let mut world = World::without_blocks(1).await;
    world.watcher.margin = 2;
    world.watcher.finality = Finality::Finalized; // and the chain has no such tag
    let node = world.node("a");
    for n in 0..30 {
        let ids = node.submit(&world.lanes[0], n..n + 1).await;
        until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
        world.chain.mine();
        pass(2).await;
    }
    for _ in 0..10 {
        world.chain.mine();
        pass(1).await;
    }
    node.engine.drain().await;
    let node = world.node("b");
    let ids = node.submit(&world.lanes[0], 100..101).await;
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Tracking, Duration::from_secs(600)).await;
}

/// Requests for the reason of a revert take 10 s. The watcher does not wait for them (R02).
#[tokio::test(start_paused = true)]
async fn slow_traces_do_not_delay_the_watcher() {
    let world = World::without_blocks(1).await.window(20);
    world.chain.script(|script| {
        script.reverting = Some(world.lanes[0].clone());
        script.reverts_take = Duration::from_secs(10);
    });
    let node = world.node("a");
    let ids = node.submit(&world.lanes[0], 0..5).await;
    until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
    world.chain.mine_every(Duration::from_secs(1));
    let mut most = 0;
    for _ in 0..20 {
        pass(1).await;
        let head = node.engine.view().chain_status(world.lanes[0].chain()).unwrap().head.number;
        most = most.max(world.chain.height() - head);
    }
    assert!(most < 4, "{most} blocks behind");
}

/// Heads and single headers come from an endpoint of the right chain, ranges and receipts from one with a deep fork.
#[tokio::test(start_paused = true)]
async fn old_block_is_not_final_by_mixed_endpoints() {
    let mut world = World::without_blocks(1).await;
    world.watcher.margin = 2;
    world.setup.limits.account_interval = Duration::from_secs(36000);
    let main = world.other_chain();
    for _ in 0..200 {
        world.chain.mine();
        main.mine();
    }
    let (node, ids) = one_sent(&world).await;
    world.chain.script(|script| {
        script.head_from = Some(Arc::clone(&main));
        script.header_from = Some(Arc::clone(&main));
    });
    world.chain.rollback(150);
    (0..100).for_each(|_| world.chain.mine());
    main.mine();
    pass(120).await;
    let state = get(&node.store, ids[0]).await.state;
    assert_ne!(state.name(), StateName::Confirmed, "{state:?}, violation {:?}", finality_violation(&node, &world));
}
