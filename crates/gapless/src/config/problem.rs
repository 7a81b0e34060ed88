//! The problems of a config. All problems are reported at once, each with its key and its origin, and never with a
//! value, which may be a secret.

use std::fmt;
use std::io;
use std::path::PathBuf;

use gapless_chain_evm::OverrideError;
use gapless_domain::{IdError, PolicyError};

use super::tree::Origin;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the config file {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the config file {} is larger than {limit} bytes; is it the right file?", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("{}", list(problems))]
    Invalid { problems: Vec<ConfigProblem> },
}

fn list(problems: &[ConfigProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ConfigProblem::to_string).collect();
    lines.join("\n")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigProblem {
    /// Dotted path of the key; empty for the file as a whole.
    pub(crate) key: String,
    /// The origin of the value, if the key is set.
    pub(crate) origin: Option<Origin>,
    pub(crate) kind: ProblemKind,
}

impl ConfigProblem {
    pub(crate) fn new(key: &str, origin: Option<Origin>, kind: ProblemKind) -> Self {
        ConfigProblem { key: key.to_owned(), origin, kind }
    }
}

impl fmt::Display for ConfigProblem {
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
    #[error("unknown key; the most similar key is `{nearest}`")]
    UnknownKey { nearest: String },
    #[error("the variable names no key; write it as in GAPLESS__LEASE__DURATION or GAPLESS__CHAIN__0__RPC")]
    NoKey,
    #[error("the value is not UTF-8 text")]
    NotUtf8,
    #[error("must be {wanted}")]
    Wanted { wanted: String },
    #[error("must be set")]
    Missing,
    #[error("must be from {min} to {max}")]
    Range { min: String, max: String },
    #[error("set twice, also by {other}")]
    Twice { other: String },
    #[error("item {hole} of the list is missing; number the items from 0 without a gap")]
    Hole { hole: usize },
    #[error("more than {limit} items")]
    TooMany { limit: usize },
    #[error("{feature} is not supported yet")]
    NotSupported { feature: String },
    #[error("no [[chain]] has this id; the known ids are: {known}")]
    NoSuchChain { known: String },
    #[error("set only one of `{one}` and `{other}`")]
    Either { one: &'static str, other: &'static str },
    #[error("set either `{one}` or `{other}`")]
    Neither { one: &'static str, other: &'static str },
    #[error("\"none\" needs node.listen on a loopback address, because every caller could send transactions")]
    OpenToAll,
    #[error("renew_interval must be above zero and must fit twice into duration minus clock_skew")]
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
