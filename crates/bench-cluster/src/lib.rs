//! What `gapless bench` does: it starts a chain and nodes as processes of their own, drives them over real HTTP, and measures.
//!
//! - `options`, `shape`: what is asked for. `report`: what comes out.
//! - `measure`: one file for each kind of measurement.
//! - `scene`: the chain, the database and the nodes of one measurement, and their end. `child`, `chain`, `database`, `node`: its parts.
//! - `driver`: callers with one connection each (`http`), and how far the nodes have come (`metrics`).
//! - `accounting`: what processes have used. `percentiles`: of what was timed.
//! - `bare`: a sender without a ledger, to compare with. [`raw`]: the same rows without Gapless, to compare with.
//!
//! Everything of the driver runs on one thread: it shares its cores with what it measures, and what it takes itself is reported too.
//!
//! Architecture invariant: nothing in here takes part in what is measured. Nodes and chains are other processes, known by their HTTP
//! and by what the system accounts to them.

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
mod scene;
mod shape;

pub use error::LoadError;
pub use measure::run;
pub use options::{ChainChoice, Custom, Options};
pub use report::{Figure, Report, Row};
pub use shape::ShapeName;
