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
mod contract;
mod error;
mod head;
mod migration;
mod model;
mod retention;
mod status;
mod verdict;
mod wake;

pub use audit::AuditRow;
pub use clock::{DatabaseClock, ManualClock};
pub use contract::{AuditFilter, MAX_OPEN_COMMANDS, NewIntent, NewSubmitter, Store, TxFilter};
pub use error::StoreError;
pub use gapless_domain::LaneSnapshot;
pub use head::merge_heads;
pub use migration::{Migration, Pending, pending};
pub use model::{Model, ModelStore, Snapshot};
pub use retention::RetentionKind;
pub use status::{Census, LaneStatus, LeaseStatus, SlotStatus};
pub use verdict::{
    Accepted, Acquired, CancelVerdict, CommitVerdict, Committed, Conflict, HeadVerdict, Loaded, Renewal,
};
pub use wake::{WakeBoard, Wakeup, Wakeups, changed_lanes, tells};
