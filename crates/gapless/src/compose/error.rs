//! The errors of the start and the end of a node.

use std::io;
use std::net::SocketAddr;

use gapless_chain_evm::OverrideError;
use gapless_chain_evm::{ConnectError, KeyError};
use gapless_domain::{Address, ChainId, IdError, SubmitterId};
use gapless_engine::UnknownChain;
use gapless_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ComposeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("submitter {name}: {source}")]
    Key { name: String, source: KeyError },
    #[error("submitter {name}: the key belongs to {found}, not to {wanted}; correct `address` or the signer")]
    OtherAddress { name: String, wanted: Address, found: Address },
    #[error("two submitters have the same account {0}; remove one of them")]
    SameSubmitter(SubmitterId),
    #[error("submitter: {0}")]
    SubmitterId(#[from] IdError),
    #[error("chain {chain}: {source}")]
    Connect { chain: ChainId, source: ConnectError },
    #[error(transparent)]
    Override(#[from] OverrideError),
    #[error(transparent)]
    UnknownChain(#[from] UnknownChain),
    #[error("cannot listen on {at}: {source}; choose another address or stop the process that uses it")]
    Listen { at: SocketAddr, source: io::Error },
    #[error(
        "auth.mode = \"api_key\" is not supported yet: this version has no API keys. Set auth.mode = \"none\" and keep \
         node.listen on a loopback address"
    )]
    NoApiKeys,
    #[error("stuck.webhook cannot be used: {0}")]
    Webhook(reqwest::Error),
    #[error("cannot start logging: {0}")]
    Logging(String),
    #[error("cannot start the metrics: {0}")]
    Metrics(String),
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    #[error("the HTTP server ended: {0}")]
    Served(io::Error),
    #[error("the drain did not end within node.drain_timeout; the remaining leases expire by themselves")]
    DrainTimeout,
    #[error("stopped at once by a second signal; the remaining leases expire by themselves")]
    StoppedTwice,
    #[error("{name} is not a fault point of this build; unset GAPLESS_ABORT_AT and GAPLESS_STOP_AT")]
    FaultPoint { name: String },
}

impl ComposeError {
    /// True if the error stays until an operator changes the config or the environment.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            ComposeError::Store(error) => is_refusal(error),
            ComposeError::Key { .. }
            | ComposeError::OtherAddress { .. }
            | ComposeError::SameSubmitter(_)
            | ComposeError::SubmitterId(_)
            | ComposeError::Override(_)
            | ComposeError::UnknownChain(_)
            | ComposeError::NoApiKeys
            | ComposeError::FaultPoint { .. } => true,
            ComposeError::Connect { source, .. } => !matches!(source, ConnectError::Tls(_)),
            _ => false,
        }
    }
}

pub(crate) fn is_refusal(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::SchemaIsNewer { .. }
            | StoreError::SchemaIsOlder { .. }
            | StoreError::MigrationDiffers { .. }
            | StoreError::Setup(_)
    )
}
