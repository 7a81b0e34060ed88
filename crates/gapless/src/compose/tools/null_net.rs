//! The null chain with its server and its block production.

use std::net::SocketAddr;

use gapless_devchain::null::{NullChain, NullOptions};
use tokio::sync::watch;

use super::dev_net::until;
use super::{ComposeError, DevNetError, listen};

/// A null chain whose address is bound.
#[derive(Debug)]
pub(crate) struct NullNet {
    pub(crate) address: SocketAddr,
    chain: NullChain,
    listener: tokio::net::TcpListener,
}

impl NullNet {
    pub(crate) async fn open(at: SocketAddr, options: NullOptions) -> Result<Self, DevNetError> {
        let listener = listen(at).await?;
        let address = listener.local_addr().map_err(|source| ComposeError::Listen { at, source })?;
        Ok(NullNet { address, chain: NullChain::new(options), listener })
    }

    /// Serves calls and makes blocks until `stopped` becomes true.
    pub(crate) async fn run(self, stopped: watch::Receiver<bool>) -> Result<(), DevNetError> {
        let (for_server, for_blocks) = (stopped.clone(), stopped);
        let serving = self.chain.serve(self.listener, until(for_server));
        let (served, ()) = tokio::join!(serving, self.chain.make_blocks(until(for_blocks)));
        served.map_err(DevNetError::Served)
    }
}
