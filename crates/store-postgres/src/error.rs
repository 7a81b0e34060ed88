//! Errors of PostgreSQL as errors of the store contract.

use gapless_store::StoreError;
use tokio_postgres::error::SqlState;

/// The cause of a failed statement, which decides what the rows of its batch mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// A value that the database cannot hold, or a constraint. One row is at fault, and the others must not fail with
    /// it.
    Row,
    /// A write did not find the rows that the check before it had seen (see `commit/statements.rs`).
    Count,
    /// The server rolled back and said so.
    Server,
    /// No answer. The outcome of a commit that was under way is unknown.
    Connection,
}

pub(crate) fn blame(error: &tokio_postgres::Error) -> Blame {
    match error.code() {
        None => Blame::Connection,
        Some(state) if *state == SqlState::DIVISION_BY_ZERO => Blame::Count,
        // 22: data exceptions (a NUL, a number too large), 23: constraint violations.
        Some(state) if state.code().starts_with("22") || state.code().starts_with("23") => Blame::Row,
        // 57P01..03: the server shuts down while a statement is under way. Whether a COMMIT was done before is not
        // known. 08: the connection failed.
        Some(state) if state.code().starts_with("57P") || state.code().starts_with("08") => Blame::Connection,
        Some(_) => Blame::Server,
    }
}

pub(crate) fn unavailable(error: tokio_postgres::Error) -> StoreError {
    if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) {
        return StoreError::ReadOnly(text(&error));
    }
    if error.code() == Some(&SqlState::DISK_FULL) {
        return StoreError::Full(text(&error));
    }
    StoreError::Unavailable(Box::new(error))
}

pub(crate) fn timed_out(what: &'static str) -> StoreError {
    StoreError::Unavailable(Box::new(TimedOut(what)))
}

#[derive(Debug, thiserror::Error)]
#[error("no answer in time: {0}")]
pub(crate) struct TimedOut(pub(crate) &'static str);

/// The message of the server, which the Display of the driver leaves out.
pub(crate) fn text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => error.to_string(),
    }
}
