//! Errors of a whole call. The failure of a single item is a verdict.

use std::error::Error;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is not reachable, too slow, or rolled the transaction back. The call changed nothing and may be
    /// repeated later.
    #[error("the database is not available: {0}")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// The answer of a commit was lost, and the outcome could not be read back.
    #[error("the outcome of a commit is unknown: {0}")]
    OutcomeUnknown(#[source] Box<dyn Error + Send + Sync>),
    /// The database lost commits that it had acknowledged. The call wrote nothing. A new store epoch has begun, which
    /// every lane must acknowledge.
    #[error("the database lost commits: {0}")]
    Regressed(String),
    #[error("the database has schema version {found}, this program knows up to {known}; run a newer gapless")]
    SchemaIsNewer { found: i64, known: i64 },
    #[error("the database has schema version {found}, this program needs {known}; run `gapless migrate`")]
    SchemaIsOlder { found: i64, known: i64 },
    #[error("migration {version} of the database differs from the one of this program")]
    MigrationDiffers { version: i64 },
    #[error("another process uses the database file {0}")]
    InUse(String),
    #[error("the database cannot be written: {0}")]
    ReadOnly(String),
    #[error("there is no space left for the database: {0}")]
    Full(String),
    #[error("the database file is damaged: {0}")]
    Damaged(String),
    #[error("a stored row cannot be read: {0}")]
    Row(#[from] RowError),
    #[error("the store is configured wrongly: {0}")]
    Setup(String),
}

/// A stored row that does not hold what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {problem}")]
pub struct RowError {
    /// The column or the value that cannot be read.
    pub what: &'static str,
    pub problem: String,
}

impl RowError {
    pub fn new(what: &'static str, problem: impl ToString) -> Self {
        RowError { what, problem: problem.to_string() }
    }
}
