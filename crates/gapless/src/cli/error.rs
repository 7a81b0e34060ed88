//! The errors of commands, and the exit code of each.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use gapless_chain_evm::{KeyError, KeystoreError, SecretError};
use gapless_chain_evm::{OverrideError, PatternError};
use gapless_store::StoreError;
use gapless_wire::{ClientError, JsonError};
use serde_json::{Value, json};

use super::server::exit_of;
use crate::compose::{ComposeError, is_refusal};
use crate::config::ConfigError;
use crate::output::OutputError;

/// The exit codes of the program. `gapless --help` explains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    /// The command could not be completed now; retrying may help.
    Failure,
    /// The command line is wrong.
    Usage,
    /// The request was understood and rejected; retrying does not help.
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
    /// No answer came, so the server may have accepted the request or not. The request id makes a retry harmless.
    #[error(
        "{source}; the server may have accepted request {request_id} or not. Repeat it with the same request id \
         (--request-id {request_id}): both requests are one transaction"
    )]
    Unanswered { request_id: String, source: Box<ClientError> },
    /// The connection to the server was lost after the transaction was accepted. The transaction goes on.
    #[error(
        "the server does not answer: {source}. Transaction {tx_id} was accepted and goes on; run \
         `gapless tx watch {tx_id}` to follow it"
    )]
    Lost { tx_id: String, source: Box<ClientError> },
    #[error("{}: {source}", path.display())]
    Request { path: PathBuf, source: JsonError },
    #[error("unknown client family {0:?}; `gapless chain families` lists the known ones")]
    UnknownFamily(String),
    #[error("a password is needed; pass --password-file FILE or --password-var NAME")]
    NoPassword,
    #[cfg(feature = "tools")]
    #[error(transparent)]
    Tool(#[from] super::tools::ToolError),
    #[error("cannot start the program's threads: {0}")]
    Runtime(io::Error),
    #[error("the built-in tables of error texts are invalid: {0}. This is a bug of Gapless; please report it")]
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
            #[cfg(feature = "tools")]
            CliError::Tool(error) if error.is_refusal() => Exit::Refused,
            CliError::Key(_) | CliError::Request { .. } => Exit::Refused,
            CliError::Client(error) => exit_of(error),
            CliError::Store(error) if is_refusal(error) => Exit::Refused,
            CliError::Compose(error) if error.is_refusal() => Exit::Refused,
            _ => Exit::Failure,
        }
    }

    /// The stable error code for programs.
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
            #[cfg(feature = "tools")]
            CliError::Tool(error) => error.code(),
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
