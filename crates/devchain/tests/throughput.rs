//! Throughput of the chain. Ignored by default:
//! `cargo test --release -p gapless-devchain --test throughput -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

mod support;

use std::io::Write;
use std::time::Instant;

use alloy_primitives::Bytes;
use gapless_devchain::{DEV_ACCOUNTS, DevChain, Genesis, PoolLimits};
use support::*;

const PER_ACCOUNT: u64 = 2_000;

#[test]
#[ignore = "a measurement, which says nothing in a debug build"]
#[expect(clippy::disallowed_methods, reason = "the benchmark measures elapsed time")]
fn transfers_per_second() {
    let mut genesis = Genesis::dev();
    genesis.limits.pool = PoolLimits::for_benchmarks();
    genesis.gas_limit = 30_000_000;
    let chain = DevChain::new(genesis);
    let raws: Vec<Bytes> =
        (0..PER_ACCOUNT).flat_map(|nonce| DEV_ACCOUNTS.map(|account| account.sign(transfer(nonce)).unwrap())).collect();
    let start = Instant::now();
    for raw in &raws {
        send(&chain, raw);
    }
    let sent = start.elapsed();
    let start = Instant::now();
    let mut mined = 0;
    while mined < raws.len() {
        // Otherwise the base fee would rise above the fee cap.
        chain.set_next_base_fee(1_000_000_000);
        mined += chain.mine(0).unwrap().txs.len();
    }
    let made = start.elapsed();
    let per_second = |took: std::time::Duration| raws.len() as f64 / took.as_secs_f64();
    let both = per_second(sent + made);
    let report = format!("sent {:.0}/s, mined {:.0}/s, both {both:.0}/s\n", per_second(sent), per_second(made));
    std::io::stdout().write_all(report.as_bytes()).unwrap();
    assert!(both > 1_000.0);
}
