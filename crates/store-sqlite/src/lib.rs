//! The embedded store: one SQLite file, one process.
//!
//! - `open`, `schema`: opening a database, and its versions
//! - `connection`, `ledger`: the one thread, reads, and write transactions
//! - `sidecar`: detection of a restored or rolled back file
//! - `accept`, `lease`, `commit`, `facts`, `change`, `reservation`: writes
//! - `load`, `read`, `rows`, `events`, `head`, `archive`: reads and retention
//! - `status`, `slots`, `audit`: reads for operators
//!
//! Architecture invariant: all SQL runs on one connection, inside one thread, one transaction after the other. So every
//! answer shows one moment, no other write comes between a check and its commit, and no call waits for a lock.

mod accept;
mod archive;
mod audit;
mod change;
mod clock;
mod commit;
mod connection;
mod error;
mod events;
mod facts;
mod head;
mod lease;
mod ledger;
mod load;
mod open;
mod read;
mod reservation;
mod rows;
mod schema;
mod sidecar;
mod slots;
mod status;
mod store;

pub use clock::SystemClock;
pub use open::{Location, SqliteOptions};
pub use store::SqliteStore;
