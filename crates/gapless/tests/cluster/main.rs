//! Whole clusters of real processes: several `gapless serve`, PostgreSQL or SQLite, and anvil, Hardhat or the dev chain.
//!
//! Each test starts what it needs, on loopback ports that the system chose, and waits on what can be seen from outside
//! (HTTP, rows, blocks), never on time that passes. Run it with
//! `cargo xtask with-postgres -- cargo test -p gapless --test cluster`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests and what they use: they fail by panicking, and own their own time"
)]

mod control;
mod crashes;
mod cuts;
mod endpoints;
mod fees;
mod finality;
mod funds;
mod handover;
mod late;
mod lending;
mod many_creates;
mod orders;
mod outages;
mod prices;
mod races;
mod reorgs;
mod rolling;
mod same_request;
mod secrets;
mod spread;
mod strangers;
mod stuck;
mod support;
mod takeover;
