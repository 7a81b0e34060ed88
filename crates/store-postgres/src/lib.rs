//! The store on PostgreSQL, which any number of nodes share.
//!
//! - **The fence.** The first statement of every fenced transaction locks the lease rows that it relies on, by database
//!   time and with `SKIP LOCKED`. A takeover locks the same row, so it cannot happen between the check and the commit.
//! - **Two flights.** A commit sends its locks and reads together, decides, and sends its writes and `COMMIT` together.
//!   Before the second flight leaves, the commit cannot have happened; after it, the outcome can be read back.
//! - **The canary.** Every commit raises the counter of its process. The counter tells whether a commit with a lost
//!   answer went through, and whether the server has lost commits that it had acknowledged.
//!
//! Architecture invariant: PostgreSQL's SQL is in this crate only. No decision about a lane is made here.

mod accept;
mod audit;
mod bulk;
mod canary;
mod commit;
mod counted;
mod error;
mod events;
mod heads;
mod identity;
mod lease;
mod load;
mod notify;
mod options;
mod read;
mod retention;
mod rows;
mod schema;
mod session;
mod slots;
mod status;
mod store;
mod sweep;

pub use options::PgOptions;
pub use schema::MIGRATIONS;
pub use store::PgStore;
