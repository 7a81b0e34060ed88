//! Private servers for tests and benchmarks: PostgreSQL, and the EVM nodes anvil and Hardhat.
//!
//! [`Postgres::start`] finds (or fetches) the PostgreSQL binaries, makes a data directory in a temporary folder,
//! starts a server on a free loopback port, and removes everything when it is dropped, or when the process dies,
//! however it dies. Tests that only need *a* database do not start one: they take [`Postgres::shared_url`], the
//! server that `cargo xtask test` has started for all of them.
//!
//! [`Anvil::start`] and [`HardhatNode::start`] do the same for a chain node, at one exact version. [`Schemathesis`] fuzzes an API by
//! its OpenAPI document. [`FaultProxy`] stands between a server and whoever is to lose it.
//!
//! What must not be in here: anything that knows Gapless. This crate depends on nothing of the workspace, speaks
//! no SQL and no JSON-RPC, and is a dev-dependency only.

mod account;
mod anvil;
mod binaries;
mod clock;
mod command;
mod error;
mod fault_proxy;
mod fetch;
mod folder;
mod hardhat;
mod kept;
mod node;
mod npm;
mod schemathesis;
mod server;
mod standby;
mod supervisor;

pub use anvil::{Anvil, AnvilOptions};
pub use error::Error;
pub use fault_proxy::FaultProxy;
pub use hardhat::{HardhatNode, HardhatOptions};
pub use node::Mining;
pub use schemathesis::Schemathesis;
pub use server::{Options, Postgres, SHARED_URL_ENV};
