//! Why a node does not start, or does not end as it should.

use std::io;
use std::net::SocketAddr;

use gapless_chain::OverrideError;
use gapless_chain_evm::{ConnectError, KeyError};
use gapless_devchain::{AccountError, ChainError};
use gapless_domain::{Address, ChainId, IdError, SubmitterId};
use gapless_engine::UnknownChain;
use gapless_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ComposeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("submitter {name}: {source}")]
    Key { name: String, source: KeyError },
    #[error("submitter {name}: the key is that of {found}, not of {wanted}")]
    OtherAddress { name: String, wanted: Address, found: Address },
    #[error("two submitters are {0}")]
    SameSubmitter(SubmitterId),
    #[error("submitter: {0}")]
    SubmitterId(#[from] IdError),
    #[error("chain {chain}: {source}")]
    Connect { chain: ChainId, source: ConnectError },
    #[error(transparent)]
    Override(#[from] OverrideError),
    #[error(transparent)]
    UnknownChain(#[from] UnknownChain),
    #[error("cannot listen on {at}: {source}")]
    Listen { at: SocketAddr, source: io::Error },
    #[error(
        "auth.mode = \"api_key\" cannot be served yet: there are no API keys in this version. Set auth.mode = \"none\" and \
         keep node.listen on a loopback address"
    )]
    NoApiKeys,
    #[error("stuck.webhook cannot be used: {0}")]
    Webhook(reqwest::Error),
    #[error("logs cannot be written: {0}")]
    Logging(String),
    #[error("metrics cannot be kept: {0}")]
    Metrics(String),
    #[error("signals cannot be heard: {0}")]
    Signals(io::Error),
    #[error("the server ended: {0}")]
    Served(io::Error),
    #[error("the dev chain: {0}")]
    DevChain(#[from] ChainError),
    #[error("the dev chain's accounts: {0}")]
    DevAccount(#[from] AccountError),
    #[error("the dev chain's server ended: {0}")]
    DevServed(io::Error),
    #[error("the dev chain has ended")]
    DevChainEnded,
    #[error("what was under way did not end within node.drain_timeout; the leases that are left run out by themselves")]
    DrainTimeout,
    #[error("stopped at once, as asked for by a second signal")]
    StoppedTwice,
    #[error("{name} is no fault point")]
    FaultPoint { name: String },
}

impl ComposeError {
    /// Whether it will be the same the next time, until somebody changes the config.
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
