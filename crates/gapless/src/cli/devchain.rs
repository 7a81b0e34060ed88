//! `gapless devchain`: the dev chain alone.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use gapless_devchain::null::NullOptions;
use serde::Serialize;
use tokio::sync::watch;

use super::dev::{block_time, loopback};
use super::server::duration;
use super::{CliError, Exit, block_on, block_on_one_thread};
use crate::compose::{ComposeError, DevNet, DevNetOptions, Mining, NullNet, Stop};
use crate::output::Output;

const DEFAULT_BLOCK_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct DevchainArgs {
    /// Where JSON-RPC listens, over HTTP and WebSocket; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8545", value_parser = loopback)]
    listen: SocketAddr,
    /// Where the chain is kept; in memory without it
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Time between blocks, and the least time between two of the null chain [default: 1s, or 20ms with --null]
    #[arg(long, value_name = "TIME", value_parser = block_time)]
    block_time: Option<Duration>,
    /// A block for every transaction, at once, instead of by time
    #[arg(long, conflicts_with_all = ["block_time", "on_demand"])]
    per_transaction: bool,
    /// A block only when somebody asks for one (evm_mine)
    #[arg(long, conflicts_with = "block_time")]
    on_demand: bool,
    /// How many of the well-known accounts have funds
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=i64::from(DevNet::MAX_ACCOUNTS)))]
    accounts: u32,
    /// A chain for measuring what sends: it mines whatever it gets at once, and there is no EVM in it. It takes the recipient of a
    /// transaction as its sender, so send from an account to itself. Contracts cannot be created, nothing is kept
    #[arg(long, conflicts_with_all = ["data_dir", "per_transaction", "on_demand", "accounts"])]
    null: bool,
    /// With --null: how long every answer waits before it goes out
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = duration, requires = "null")]
    latency: Duration,
}

/// A chain that runs until it is stopped.
enum Net {
    Dev(DevNet),
    Null(NullNet),
}

/// Their keys are public knowledge, which is why they are printed.
#[derive(Debug, Serialize)]
struct Ready {
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
            // It shares the machine with what is measured, and one thread costs less than two that wake each other.
            return block_on_one_thread(self.serve(output));
        }
        block_on(self.serve(output))
    }

    async fn serve(self, output: &Output) -> Result<Exit, CliError> {
        let mut stop = Stop::listen()?;
        let net = self.open().await?;
        let (address, accounts) = match &net {
            Net::Dev(net) => (net.address, net.accounts.as_slice()),
            Net::Null(net) => (net.address, &[][..]),
        };
        let known = |account: &gapless_devchain::DevAccount| KnownAccount {
            address: account.address.to_string(),
            key: account.key.to_string(),
        };
        let ready = Ready {
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
            () = stop.asked() => {
                stop_chain.send_replace(true);
                running.await?;
            }
        }
        Ok(Exit::Success)
    }

    async fn open(self) -> Result<Net, CliError> {
        if self.null {
            let block_time = self.block_time.unwrap_or(NullOptions::DEFAULT_BLOCK_TIME);
            let options = NullOptions { block_time, latency: self.latency, ..NullOptions::default() };
            return Ok(Net::Null(NullNet::open(self.listen, options).await?));
        }
        let mining = match (self.per_transaction, self.on_demand) {
            (true, _) => Mining::PerTransaction,
            (_, true) => Mining::OnDemand,
            _ => Mining::Interval(self.block_time.unwrap_or(DEFAULT_BLOCK_TIME)),
        };
        let (listen, dir, accounts) = (self.listen, self.data_dir, self.accounts);
        Ok(Net::Dev(DevNet::open(DevNetOptions { listen, dir, mining, accounts }).await?))
    }
}

impl Net {
    async fn run(self, stopped: watch::Receiver<bool>) -> Result<(), ComposeError> {
        match self {
            Net::Dev(net) => net.run(stopped).await,
            Net::Null(net) => net.run(stopped).await,
        }
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "dev chain {} at {} and {}\n", self.chain, self.rpc, self.ws)?;
        if self.accounts.is_empty() {
            return writeln!(f, "There is no EVM in it, and a transaction's recipient is taken as its sender.");
        }
        for account in &self.accounts {
            writeln!(f, "  {}  {}", account.address, account.key)?;
        }
        writeln!(f, "\nThese keys are known to everybody: never send anything of worth to them.")
    }
}
