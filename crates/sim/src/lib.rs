//! Seeded worlds, to prove it: several nodes with the real engine, watcher and lanes, on a made-up network, database and chain that do
//! everything to them that the real ones do, and worse. One seed is one world, one thread, and always the same run.
//!
//! - `dice`, `fault`, `plan`: what the seed decides
//! - `stage`, `node_clock`, `net`: tasks, time, and requests that travel
//! - `chain`: blocks, pools and endpoints
//! - `history`, `words`: what happened, and in words
//! - `check`: the promises, one file each
//!
//! Architecture invariant: nothing here reads a clock, starts a thread inside of a world, or asks the operating system for chance. What
//! happens next is decided by the seed alone.

pub mod chain;
pub mod check;
mod dice;
mod fault;
pub mod history;
mod net;
mod node_clock;
mod plan;
mod stage;
mod words;

pub use dice::Dice;
pub use fault::{Fault, Faults, Odds};
pub use net::{Net, Way};
pub use plan::{Plan, StoreKind};
pub use stage::{Home, Stage};
