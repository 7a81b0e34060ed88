//! The chains for development: the dev chain and the null chain, each with its server.

mod dev_net;
mod null_net;

use std::io;

use gapless_devchain::{AccountError, ChainError};

use super::{ComposeError, listen};

pub(crate) use dev_net::{DevNet, DevNetOptions};
pub(crate) use gapless_devchain::rpc::Mining;
pub(crate) use null_net::NullNet;

/// The errors of a chain for development.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevNetError {
    #[error(transparent)]
    Compose(#[from] ComposeError),
    #[error("dev chain: {0}")]
    Chain(#[from] ChainError),
    #[error("accounts of the dev chain: {0}")]
    Account(#[from] AccountError),
    #[error("the server of the dev chain ended: {0}")]
    Served(io::Error),
    #[error("the dev chain has ended")]
    Ended,
}
