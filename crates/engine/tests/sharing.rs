//! Nodes that share the work: several engines on one store, and how lanes spread over them.
#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what supports a test says by panicking what it expects, too")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{StateName, TxId};
use gapless_store::Store;
use support::{Node, World, until_all};

/// How many lanes each node holds, by name.
async fn spread(world: &World, store: &Arc<dyn Store>) -> BTreeMap<String, usize> {
    let mut spread = BTreeMap::new();
    for status in store.lane_status(&world.lanes).await.unwrap().into_iter().flatten() {
        if let Some(lease) = status.lease.filter(|lease| lease.valid) {
            let name = lease.owner.to_string().split('/').next().unwrap().to_owned();
            *spread.entry(name).or_default() += 1;
        }
    }
    spread
}

fn of(spread: &BTreeMap<String, usize>, name: &str) -> usize {
    spread.get(name).copied().unwrap_or(0)
}

/// Work that keeps every lane busy for so many blocks: one transaction goes into each.
async fn work(world: &World, node: &Node, blocks: u64) -> Vec<TxId> {
    let mut ids = Vec::new();
    for lane in &world.lanes {
        ids.extend(node.submit(lane, 0..blocks).await);
    }
    ids
}

/// Nothing was lost, and nothing was sent twice as another transaction.
fn is_whole(world: &World, each: u64) {
    for lane in &world.lanes {
        let mined: Vec<u64> = world.chain.mined(lane).into_iter().map(|(nonce, _)| nonce).collect();
        assert_eq!(mined, (0..each).collect::<Vec<_>>(), "{lane}");
    }
    let mut bytes: Vec<_> = world.chain.sends().into_iter().map(|tx| tx.hash).collect();
    bytes.sort_unstable();
    bytes.dedup();
    assert_eq!(bytes.len() as u64, each * world.lanes.len() as u64, "one transaction for each intent");
}

/// One node has all the lanes when the others come.
#[tokio::test(start_paused = true)]
async fn lanes_spread_over_nodes_that_come_later() {
    let world = World::new(60).await;
    let a = world.node("a");
    let ids = work(&world, &a, 90).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(of(&spread(&world, &a.store).await, "a"), 60);
    let (b, c) = (world.node("b"), world.node("c"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let even = spread(&world, &a.store).await;
    assert!(["a", "b", "c"].iter().all(|name| (16..=24).contains(&of(&even, name))), "{even:?}");
    // And it stays so.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let later = spread(&world, &a.store).await;
    assert!(["a", "b", "c"].iter().all(|name| (16..=24).contains(&of(&later, name))), "{later:?}");
    until_all(&b.store, &ids, StateName::Confirmed, Duration::from_secs(300)).await;
    is_whole(&world, 90);
    drop(c);
}

/// What a node leaves behind is taken over by the others, and evened out.
#[tokio::test(start_paused = true)]
async fn lanes_of_a_node_that_leaves_go_to_the_others() {
    let world = World::new(40).await;
    let a = world.node("a");
    let ids = work(&world, &a, 120).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (b, c) = (world.node("b"), world.node("c"));
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert!(of(&spread(&world, &b.store).await, "a") > 0);
    a.engine.drain().await;
    tokio::time::sleep(Duration::from_secs(45)).await;
    let even = spread(&world, &b.store).await;
    assert_eq!(of(&even, "a"), 0);
    assert!(["b", "c"].iter().all(|name| (17..=23).contains(&of(&even, name))), "{even:?}");
    until_all(&b.store, &ids, StateName::Confirmed, Duration::from_secs(300)).await;
    is_whole(&world, 120);
    drop(c);
}

/// Another node lives, and has no keys: it runs nothing, and lanes are not sent to and fro for its sake.
#[tokio::test(start_paused = true)]
async fn lanes_stay_where_the_keys_are() {
    let mut world = World::new(20).await;
    let a = world.node("a");
    let lanes = std::mem::take(&mut world.lanes);
    let b = world.node("b");
    world.lanes = lanes;
    let ids = work(&world, &a, 300).await;
    let mut away = 0;
    let mut rounds_with_some_away = 0;
    for _ in 0..240 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let here = of(&spread(&world, &a.store).await, "a");
        away += 20 - here;
        rounds_with_some_away += usize::from(here < 20);
    }
    assert!(away > 0, "it has tried");
    assert!(rounds_with_some_away <= 8, "they were away in {rounds_with_some_away} of 240 seconds");
    until_all(&a.store, &ids, StateName::Confirmed, Duration::from_secs(300)).await;
    is_whole(&world, 300);
    drop(b);
}
