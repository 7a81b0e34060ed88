//! The benchmark behind `gapless bench`: starts a chain and nodes as processes, drives them over real HTTP, and
//! measures.
//!
//! - `options`, `shape`: the request. `report`: the result.
//! - `measure`: one file for each kind of measurement.
//! - `setup`: the setup of one measurement. `child`, `chain`, `database`, `node`: its parts.
//! - `driver`: callers with one connection each (`http`), and the nodes' progress (`metrics`).
//! - `accounting`: resource usage of processes. `percentiles`: of latencies.
//! - `bare`: a sender without a ledger, for comparison. [`raw`]: the same rows without Gapless, for comparison.
//!
//! The driver runs on one thread, because it shares the cores with the measured processes. Its own usage is reported
//! too.
//!
//! Architecture invariant: no code of this crate is part of the measured system. Nodes and chains are other processes,
//! known by their HTTP and by the operating system's accounting.

#![expect(clippy::disallowed_methods, reason = "what measures owns its clock, its tasks and its names")]

mod account;
mod accounting;
mod bare;
mod chain;
mod child;
mod database;
mod driver;
mod error;
mod folder;
mod http;
mod measure;
mod metrics;
mod node;
mod options;
mod order;
mod percentiles;
pub mod raw;
mod report;
mod rpc;
mod setup;
mod shape;

pub use error::LoadError;
pub use measure::run;
pub use options::{ChainChoice, Custom, Options};
pub use report::{Figure, Report, Row};
pub use shape::ShapeName;
