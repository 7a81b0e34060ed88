//! The watcher in whole engines, on the simulator's chain and a paused clock.
//!
//! - `confirmations`: blocks, gaps, finality, reverts, reorgs below the final block
//! - `gaps_and_endpoints`: gaps too wide to walk, endpoints that lag or fail, other chains, slow answers
//! - `accept_chain`: an operator accepts the chain as it is
//! - `endpoint_disagreement`: endpoints that disagree, chains that go back, old blocks that are not final
#![allow(clippy::disallowed_methods, reason = "a test owns its own time and tasks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test panic too")]

mod accept_chain;
mod confirmations;
mod endpoint_disagreement;
mod gaps_and_endpoints;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{Event, EventPosition, StateName, SubmitterId, TxId};
use gapless_store::Store;

use support::{Node, World, get, until_all};

const A_WHILE: Duration = Duration::from_secs(60);

/// A node, and one intent of the first lane whose transaction is pooled and in no block.
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

fn finality_violation(node: &Node, world: &World) -> Option<&'static str> {
    let status = node.engine.view().chain_status(world.lanes[0].chain()).unwrap();
    status.broken().map(|broken| broken.code.as_str())
}

async fn events(store: &Arc<dyn Store>) -> Vec<Event> {
    store.read_events(EventPosition::default(), u32::MAX).await.unwrap()
}
