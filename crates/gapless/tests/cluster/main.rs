//! Whole clusters of real processes: several `gapless serve`, PostgreSQL or SQLite, and anvil.
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

mod crashes;
mod handover;
mod late;
mod many_creates;
mod outages;
mod same_request;
mod secrets;
mod support;
mod takeover;
