//! The embedded store: one SQLite file, one process.
//!
//! - `open`, `schema`: opening a database, and the versions of its schema
//! - `connection`, `ledger`: the database thread, reads, and write transactions
//! - `sidecar`: how a restored or rolled back file is noticed
//! - `accept`, `lease`, `commit`, `facts`, `change`, `reservation`: writes
//! - `load`, `read`, `events`, `head`, `retention`: reads, and retention
//! - `status`, `slots`, `audit`: reads for people
//! - `statement`, `commit_statements`, `rows`: parameters by name, and rows as domain values
//!
//! Architecture invariant: all SQL runs on one connection, in one thread, one transaction after the other. So every
//! answer is of one moment, no other write comes between a check and its commit, and no lock is ever waited for.

mod accept;
mod audit;
mod change;
mod clock;
mod commit;
mod commit_statements;
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
mod retention;
mod rows;
mod schema;
mod sidecar;
mod slots;
mod statement;
mod status;
mod store;

pub use clock::SqliteClock;
pub use open::{Location, SqliteOptions};
pub use schema::MIGRATIONS;
pub use store::SqliteStore;
