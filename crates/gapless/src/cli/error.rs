//! What a command can fail with, and which exit code that is.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use gapless_chain::{OverrideError, PatternError};
use gapless_chain_evm::{KeyError, KeystoreError, SecretError};
use gapless_store::StoreError;
use gapless_wire::{ClientError, JsonError};
use serde_json::{Value, json};

use super::server::exit_of;
use crate::compose::{ComposeError, is_refusal};
use crate::config::ConfigError;
use crate::output::OutputError;

/// How a command ended. The help of the program says the same to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    /// It could not be done now; trying again may help.
    Failure,
    Usage,
    /// It was understood, and the answer is no.
    Refused,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Compose(#[from] ComposeError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Keystore(#[from] KeystoreError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("line {line}: {message}")]
    Row { line: usize, message: String },
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It may have been accepted or not, and the id is what tells.
    #[error(
        "{source}; whether request {request_id} was accepted is not known: hand in the same again with this request id, and \
         it is still one transaction"
    )]
    Unanswered { request_id: String, source: Box<ClientError> },
    /// Nobody watches it from here any more; it goes on all the same.
    #[error("transaction {tx_id} was accepted, but what became of it cannot be asked: {source}")]
    Lost { tx_id: String, source: Box<ClientError> },
    #[error("{}: {source}", path.display())]
    Request { path: PathBuf, source: JsonError },
    #[error("there is no client family {0:?}; `gapless chain families` lists them")]
    UnknownFamily(String),
    #[error("a password is needed: --password-file FILE, or --password-var NAME")]
    NoPassword,
    #[error("this build makes no mistakes on purpose; build it with `--features gapless-sim/mistakes`")]
    NoMistakes,
    #[error(transparent)]
    Bench(#[from] gapless_bench_cluster::LoadError),
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    #[error("the classifier's own tables are wrong: {0}")]
    Tables(#[from] PatternError),
    #[error(transparent)]
    Override(#[from] OverrideError),
}

impl CliError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            CliError::Config(ConfigError::Unreadable { .. }) => Exit::Failure,
            CliError::Config(_) => Exit::Refused,
            CliError::Row { .. } | CliError::UnknownFamily(_) | CliError::NoPassword | CliError::Override(_) => {
                Exit::Refused
            }
            CliError::NoMistakes => Exit::Refused,
            CliError::Bench(error) if error.is_refusal() => Exit::Refused,
            CliError::Key(_) | CliError::Request { .. } => Exit::Refused,
            CliError::Client(error) => exit_of(error),
            CliError::Store(error) if is_refusal(error) => Exit::Refused,
            CliError::Compose(error) if error.is_refusal() => Exit::Refused,
            _ => Exit::Failure,
        }
    }

    /// A stable word for programs.
    fn code(&self) -> &'static str {
        match self {
            CliError::Config(ConfigError::Invalid { .. }) => "config_invalid",
            CliError::Config(_) => "config_unreadable",
            CliError::Compose(ComposeError::Listen { .. }) => "listen",
            CliError::Compose(ComposeError::Store(_)) => "store",
            CliError::Compose(_) => "start",
            CliError::Output(_) => "output",
            CliError::Store(_) => "store",
            CliError::Key(_) | CliError::Keystore(_) | CliError::Secret(_) | CliError::NoPassword => "key",
            CliError::File { .. } => "file",
            CliError::Row { .. } => "row",
            CliError::Client(ClientError::Problem(_)) => "problem",
            CliError::Unanswered { source, .. } if source.problem().is_some() => "problem",
            CliError::Client(_) | CliError::Unanswered { .. } => "no_answer",
            CliError::Lost { .. } => "lost",
            CliError::Request { .. } => "request",
            CliError::UnknownFamily(_) => "unknown_family",
            CliError::NoMistakes => "no_mistakes",
            CliError::Bench(_) => "bench",
            CliError::Runtime(_) | CliError::Tables(_) => "internal",
            CliError::Override(_) => "config_invalid",
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code(), "message": self.to_string() });
        match self {
            CliError::Config(ConfigError::Invalid { problems }) => {
                error["problems"] = problems.iter().map(super::config::problem_json).collect();
            }
            CliError::Client(ClientError::Problem(problem)) => error["problem"] = json!(problem),
            CliError::Unanswered { request_id, source } => {
                error["requestId"] = json!(request_id);
                if let Some(problem) = source.problem() {
                    error["problem"] = json!(problem);
                }
            }
            CliError::Lost { tx_id, .. } => error["txId"] = json!(tx_id),
            _ => {}
        }
        json!({ "error": error })
    }
}
