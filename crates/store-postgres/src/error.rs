//! What PostgreSQL says, in the contract's words.

use gapless_store::StoreError;
use tokio_postgres::error::SqlState;

/// What a failed statement means for the rows of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// A value that the database cannot hold, or a constraint: the row's own fault, so others must not suffer.
    Row,
    /// A write did not find the rows that the check before it had seen (see `commit/write.rs`).
    Count,
    /// The server rolled back and said so: nothing happened.
    Server,
    /// No answer. If a commit was under way, nobody knows.
    Connection,
}

pub(crate) fn blame(error: &tokio_postgres::Error) -> Blame {
    match error.code() {
        None => Blame::Connection,
        Some(state) if *state == SqlState::DIVISION_BY_ZERO => Blame::Count,
        // 22: data exceptions (a NUL, a number too large), 23: constraint violations.
        Some(state) if state.code().starts_with("22") || state.code().starts_with("23") => Blame::Row,
        // 57P01..03: the server goes away, and says so while a statement is under way. Whether a COMMIT came before it is
        // not known. 08: the connection itself.
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

/// The server's own words, which the crate's Display leaves out.
pub(crate) fn text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => error.to_string(),
    }
}
