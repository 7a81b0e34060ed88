//! What the watcher sees and what follows from it: real engines, a chain in memory, time that passes as fast as it can.
//!
//! - `seen`: blocks, gaps, finality, reverts, forks below what was final
//! - `bad_company`: gaps too wide to walk, endpoints that lag or fail, other chains, slow answers
//! - `forgotten`: what was kept is taken away by an operator
//! - `worst_company`: endpoints that disagree, chains that go back, what is old and not final
#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what supports a test says by panicking what it expects, too")]

mod bad_company;
mod forgotten;
mod seen;
#[path = "../support/mod.rs"]
mod support;
mod worst_company;

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{Event, EventPosition, StateName, SubmitterId, TxId};
use gapless_store::Store;

use support::{Node, World, get, until_all};

const A_WHILE: Duration = Duration::from_secs(60);

/// A node, and one intent of the first lane that the chain has and no block.
async fn one_sent(world: &World) -> (Node, Vec<TxId>) {
    let node = world.node("a");
    let ids = node.submit(&world.lanes[0], 0..1).await;
    until_all(&node.store, &ids, StateName::Tracking, A_WHILE).await;
    (node, ids)
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn sub_state(store: &Arc<dyn Store>, id: TxId) -> Option<&'static str> {
    get(store, id).await.state.sub_state().map(|state| state.as_str())
}

async fn protected(store: &Arc<dyn Store>, lane: &SubmitterId) -> Option<&'static str> {
    let status = store.lane_status(std::slice::from_ref(lane)).await.unwrap().remove(0).unwrap();
    match status.cursor?.state {
        gapless_domain::LaneState::Protect(protection) => Some(protection.code.as_str()),
        _ => None,
    }
}

fn broken(node: &Node, world: &World) -> Option<&'static str> {
    let status = node.engine.view().chain_status(world.lanes[0].chain()).unwrap();
    status.broken().map(|broken| broken.code.as_str())
}

async fn events(store: &Arc<dyn Store>) -> Vec<Event> {
    store.read_events(EventPosition::default(), u32::MAX).await.unwrap()
}
