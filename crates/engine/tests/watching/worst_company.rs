//! Endpoints that disagree, chains that go back, what is old and not final, slow traces.

use crate::support::{World, get, until_all};
use crate::{A_WHILE, broken, one_sent, pass};
use gapless_domain::{EventBody, EventKind, EventPosition, Head, StateName, TransitionName, TxState};
use gapless_engine::Finality;
use gapless_store::conformance::fixtures::text;
use std::sync::Arc;
use std::time::Duration;
/// Found by hash in a block that is final in memory: ends, and the store has never heard of that final block.
#[tokio::test(start_paused = true)]
async fn nothing_that_was_looked_up_ends_before_its_block_is_kept() {
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
    assert!(kept.is_some_and(|kept| kept.number >= block), "ended in {block}, kept {kept:?}");
}

/// Questions while nothing happens on the chain at all.
#[tokio::test(start_paused = true)]
async fn what_is_old_and_not_final_is_not_asked_for_for_ever() {
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
    assert!(asked < 60, "{asked} questions for headers in a minute without a block");
}

/// One endpoint shows a longer fork, another (asked for a single header) still has what was final.
#[tokio::test(start_paused = true)]
async fn what_is_final_is_not_taken_back_while_endpoints_disagree() {
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

/// A node on a fork that is further behind than what the store's tail reaches.
#[tokio::test(start_paused = true)]
async fn nothing_ends_on_a_fork_that_is_far_behind() {
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
    fork.diverge(); // What comes from now on are other blocks.
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
    pass(90).await; // sent again
    for _ in 0..8 {
        fork.mine();
        pass(5).await;
    }
    let state = get(&b.store, ids[0]).await.state;
    assert_ne!(state.name(), StateName::Confirmed, "{state:?}");
}

/// Those who ended stay in the row, and nobody who lives is told.
#[tokio::test(start_paused = true)]
async fn the_dead_do_not_use_up_the_notices() {
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
        let told = events.iter().filter(|event| matches!(&event.body, EventBody::Tx { kind, .. } if *kind == EventKind::Tx(TransitionName::Confirm))).count();
        if n == 40 {
            last = told;
        }
        if n == 59 {
            assert!(told > last, "no notice in 19 heads, {told} before");
        }
    }
}

/// Another node keeps its head between the round that begins anew and the next one.
#[tokio::test(start_paused = true)]
async fn who_begins_anew_forgets_nobody() {
    let world = World::without_blocks(1).await;
    (0..12).for_each(|_| world.chain.mine());
    let (node, ids) = one_sent(&world).await;
    world.chain.reorg(8, true);
    pass(5).await;
    assert_eq!(broken(&node, &world), Some("deep_reorg"));
    world.chain.mine();
    pass(20).await;
    let chain = world.lanes[0].chain();
    node.store.forget_head(chain, &text("operator"), "test").await.unwrap();
    while broken(&node, &world).is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let status = node.engine.view().chain_status(chain).unwrap();
    let head = Head { tail: status.facts.tail.clone(), finalized: status.final_block, genesis: None };
    node.store.save_head(chain, &head).await.unwrap();
    pass(5).await;
    world.chain.mine_every(Duration::from_secs(1));
    until_all(&node.store, &ids, StateName::Confirmed, Duration::from_secs(600)).await;
}

/// A dev chain goes back below what was final, and on from there.
#[tokio::test(start_paused = true)]
async fn a_chain_that_went_back_is_noticed() {
    let world = World::without_blocks(1).await;
    (0..100).for_each(|_| world.chain.mine());
    let node = world.node("a");
    pass(5).await;
    world.chain.rollback(90);
    for _ in 0..60 {
        world.chain.mine();
        pass(60).await;
    }
    assert!(broken(&node, &world).is_some(), "an hour, and 60 other blocks, and nobody stops");
}

/// The newest final block is kept in the end, also if no block comes after it.
#[tokio::test(start_paused = true)]
async fn the_newest_final_block_is_kept_in_the_end() {
    let world = World::without_blocks(1).await;
    let node = world.node("a");
    pass(1).await;
    (0..50).for_each(|_| world.chain.mine());
    pass(600).await;
    let known = node.engine.view().chain_status(world.lanes[0].chain()).unwrap().final_block;
    let kept = node.store.head(world.lanes[0].chain()).await.unwrap().unwrap().finalized;
    assert_eq!(known.map(|b| b.number), kept.map(|b| b.number));
}

/// A chain whose first block is not 0, or whose endpoints have dropped old headers: how soon is a new head seen?
#[tokio::test(start_paused = true)]
async fn headers_that_nobody_has_slow_nothing_down() {
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

/// Broken, and asked for ever.
#[tokio::test(start_paused = true)]
async fn a_broken_chain_is_not_hammered() {
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
    assert_eq!(broken(&node, &world), Some("deep_reorg"));
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
    assert!(asked < 120, "{asked} questions for headers in a minute without a block");
}

/// After a restart those behind the first twenty old blocks are never compared, and hold the window.
#[tokio::test(start_paused = true)]
async fn old_blocks_that_are_not_final_keep_nobody_waiting() {
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

/// Why something reverted takes long to tell, and nobody else waits for it (R02).
#[tokio::test(start_paused = true)]
async fn slow_traces_keep_nobody_waiting() {
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

/// Single headers and heads come from an endpoint with our chain, ranges and receipts from one with a deep fork.
#[tokio::test(start_paused = true)]
async fn nothing_old_is_final_by_the_word_of_two_endpoints() {
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
    assert_ne!(state.name(), StateName::Confirmed, "{state:?}, broken {:?}", broken(&node, &world));
}
