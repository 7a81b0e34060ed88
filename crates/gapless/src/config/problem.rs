//! What can be wrong with a config. All of it is told at once, each with its key and where it was set, and never with a
//! value that may be a secret.

use std::fmt;
use std::io;
use std::path::PathBuf;

use gapless_chain::OverrideError;
use gapless_domain::{IdError, PolicyError};

use super::tree::Origin;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("{}", list(problems))]
    Invalid { problems: Vec<Problem> },
}

fn list(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Dotted; empty for the file as a whole.
    pub(crate) key: String,
    /// Where it was set, if it was.
    pub(crate) origin: Option<Origin>,
    pub(crate) kind: ProblemKind,
}

impl Problem {
    pub(crate) fn new(key: &str, origin: Option<Origin>, kind: ProblemKind) -> Self {
        Problem { key: key.to_owned(), origin, kind }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        self.kind.fmt(f)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProblemKind {
    #[error("{message}")]
    Syntax { message: String },
    #[error("there is no such key; the nearest is `{nearest}`")]
    UnknownKey { nearest: String },
    #[error("this names no key; keys look like GAPLESS__LEASE__DURATION or GAPLESS__CHAIN__0__RPC")]
    NoKey,
    #[error("the value is no UTF-8 text")]
    NotUtf8,
    #[error("it has to be {wanted}")]
    Wanted { wanted: String },
    #[error("it has to be set")]
    Missing,
    #[error("it has to be from {min} to {max}")]
    Range { min: String, max: String },
    #[error("it is set twice, also by {other}")]
    Twice { other: String },
    #[error("item {hole} of the list is missing")]
    Hole { hole: usize },
    #[error("there are more than {limit}")]
    TooMany { limit: usize },
    #[error("{what} is not built yet")]
    NotYet { what: String },
    #[error("there is no [[chain]] with this id; there are: {known}")]
    NoSuchChain { known: String },
    #[error("only one of `{one}` and `{other}` can be set")]
    Either { one: &'static str, other: &'static str },
    #[error("either `{one}` or `{other}` has to be set")]
    Neither { one: &'static str, other: &'static str },
    #[error("\"none\" needs node.listen on a loopback address; anybody who reaches it could send")]
    OpenToAll,
    #[error("renew_interval must not be zero and must fit twice into duration minus clock_skew")]
    LeaseTerms,
    #[error("page_size_default is larger than page_size_max")]
    PageSizes,
    #[error("poll_min is longer than poll_max")]
    Polls,
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Id(#[from] IdError),
    #[error(transparent)]
    Override(#[from] OverrideError),
}
