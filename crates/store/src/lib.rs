//! The store contract: the promises of the ledger to the rest of the program, with any database.
//!
//! - `roles`: the contract, one trait for each role: [`IntentIntake`], [`Leases`], [`Lanes`], [`Outbox`], [`Views`],
//!   [`Heads`] and [`Upkeep`]. [`Store`] is their sum, for the composition root.
//! - [`RetentionKind`]: the kinds of rows that retention moves or deletes.
//! - [`Model`]: the reference implementation, a small store in memory. The simulator runs on it.
//! - `conformance` (feature): the suite that the model and every database pass.
//! - `FaultyStore` (feature `faulty-store`): a store with faults in front, for tests and for the simulator.
//!
//! Architecture invariant: this crate knows no SQL, no chain and no engine. Each database has a crate of its own, and
//! these crates never import each other.

mod audit;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
#[cfg(feature = "faulty-store")]
mod faulty;
mod head;
mod model;
mod retention;
mod roles;
mod wake;

pub use audit::AuditRow;
pub use clock::{DatabaseClock, ManualClock};
pub use error::{RowError, StoreError};
#[cfg(feature = "faulty-store")]
pub use faulty::{ExecutedWrite, FaultyStore, PendingCall, StoreFaults, StoreVerb, VerbKind};
pub use gapless_domain::LaneSnapshot;
pub use head::merge_heads;
pub use model::{DomainRules, Model, ModelRules, ModelStore, Snapshot};
pub use retention::RetentionKind;
pub use roles::{
    Accepted, Acquired, AuditFilter, CancelVerdict, Census, CommitVerdict, Committed, Conflict, HeadVerdict, Heads,
    IntentIntake, LaneStatus, Lanes, LeaseStatus, Leases, Loaded, MAX_OPEN_COMMANDS, NewIntent, NewSubmitter, Outbox,
    Renewal, SlotStatus, Store, TxFilter, Upkeep, Views,
};
pub use wake::{WakeBoard, Wakeup, Wakeups, changed_lanes, has_visible_change};
