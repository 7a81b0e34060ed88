//! `gapless devchain`: the dev chain alone.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::sync::watch;

use super::dev::{block_time, loopback};
use super::{CliError, Exit, block_on};
use crate::compose::{DevNet, DevNetOptions, Mining, Stop};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct DevchainArgs {
    /// Where JSON-RPC listens, over HTTP and WebSocket; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8545", value_parser = loopback)]
    listen: SocketAddr,
    /// Where the chain is kept; in memory without it
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Time between blocks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = block_time)]
    block_time: Duration,
    /// A block for every transaction, at once, instead of by time
    #[arg(long, conflicts_with_all = ["block_time", "on_demand"])]
    per_transaction: bool,
    /// A block only when somebody asks for one (evm_mine)
    #[arg(long, conflicts_with = "block_time")]
    on_demand: bool,
    /// How many of the well-known accounts have funds
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=i64::from(DevNet::MAX_ACCOUNTS)))]
    accounts: u32,
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
        let mining = match (self.per_transaction, self.on_demand) {
            (true, _) => Mining::PerTransaction,
            (_, true) => Mining::OnDemand,
            _ => Mining::Interval(self.block_time),
        };
        block_on(async {
            let mut stop = Stop::listen()?;
            let (listen, dir, accounts) = (self.listen, self.data_dir, self.accounts);
            let net = DevNet::open(DevNetOptions { listen, dir, mining, accounts }).await?;
            let known = |account: &gapless_devchain::DevAccount| KnownAccount {
                address: account.address.to_string(),
                key: account.key.to_string(),
            };
            let ready = Ready {
                rpc: format!("http://{}", net.address),
                ws: format!("ws://{}", net.address),
                chain: DevNet::chain_id()?.to_string(),
                accounts: net.accounts.iter().map(known).collect(),
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
        })
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "dev chain {} at {} and {}\n", self.chain, self.rpc, self.ws)?;
        for account in &self.accounts {
            writeln!(f, "  {}  {}", account.address, account.key)?;
        }
        writeln!(f, "\nThese keys are known to everybody: never send anything of worth to them.")
    }
}
