//! Private PostgreSQL servers for tests and benchmarks.
//!
//! [`Postgres::start`] finds (or fetches) the PostgreSQL binaries, makes a data directory in a temporary folder,
//! starts a server on a free loopback port, and removes everything when it is dropped, or when the process dies,
//! however it dies. Tests that only need *a* database do not start one: they take [`Postgres::shared_url`], the
//! server that `cargo xtask test` has started for all of them.
//!
//! What must not be in here: anything that knows Gapless. This crate depends on nothing of the workspace, speaks
//! no SQL, and is a dev-dependency only.

mod account;
mod binaries;
mod clock;
mod error;
mod fetch;
mod folder;
mod server;
mod standby;
mod supervisor;

pub use error::Error;
pub use server::{Options, Postgres, SHARED_URL_ENV};
