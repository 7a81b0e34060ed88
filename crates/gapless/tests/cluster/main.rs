//! Tests of whole clusters of real processes: several `gapless serve`, PostgreSQL or SQLite, and anvil, Hardhat or the
//! dev chain.
//!
//! Each test starts the processes that it needs, on free loopback ports, and waits for facts that are visible from
//! outside (HTTP, rows, blocks), never for a fixed time. Run them with `cargo xtask with-postgres -- cargo test -p
//! gapless --test cluster`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests fail by panicking, and read the real clock"
)]

mod caller_fees;
mod cancel_and_replace;
mod concurrent_creates;
mod crash_points;
mod endpoint_failures;
mod fee_spike;
mod finality;
mod foreign_transactions;
mod funds;
mod handover;
mod idempotency;
mod intent_outcomes;
mod network_partitions;
mod outages;
mod rebalancing;
mod reorg;
mod reservations;
mod resubmit_and_expiry;
mod rolling_restart;
mod secrets;
mod stop_points;
mod stuck;
mod support;
mod takeover;
