//! Several engines on one store, and how lanes spread over them.
#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test panic too")]

#[allow(dead_code, reason = "not every test file uses all of it")]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{StateName, TxId};
use gapless_store::Store;
use support::{Node, World, until_all};

/// The number of lanes of each node, by its name.
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

/// Submits two intents for each lane. No block takes them, so that every lane has work until [`finish`].
async fn work(world: &World, node: &Node) -> Vec<TxId> {
    world.chain.script(|script| script.empty_blocks = true);
    let mut ids = Vec::new();
    for lane in &world.lanes {
        ids.extend(node.submit(lane, 0..2).await);
    }
    ids
}

/// All intents are confirmed, and each is one transaction, however often it was sent.
async fn finish(world: &World, node: &Node, ids: &[TxId]) {
    world.chain.script(|script| script.empty_blocks = false);
    until_all(&node.store, ids, StateName::Confirmed, Duration::from_secs(120)).await;
    for lane in &world.lanes {
        let mined: Vec<u64> = world.chain.mined(lane).into_iter().map(|(nonce, _)| nonce).collect();
        assert_eq!(mined, [0, 1], "{lane}");
    }
    let sent: BTreeSet<_> = world.chain.sends().into_iter().map(|tx| tx.hash).collect();
    assert_eq!(sent.len(), ids.len());
}

/// One node has all lanes when two more nodes start.
#[tokio::test(start_paused = true)]
async fn lanes_spread_over_nodes_that_start_later() {
    let world = World::new(60).await;
    let a = world.node("a");
    let ids = work(&world, &a).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(of(&spread(&world, &a.store).await, "a"), 60);
    let (b, c) = (world.node("b"), world.node("c"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let even = spread(&world, &a.store).await;
    assert!(["a", "b", "c"].iter().all(|name| (16..=24).contains(&of(&even, name))), "{even:?}");
    // The spread is stable.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let later = spread(&world, &a.store).await;
    assert!(["a", "b", "c"].iter().all(|name| (16..=24).contains(&of(&later, name))), "{later:?}");
    finish(&world, &b, &ids).await;
    drop(c);
}

/// The other nodes take over the lanes of a drained node, and share them evenly.
#[tokio::test(start_paused = true)]
async fn lanes_of_a_drained_node_spread_over_the_others() {
    let world = World::new(40).await;
    let a = world.node("a");
    let ids = work(&world, &a).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (b, c) = (world.node("b"), world.node("c"));
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert!(of(&spread(&world, &b.store).await, "a") > 0);
    a.engine.drain().await;
    tokio::time::sleep(Duration::from_secs(45)).await;
    let even = spread(&world, &b.store).await;
    assert_eq!(of(&even, "a"), 0);
    assert!(["b", "c"].iter().all(|name| (17..=23).contains(&of(&even, name))), "{even:?}");
    finish(&world, &b, &ids).await;
    drop(c);
}

/// A node without keys runs no lanes, and lanes do not move to and fro because of it.
#[tokio::test(start_paused = true)]
async fn lanes_stay_on_the_node_with_keys() {
    let mut world = World::new(20).await;
    let a = world.node("a");
    let lanes = std::mem::take(&mut world.lanes);
    let b = world.node("b");
    world.lanes = lanes;
    let ids = work(&world, &a).await;
    let mut away = 0;
    let mut rounds_with_some_away = 0;
    for _ in 0..240 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let here = of(&spread(&world, &a.store).await, "a");
        away += 20 - here;
        rounds_with_some_away += usize::from(here < 20);
    }
    assert!(away > 0, "the node has offered lanes");
    assert!(rounds_with_some_away <= 8, "lanes were away in {rounds_with_some_away} of 240 seconds");
    finish(&world, &a, &ids).await;
    drop(b);
}
