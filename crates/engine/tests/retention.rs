//! Tests of the retention loop: moved and deleted rows, one node at a time, and failures of the store.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test")]

#[path = "support/store_faults.rs"]
#[allow(dead_code, reason = "other tests use other faults")]
mod store_faults;
#[allow(dead_code, reason = "other tests use other parts of it")]
mod support;

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{RequestId, StateName, TxId};
use gapless_engine::{EngineOptions, NoFaults, RetentionOptions};
use gapless_store::{FaultyStore, RetentionKind, Store, TxFilter};
use store_faults::SwitchedFaults;
use support::{World, get, until_all};

const A_WHILE: Duration = Duration::from_secs(60);

fn short() -> EngineOptions {
    let retention = RetentionOptions {
        after: Some(Duration::from_secs(30)),
        events_after: Some(Duration::from_secs(60)),
        attempts_after: Some(Duration::from_secs(90)),
        interval: Duration::from_secs(5),
        batch: 3,
        pause: Duration::from_millis(200),
        ..RetentionOptions::never()
    };
    EngineOptions { retention, ..EngineOptions::default() }
}

async fn listed(store: &Arc<dyn Store>) -> usize {
    store.list(&TxFilter { limit: 1000, ..TxFilter::default() }).await.unwrap().len()
}

/// The numbers of intents that still have events, and attempts.
async fn kept(store: &Arc<dyn Store>, ids: &[TxId]) -> (usize, usize) {
    let (mut events, mut attempts) = (0, 0);
    for id in ids {
        events += usize::from(!store.events_of(*id, 1).await.unwrap().is_empty());
        attempts += usize::from(!store.attempts(*id).await.unwrap().is_empty());
    }
    (events, attempts)
}

/// proves S11
#[tokio::test(start_paused = true)]
async fn ended_intents_leave_step_by_step_and_still_answer() {
    let world = World::new(2).await.window(8);
    let nodes = [world.node_running(world.store("a"), short()), world.node_running(world.store("b"), short())];
    let store = &nodes[0].store;
    let mut ids = nodes[0].submit(&world.lanes[0], 0..10).await;
    ids.extend(nodes[1].submit(&world.lanes[1], 0..10).await);
    until_all(store, &ids, StateName::Confirmed, A_WHILE).await;
    let before = store.get(&ids).await.unwrap();
    assert_eq!((listed(store).await, kept(store, &ids).await), (20, (20, 20)));
    tokio::time::sleep(Duration::from_secs(45)).await;
    assert_eq!((listed(store).await, kept(store, &ids).await), (0, (20, 20)), "moved out, batch after batch");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(kept(store, &ids).await, (0, 20));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(kept(store, &ids).await, (0, 0));

    assert_eq!(store.get(&ids).await.unwrap(), before);
    let again = nodes[1].submit(&world.lanes[0], 0..10).await;
    assert_eq!(again, ids[..10], "a request id is answered for ever");
    let request = RequestId::restore("r3");
    assert_eq!(store.find_request(&world.lanes[1], &request).await.unwrap(), Some(ids[13]));
    let next = nodes[0].submit(&world.lanes[0], 10..11).await;
    until_all(store, &next, StateName::Confirmed, A_WHILE).await;
    assert_eq!(get(store, next[0]).await.state.nonce().unwrap().get(), 10, "nonces go on");
}

#[tokio::test(start_paused = true)]
async fn store_failure_delays_retention_and_does_not_end_it() {
    let world = World::new(1).await;
    let store = Arc::new(FaultyStore::new(world.store("a"), SwitchedFaults::default()));
    let node = world.node_running(Arc::clone(&store) as Arc<dyn Store>, short());
    let ids = node.submit(&world.lanes[0], 0..2).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    store.faults().set().is_down = true;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let inspector = world.store("inspector");
    assert_eq!(listed(&inspector).await, 2);
    store.faults().set().is_down = false;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(listed(&inspector).await, 0);
}

#[tokio::test(start_paused = true)]
async fn only_the_claiming_node_applies_retention() {
    let world = World::new(1).await;
    let node = world.node_with(world.store("a"), Arc::new(NoFaults));
    let ids = node.submit(&world.lanes[0], 0..2).await;
    until_all(&node.store, &ids, StateName::Confirmed, A_WHILE).await;
    drop(node);
    let holder = world.store("holder");
    assert!(holder.claim_retention().await.unwrap().is_some());
    let _waiting = world.node_running(world.store("b"), short());
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(holder.claim_retention().await.unwrap().is_some());
    }
    assert_eq!(listed(&holder).await, 2, "another process holds the claim");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(listed(&holder).await, 0, "a claim that ran out is taken over");
    assert_eq!(holder.apply_retention(RetentionKind::Intents, Duration::ZERO, 10).await.unwrap(), 0);
}
