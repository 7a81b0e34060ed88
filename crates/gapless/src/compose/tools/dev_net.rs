//! The dev chain with its server and its block production.

use std::net::SocketAddr;
use std::path::PathBuf;

use gapless_devchain::rpc::{BlockProducer, Clock, Mining, RpcLimits, RpcServer, serve};
use gapless_devchain::{
    BlockSelector, DEV_BALANCE_ETHER, DEV_CHAIN_ID, DevAccount, DevChain, Genesis, OpenOptions, dev_account, ether,
};
use gapless_domain::ChainId;
use tokio::sync::watch;

use super::{ComposeError, DevNetError, listen};

#[derive(Clone, Debug)]
pub(crate) struct DevNetOptions {
    pub(crate) listen: SocketAddr,
    /// Folder of the chain; `None` keeps it in memory.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) mining: Mining,
    /// Number of well-known accounts with funds.
    pub(crate) accounts: u32,
}

/// An open dev chain whose address is bound.
#[derive(Debug)]
pub(crate) struct DevNet {
    pub(crate) address: SocketAddr,
    pub(crate) accounts: Vec<DevAccount>,
    server: RpcServer,
    listener: tokio::net::TcpListener,
    producer: BlockProducer,
}

impl DevNet {
    pub(crate) const MAX_ACCOUNTS: u32 = 1000;

    /// Opens the chain of the folder, or starts a new one.
    pub(crate) async fn open(options: DevNetOptions) -> Result<Self, DevNetError> {
        let listener = listen(options.listen).await?;
        let address = listener.local_addr().map_err(|source| ComposeError::Listen { at: options.listen, source })?;
        let chain = match &options.dir {
            Some(dir) => DevChain::open(dir, Genesis::dev(), OpenOptions::default())?,
            None => DevChain::new(Genesis::dev()),
        };
        let accounts = (0..options.accounts).map(dev_account).collect::<Result<Vec<_>, _>>()?;
        fund(&chain, &accounts)?;
        let producer = BlockProducer::new(chain.clone(), options.mining, Clock::Wall);
        let server = RpcServer::new(chain, Clock::Wall, Some(producer.switch()), RpcLimits::default());
        Ok(DevNet { address, accounts, server, listener, producer })
    }

    pub(crate) fn chain_id() -> Result<ChainId, DevNetError> {
        Ok(format!("eip155:{DEV_CHAIN_ID}").parse().map_err(ComposeError::SubmitterId)?)
    }

    /// Serves calls and makes blocks until `stopped` becomes true.
    pub(crate) async fn run(self, stopped: watch::Receiver<bool>) -> Result<(), DevNetError> {
        let (for_server, for_blocks) = (stopped.clone(), stopped);
        let serving = async { serve(self.listener, self.server, until(for_server)).await.map_err(DevNetError::Served) };
        let mining = async { Ok(self.producer.run(until(for_blocks)).await?) };
        tokio::try_join!(serving, mining).map(|_| ())
    }
}

/// Funds the accounts. The genesis always funds the first ten, so that another number of accounts is not another chain.
fn fund(chain: &DevChain, accounts: &[DevAccount]) -> Result<(), DevNetError> {
    for account in accounts {
        let view = chain.view();
        let fresh = view.balance(account.address, BlockSelector::Latest).is_ok_and(|balance| balance.is_zero())
            && view.nonce(account.address, BlockSelector::Latest).is_ok_and(|nonce| nonce == 0);
        if fresh {
            chain.set_balance(account.address, ether(DEV_BALANCE_ETHER))?;
        }
    }
    Ok(())
}

/// Waits until `stopped` becomes true, or until its sender is dropped.
pub(super) async fn until(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
