//! Everything at once: three nodes on PostgreSQL and the dev chain, callers who do not give up, and a seeded schedule of what goes
//! wrong in a data centre. In the end everything is healed, and every promise is checked (docs/chaos.md).
//!
//! - `rules`: for how long, and by which seed. `faults`: what can go wrong, and in which order it does. `world`: the nodes, their
//!   roads, the chain. `servers`: PostgreSQL and its standby. `callers`: who hands in work. `operator`: who reconciles lanes after commits
//!   were lost. `figures`: what is counted.
//! - `register`: what callers were told. `ledger`: what the nodes and their database say in the end. `scan`: what the chain says.
//!   `verdict`: what must be true of these three. `end_state`: the same by the simulator's own check. `violations`: what is not.
//!   `planted`: whether the verdict would see it.
//!
//! `cargo test` runs every fault once, which takes less than a minute; `cargo xtask chaos --minutes N` goes on for so long.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test and what it uses: it fails by panicking, owns its own time, and tells what it has seen"
)]

mod callers;
mod end_state;
mod faults;
mod figures;
mod ledger;
mod operator;
mod planted;
mod register;
mod rules;
mod scan;
mod servers;
#[allow(dead_code, unused_imports, reason = "the parts of the clusters in tests/cluster, which uses all of them")]
#[path = "../cluster/support/mod.rs"]
mod support;
mod verdict;
mod violations;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use faults::PROMOTED;
use figures::Total;
use gapless_sim::Dice;
use ledger::Ledger;
use rules::Rules;
use scan::Scan;
use world::World;

/// proves S02, S04, N11, N14, W02, O07
#[tokio::test(flavor = "multi_thread")]
async fn whatever_goes_wrong_in_whatever_order_every_accepted_intent_happens_exactly_once() {
    let rules = Rules::read();
    println!("chaos: {rules}");
    let world = Arc::new(World::start().await);
    let start = Instant::now();
    let over = AtomicBool::new(false);
    let trouble = async {
        faults::strike_all(&world, &rules, Dice::new(rules.seed, "faults")).await;
        over.store(true, Ordering::SeqCst);
    };
    tokio::join!(callers::hand_in(&world, rules.seed, &over), trouble);
    let troubled = start.elapsed();
    world.settle().await;
    let settled = start.elapsed();

    let told = world.register().read();
    let ledger = Ledger::read(&world).await;
    let scan = Scan::read(&world.chain, world.seen()).await;
    let has_lost = world.figures().of(PROMOTED) > 0;
    let effects = verdict::check(&told, &ledger, &scan, has_lost, world.violations());
    world.check_balances(&scan, &ledger).await;
    end_state::check(&world, &told, &ledger).await;
    let (intents, violations) = (told.len(), world.violations().read());
    world.figures().print(Total { intents, effects, violations: violations.len(), troubled, settled });
    for violation in &violations {
        println!("chaos: VIOLATION of {violation}");
    }
    if !violations.is_empty() {
        world.keep("told", &told);
        world.keep("ledger", &ledger.lanes);
        world.keep("orphaned", &scan.orphaned);
    }
    assert!(violations.is_empty(), "{} promises were not kept; {rules}", violations.len());
}
