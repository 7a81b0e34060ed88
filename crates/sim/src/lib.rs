//! The simulator: seeded worlds that test the promises P1 to P9. A world has several nodes with the real engine,
//! watcher and lanes, on a simulated network, database and chain that inject faults. One seed decides one world. A
//! world runs on one thread, and every run of a seed is the same.
//!
//! - `dice`, `fault`, `world_spec`: randomness, faults and the specification of a world
//! - `script`: faults at named moments
//! - `stage`, `node_clock`, `net`: the executor with its simulated time, the clocks of nodes, and requests that travel
//! - `store`, `chain`: the database; the chain with its blocks, pools and endpoints
//! - `signer`: the signers of a world and of tests
//! - `process`, `process_faults`: the nodes' processes, and the faults that hit them and the database
//! - `people`: callers, callers that sign by themselves, and operators
//! - `planted`: planted bugs, which the checks must find
//! - `world`, `outcome`: one running world, and its result
//! - `run`, `replay`, `shrink`: runs one world or many, prints the command that repeats a world, finds the smallest
//!   world that still fails
//! - `history`, `describe`: all moments of a world, and their texts
//! - `check`: the checks, one file for each promise
//! - `testing`: the parts that tests of other crates use
//!
//! Architecture invariant: the simulator reads no clock, starts no thread inside of a world, and takes no randomness
//! from the operating system. The seed alone decides what happens next. (`testing` is outside of every world.)

pub mod chain;
pub mod check;
mod describe;
mod dice;
mod fault;
pub mod history;
mod net;
mod node_clock;
mod outcome;
mod people;
mod planted;
mod process;
mod process_faults;
mod replay;
mod run;
mod script;
mod shrink;
mod signer;
mod stage;
mod store;
pub mod testing;
mod world;
mod world_spec;

pub use dice::Dice;
pub use fault::{Fault, Faults, Odds};
pub use net::{Net, TravelTime};
pub use outcome::{Figures, Outcome};
pub use planted::Mistake;
pub use replay::{WorldOverrides, command};
pub use run::{Batch, Summary, run, run_batch, run_traced};
pub use script::{Cue, Landmark};
pub use shrink::shrink;
pub use stage::{Stage, TaskOwner};
pub use world_spec::{StoreKind, WorldSpec};
