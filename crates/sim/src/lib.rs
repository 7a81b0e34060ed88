//! Seeded worlds, to prove it: several nodes with the real engine, watcher and lanes, on a made-up network, database and chain that do
//! everything to them that the real ones do, and worse. One seed is one world, one thread, and always the same run.
//!
//! - `dice`, `fault`, `plan`: what the seed decides
//! - `script`: faults at named moments
//! - `stage`, `node_clock`, `net`: tasks, time, and requests that travel
//! - `store`, `chain`: the database, and blocks, pools and endpoints
//! - `process`, `trouble`: nodes, and what happens to them
//! - `people`: callers, borrowers, operators
//! - `world`, `outcome`: all of it together, and what became of it
//! - `run`, `replay`, `shrink`: one world or many, the same one again, and the smallest one that still fails
//! - `history`, `words`: what happened, and in words
//! - `check`: the promises, one file each
//! - `testing`: the parts that tests of other crates use
//!
//! Architecture invariant: nothing here reads a clock, starts a thread inside of a world, or asks the operating system for chance. What
//! happens next is decided by the seed alone. (`testing` is outside of every world.)

pub mod chain;
pub mod check;
mod dice;
mod fault;
pub mod history;
mod net;
mod node_clock;
mod outcome;
mod people;
mod plan;
mod process;
mod replay;
mod run;
mod script;
mod shrink;
mod stage;
mod store;
pub mod testing;
mod trouble;
mod words;
mod world;

pub use dice::Dice;
pub use fault::{Fault, Faults, Odds};
pub use net::{Net, Way};
pub use outcome::{Figures, Outcome};
pub use plan::{Plan, StoreKind};
pub use replay::{Changes, command};
pub use run::{Batch, Summary, can_make_mistakes, make, run, run_batch, run_traced};
pub use script::{Cue, Landmark};
pub use shrink::shrink;
pub use stage::{Home, Stage};
