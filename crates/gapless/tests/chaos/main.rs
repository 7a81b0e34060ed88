//! Chaos test: three nodes on PostgreSQL and the dev chain, callers that repeat their requests, and a seeded schedule
//! of faults. At the end all faults heal, and every promise is checked (docs/chaos.md).
//!
//! - `settings`: duration and seed. `faults`: the faults and their order. `cluster`: the nodes, their proxies and the
//!   chain. `servers`: PostgreSQL and its standby. `callers`: the requests. `operator`: reconciles lanes after lost
//!   commits. `statistics`: counters.
//! - `answers`: the answers that callers got. `ledger`: the ledger at the end. `scan`: the chain at the end.
//!   `promises`: compares these three. `end_state`: the same check by the simulator. `violations`: the broken promises.
//!   `checker_tests`: tests of `promises`.
//!
//! `cargo test` runs every fault once, in less than a minute. `cargo xtask chaos --minutes N` runs for a given time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests fail by panicking, read the real clock, and print their statistics"
)]

mod answers;
mod callers;
mod checker_tests;
mod cluster;
mod end_state;
mod faults;
mod ledger;
mod operator;
mod promises;
mod scan;
mod servers;
mod settings;
mod statistics;
#[allow(dead_code, unused_imports, reason = "shared with tests/cluster, which uses all of it")]
#[path = "../cluster/support/mod.rs"]
mod support;
mod violations;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gapless_sim::Dice;

use cluster::ChaosCluster;
use faults::PROMOTED;
use ledger::LedgerSnapshot;
use scan::ChainScan;
use settings::RunSettings;
use statistics::RunTotals;

/// proves S02, S04, N11, N14, W02, O07
#[tokio::test(flavor = "multi_thread")]
async fn accepted_intents_take_effect_once_under_all_faults() {
    let settings = RunSettings::read();
    println!("chaos: {settings}");
    let cluster = Arc::new(ChaosCluster::start().await);
    let start = Instant::now();
    let over = AtomicBool::new(false);
    let faults = async {
        faults::inject_all(&cluster, &settings, Dice::new(settings.seed, "faults")).await;
        over.store(true, Ordering::SeqCst);
    };
    tokio::join!(callers::send_requests(&cluster, settings.seed, &over), faults);
    let faulted = start.elapsed();
    cluster.settle().await;
    let settled = start.elapsed();

    let answers = cluster.answers().read();
    let ledger = LedgerSnapshot::read(&cluster).await;
    let scan = ChainScan::read(&cluster.chain, cluster.replaced_blocks()).await;
    let has_lost = cluster.statistics().of(PROMOTED) > 0;
    let effects = promises::check(&answers, &ledger, &scan, has_lost, cluster.violations());
    cluster.check_balances(&scan, &ledger).await;
    end_state::check(&cluster, &answers, &ledger).await;
    let (intents, violations) = (answers.len(), cluster.violations().read());
    cluster.statistics().print(RunTotals { intents, effects, violations: violations.len(), faulted, settled });
    for violation in &violations {
        println!("chaos: VIOLATION of {violation}");
    }
    if !violations.is_empty() {
        cluster.keep("answers", &answers);
        cluster.keep("ledger", &ledger.lanes);
        cluster.keep("orphaned", &scan.orphaned);
    }
    assert!(violations.is_empty(), "{} violations of promises; {settings}", violations.len());
}
