//! Errors of a measurement.

use std::io;
use std::path::PathBuf;

use crate::http::HttpError;

/// The reason why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot start {what}: {source}")]
    Start { what: String, source: io::Error },
    #[error("{what} ended by itself; the end of its log:\n{log}")]
    Ended { what: String, log: String },
    #[error("{what} was not ready after {seconds} s; the end of its log:\n{log}")]
    NotReady { what: String, seconds: u64, log: String },
    #[error("no progress for {seconds} s at {done} of {wanted}; the end of a node's log:\n{log}")]
    Stalled { done: u64, wanted: u64, seconds: u64, log: String },
    #[error("{what}: {source}")]
    Http { what: String, source: HttpError },
    #[error("{what} answered {status}: {body}")]
    Refused { what: String, status: u16, body: String },
    #[error("{what} answered what cannot be read: {text}")]
    Unreadable { what: String, text: String },
    #[error("{method}: {message}")]
    Rpc { method: String, message: String },
    #[error("{0:?} is no URL of an endpoint: http://HOST:PORT or ws://HOST:PORT")]
    Url(String),
    #[error("the chain cannot fund the accounts: it knows neither anvil_setBalance nor hardhat_setBalance")]
    NoFunds,
    #[error("the database: {0}")]
    Database(#[from] tokio_postgres::Error),
    #[error("{0:?} is no URL of a PostgreSQL server; without --store, SQLite is used")]
    StoreUrl(String),
    #[error("{0} needs PostgreSQL: --store URL")]
    NeedsPostgres(&'static str),
    #[error("{count} transactions ended as {state}; the first: {first}")]
    NotConfirmed { count: usize, state: &'static str, first: String },
    #[error("a key cannot be used: {0}")]
    Key(#[from] gapless_chain_evm::KeyError),
    #[error("a submitter's id: {0}")]
    Id(#[from] gapless_domain::IdError),
    #[error(transparent)]
    Raw(#[from] crate::raw::RawError),
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    #[error("this system has no /proc to account by")]
    NoAccounting,
    #[error("stopped")]
    Stopped,
}

impl LoadError {
    /// True if a repetition would fail in the same way.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            LoadError::Url(_)
                | LoadError::StoreUrl(_)
                | LoadError::NeedsPostgres(_)
                | LoadError::NoFunds
                | LoadError::NoAccounting
        )
    }

    pub(crate) fn http(what: impl Into<String>) -> impl FnOnce(HttpError) -> Self {
        move |source| LoadError::Http { what: what.into(), source }
    }

    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| LoadError::File { path: path.into(), source }
    }
}
