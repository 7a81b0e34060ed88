//! Everything at once: three nodes on PostgreSQL and the dev chain, callers who do not give up, and a seeded schedule of what goes
//! wrong in a data centre. In the end everything is healed, and every promise is checked (docs/chaos.md).
//!
//! - `rules`: for how long, and by which seed. `faults`: what can go wrong, and in which order it does. `world`: the nodes, their
//!   roads, the database, the chain. `callers`: who hands in work. `figures`: what is counted. `verdict`: what must be true when it is
//!   over.
//!
//! `cargo test` runs every fault once, which takes half a minute; `cargo xtask chaos --minutes N` goes on for so long.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test and what it uses: it fails by panicking, owns its own time, and tells what it has seen"
)]

mod callers;
mod dice;
mod faults;
mod figures;
mod rules;
#[allow(dead_code, unused_imports, reason = "the parts of the clusters in tests/cluster, which uses all of them")]
#[path = "../cluster/support/mod.rs"]
mod support;
mod verdict;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use dice::Dice;
use rules::Rules;
use world::World;

/// proves S02, S04, N11, N14, W02
#[tokio::test(flavor = "multi_thread")]
async fn whatever_goes_wrong_in_whatever_order_every_accepted_intent_happens_exactly_once() {
    let rules = Rules::read();
    println!("chaos: {rules}");
    let world = Arc::new(World::start().await);
    let start = Instant::now();
    let over = AtomicBool::new(false);
    let trouble = async {
        faults::strike_all(&world, &rules, Dice::new(rules.seed)).await;
        over.store(true, Ordering::SeqCst);
    };
    let (accepted, ()) = tokio::join!(callers::hand_in(&world, rules.seed, &over), trouble);
    let troubled = start.elapsed();
    world.settle().await;
    let settled = start.elapsed();
    verdict::assert_promises_kept(&world, &accepted).await;
    world.figures().print(&accepted, troubled, settled);
}
