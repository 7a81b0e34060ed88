//! The store contract: what the ledger promises to the rest of the house, whoever keeps it.
//!
//! - [`Store`] is the contract, [`verdict`](crate::CommitVerdict) its answers.
//! - [`Model`] is the reference: a store in memory, small enough to be read in one sitting. The simulator runs on it.
//! - `conformance` (a feature) is the one suite that the model and every real store pass.
//! - [`codec`] turns domain values into what rows hold, the same for all SQL stores.
//!
//! Architecture invariant: nothing here knows SQL, a chain, or the engine. Implementations live in crates of their own and
//! never import each other.

mod audit;
mod clock;
pub mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
#[cfg(feature = "faulty-store")]
mod faulty;
mod head;
mod migration;
mod model;
mod roles;
mod wake;

pub use audit::AuditRow;
pub use clock::{DatabaseClock, ManualClock};
pub use error::StoreError;
#[cfg(feature = "faulty-store")]
pub use faulty::{ExecutedWrite, FaultyStore, PendingCall, StoreFaults, StoreVerb, VerbKind};
pub use gapless_domain::LaneSnapshot;
pub use head::merge_heads;
pub use migration::{Migration, Pending, pending};
pub use model::{Model, ModelStore, Snapshot};
pub use roles::{
    Accepted, Acquired, AuditFilter, CancelVerdict, Census, CommitVerdict, Committed, Conflict, HeadVerdict, Heads,
    IntentIntake, LaneStatus, Lanes, LeaseStatus, Leases, Loaded, MAX_OPEN_COMMANDS, NewIntent, NewSubmitter, Outbox,
    Renewal, SlotStatus, Store, TxFilter, Upkeep, Views,
};
pub use wake::{WakeBoard, Wakeup, Wakeups, changed_lanes, tells};
