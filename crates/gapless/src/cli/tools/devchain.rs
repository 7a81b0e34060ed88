//! `gapless devchain`: runs the dev chain without a node.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use gapless_devchain::null::NullOptions;
use serde::Serialize;
use tokio::sync::watch;

use super::dev::{block_time, loopback};
use crate::cli::server::duration;
use crate::cli::{CliError, Exit, block_on, block_on_one_thread};
use crate::compose::{DevNet, DevNetError, DevNetOptions, Mining, NullNet, StopSignals};
use crate::output::Output;

const DEFAULT_BLOCK_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct DevchainArgs {
    /// Address of JSON-RPC (HTTP and WebSocket), a loopback address; port 0 takes any free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8545", value_parser = loopback)]
    listen: SocketAddr,
    /// Folder of the chain; without it, the chain is only in memory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Time between blocks; with --null, the minimum time [default: 1s, or 20ms with --null]
    #[arg(long, value_name = "TIME", value_parser = block_time)]
    block_time: Option<Duration>,
    /// Mine a block for every transaction at once, instead of by time
    #[arg(long, conflicts_with_all = ["block_time", "on_demand"])]
    per_transaction: bool,
    /// Mine a block only on the call evm_mine
    #[arg(long, conflicts_with = "block_time")]
    on_demand: bool,
    /// Number of well-known accounts with funds
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(DevNet::MAX_ACCOUNTS)))]
    accounts: u32,
    /// Run the null chain, for benchmarks of senders: without EVM, it mines every transaction at once and stores
    /// nothing. It takes the recipient of a transaction as its sender, so send from an account to itself. Contract
    /// creation fails
    #[arg(long, conflicts_with_all = ["data_dir", "per_transaction", "on_demand", "accounts"])]
    null: bool,
    /// With --null: delay of every answer
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = duration, requires = "null")]
    latency: Duration,
}

/// The chain that the command runs.
enum ChainServer {
    Dev(DevNet),
    Null(NullNet),
}

/// The result that `gapless devchain` prints when it is ready. The keys are public knowledge, so they may be printed.
#[derive(Debug, Serialize)]
struct DevchainReady {
    rpc: String,
    ws: String,
    chain: String,
    accounts: Vec<KnownAccount>,
}

#[derive(Debug, Serialize)]
struct KnownAccount {
    address: String,
    key: String,
}

impl DevchainArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        if self.null {
            // The null chain shares the machine with the measured sender, and one thread costs less than several.
            return block_on_one_thread(self.serve(output));
        }
        block_on(self.serve(output))
    }

    async fn serve(self, output: &Output) -> Result<Exit, CliError> {
        let mut stop = StopSignals::listen()?;
        let net = self.open().await?;
        let (address, accounts) = match &net {
            ChainServer::Dev(net) => (net.address, net.accounts.as_slice()),
            ChainServer::Null(net) => (net.address, &[][..]),
        };
        let known = |account: &gapless_devchain::DevAccount| KnownAccount {
            address: account.address.to_string(),
            key: account.key.to_string(),
        };
        let ready = DevchainReady {
            rpc: format!("http://{address}"),
            ws: format!("ws://{address}"),
            chain: DevNet::chain_id()?.to_string(),
            accounts: accounts.iter().map(known).collect(),
        };
        let _ = output.result(&ready, &ready);
        let (stop_chain, stopped) = watch::channel(false);
        let running = net.run(stopped);
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => ended?,
            () = stop.received() => {
                stop_chain.send_replace(true);
                running.await?;
            }
        }
        Ok(Exit::Success)
    }

    async fn open(self) -> Result<ChainServer, CliError> {
        if self.null {
            let block_time = self.block_time.unwrap_or(NullOptions::DEFAULT_BLOCK_TIME);
            let options = NullOptions { block_time, latency: self.latency, ..NullOptions::default() };
            return Ok(ChainServer::Null(NullNet::open(self.listen, options).await?));
        }
        let mining = match (self.per_transaction, self.on_demand) {
            (true, _) => Mining::PerTransaction,
            (_, true) => Mining::OnDemand,
            _ => Mining::Interval(self.block_time.unwrap_or(DEFAULT_BLOCK_TIME)),
        };
        let (listen, dir, accounts) = (self.listen, self.data_dir, self.accounts);
        Ok(ChainServer::Dev(DevNet::open(DevNetOptions { listen, dir, mining, accounts }).await?))
    }
}

impl ChainServer {
    async fn run(self, stopped: watch::Receiver<bool>) -> Result<(), DevNetError> {
        match self {
            ChainServer::Dev(net) => net.run(stopped).await,
            ChainServer::Null(net) => net.run(stopped).await,
        }
    }
}

impl fmt::Display for DevchainReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "dev chain {} at {} and {}\n", self.chain, self.rpc, self.ws)?;
        if self.accounts.is_empty() {
            return writeln!(f, "The null chain has no EVM. It takes the recipient of a transaction as its sender.");
        }
        for account in &self.accounts {
            writeln!(f, "  {}  {}", account.address, account.key)?;
        }
        writeln!(f, "\nThese keys are public: never send anything of value to these accounts.")
    }
}
