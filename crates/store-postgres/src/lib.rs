//! The store on PostgreSQL: the authority that any number of nodes share.
//!
//! How it keeps its promises:
//!
//! - **The fence.** The first statement of every fenced transaction locks the lease rows it relies on, by database time and
//!   with `SKIP LOCKED`; a takeover has to lock the same row, so it cannot pass between the check and the commit.
//! - **Two flights.** A commit sends its locks and reads in one go, decides, and sends its writes and `COMMIT` in another.
//!   Until the second flight leaves, nothing can have been committed; after it, the outcome can be read back.
//! - **The canary.** Every commit raises the counter of its process. It tells whether a commit whose answer was lost went
//!   through, and whether the server has lost commits that it had acknowledged.
//!
//! Architecture invariant: SQL lives here and nowhere above. Nothing here decides what a lane should do.

mod accept;
mod audit;
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
pub use store::PgStore;
