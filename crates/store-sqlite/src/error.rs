//! Errors of SQLite and of the file system as errors of the store contract.

use std::io;
use std::path::Path;

use gapless_store::{RowError, StoreError};
use rusqlite::ErrorCode;

/// Why a task on the database failed, before it is translated for the caller.
#[derive(Debug)]
pub(crate) enum Failure {
    Sql(rusqlite::Error),
    Row(RowError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sql(error)
    }
}

impl From<RowError> for Failure {
    fn from(error: RowError) -> Self {
        Failure::Row(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Sql(error) => from_sql(error),
            Failure::Row(error) => StoreError::Row(error),
        }
    }
}

/// The text of an error that is the fault of one row: trying again will not help, and the rows beside it are fine. None
/// for an error of the database as a whole.
pub(crate) fn refusal(failure: &Failure) -> Option<String> {
    match failure {
        Failure::Sql(error) => match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => {
                Some(error.to_string())
            }
            _ => None,
        },
        Failure::Row(_) => None,
    }
}

pub(crate) fn from_sql(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(error.to_string()),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly(error.to_string()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged(error.to_string()),
        Some(_) => StoreError::Unavailable(error.into()),
        // An error of rusqlite, not of SQLite: a column could not be converted.
        None => StoreError::Row(RowError::new("column", error)),
    }
}

/// Translates an error while the file is being opened, where "busy" can only be another process.
pub(crate) fn from_sql_at_open(error: rusqlite::Error, path: &Path) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::InUse(path.display().to_string()),
        Some(ErrorCode::CannotOpen) => StoreError::Setup(format!("{} cannot be opened: {error}", path.display())),
        _ => from_sql(error),
    }
}

/// A copy of an error, for each caller whose write was in the failed transaction.
pub(crate) fn copy_of(error: &StoreError) -> StoreError {
    match error {
        StoreError::Full(text) => StoreError::Full(text.clone()),
        StoreError::ReadOnly(text) => StoreError::ReadOnly(text.clone()),
        StoreError::Damaged(text) => StoreError::Damaged(text.clone()),
        StoreError::OutcomeUnknown(source) => StoreError::OutcomeUnknown(source.to_string().into()),
        other => StoreError::Unavailable(other.to_string().into()),
    }
}

pub(crate) fn from_io(error: io::Error, path: &Path) -> StoreError {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly(text),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full(text),
        io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => StoreError::Setup(text),
        _ => StoreError::Unavailable(error.into()),
    }
}
