//! Private servers for tests and benchmarks: PostgreSQL, and the EVM nodes anvil and Hardhat.
//!
//! [`Postgres::start`] finds or fetches the PostgreSQL binaries, creates a data directory in a temporary folder, and
//! starts a server on a free loopback port. Everything is removed when the value is dropped or the process dies. A test
//! that only needs *a* database uses [`Postgres::shared_url`], the server that `cargo xtask test` starts for all tests.
//!
//! [`Anvil::start`] and [`HardhatNode::start`] start a chain node at one exact version. [`Schemathesis`] fuzzes an API
//! by its OpenAPI document. [`FaultProxy`] stands between a server and a client, and cuts the connection on request.
//!
//! Code that knows Gapless does not belong here. This crate depends on no other crate of the workspace, speaks no SQL
//! and no JSON-RPC, and is a dev-dependency only.

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
