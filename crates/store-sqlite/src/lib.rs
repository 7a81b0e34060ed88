//! The embedded store: one SQLite file, one process.
//!
//! - `open`, `schema`: getting hold of a database, and its versions
//! - `connection`, `ledger`: the one thread, reads, and write transactions
//! - `sidecar`: how a restored or rolled back file is noticed
//! - `accept`, `lease`, `commit`, `change`, `reservation`: what is written
//! - `load`, `read`, `rows`, `events`, `head`, `retention`: what comes out again, and retention
//! - `status`, `slots`, `audit`: what people ask
//!
//! Architecture invariant: all SQL runs on one connection, inside one thread, one transaction after the other. So every
//! answer is of one moment, a check cannot be overtaken by another write before its commit, and no lock is ever waited for.

mod accept;
mod audit;
mod change;
mod clock;
mod commit;
mod connection;
mod error;
mod events;
mod head;
mod lease;
mod ledger;
mod load;
mod open;
mod read;
mod reservation;
mod retention;
mod rows;
mod schema;
mod sidecar;
mod slots;
mod status;
mod store;

pub use clock::SystemClock;
pub use open::{Location, SqliteOptions};
pub use store::SqliteStore;
