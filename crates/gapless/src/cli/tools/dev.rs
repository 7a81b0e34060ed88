//! `gapless dev`: a complete local setup in one process: a node with a SQLite ledger, a dev chain and funded
//! submitters.

use std::fmt;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use gapless_chain_evm::LocalSigner;
use gapless_domain::ChainId;
use gapless_engine::{Driver, TokioDriver};
use serde::Serialize;
use tokio::sync::{oneshot, watch};

use crate::cli::serve::url_of;
use crate::cli::server::duration;
use crate::cli::{CliError, Exit, block_on};
use crate::compose::{
    ComposeError, DevNet, DevNetError, DevNetOptions, Metrics, Mining, Node, NodeParts, StopSignals, SubmitterAccount,
    listen, start_logging,
};
use crate::config::{Config, show_duration};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Address of the API, a loopback address; port 0 takes any free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = loopback)]
    listen: SocketAddr,
    /// Address of the dev chain's JSON-RPC, a loopback address; port 0 takes any free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = loopback)]
    rpc_listen: SocketAddr,
    /// Folder of the ledger and the chain; the next start continues with them
    #[arg(long, value_name = "DIR", default_value = ".gapless")]
    data_dir: PathBuf,
    /// Time between blocks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = block_time)]
    block_time: Duration,
    /// Number of funded submitters
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(DevNet::MAX_ACCOUNTS)))]
    submitters: u32,
}

/// The result that `gapless dev` prints when it is ready.
#[derive(Debug, Serialize)]
struct DevReady {
    api: String,
    rpc: String,
    chain: String,
    submitters: Vec<String>,
}

impl DevArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let mut config = Config::for_dev()?;
        start_logging(&config.log)?;
        make_folder(&self.data_dir)?;
        config.node.listen = self.listen;
        config.use_sqlite_file(self.data_dir.join("ledger.db"));
        block_on(self.serve(config, output))
    }

    async fn serve(self, mut config: Config, output: &Output) -> Result<Exit, CliError> {
        let mut stop = StopSignals::listen()?;
        let listener = listen(config.node.listen).await?;
        let net = DevNet::open(DevNetOptions {
            listen: self.rpc_listen,
            dir: Some(self.data_dir.join("chain")),
            mining: Mining::Interval(self.block_time),
            accounts: self.submitters,
        })
        .await?;
        let chain: ChainId = DevNet::chain_id()?;
        config.use_chain(&chain, &format!("ws://{}", net.address));
        let mut accounts = Vec::new();
        for (position, account) in net.accounts.iter().enumerate() {
            let name = format!("dev-{position}");
            let signer = LocalSigner::from_key(&account.key.0)
                .map_err(|source| ComposeError::Key { name: name.clone(), source })?;
            accounts.push(SubmitterAccount::new(&chain, Some(name), Arc::new(signer), config.policy.clone())?);
        }
        let ready = DevReady {
            api: url_of(&listener)?,
            rpc: format!("http://{}", net.address),
            chain: chain.to_string(),
            submitters: accounts.iter().map(|account| account.id.to_string()).collect(),
        };
        let (stop_chain, stopped) = watch::channel(false);
        let mut chain_ended = run_on_own_threads(net.run(stopped));
        let metrics = Metrics::start()?;
        let node = Node::start(NodeParts { config, accounts, listener, metrics }).await?;
        let banner = Banner { ready: &ready, data_dir: &self.data_dir, block_time: self.block_time };
        // The caller may have closed standard output; the node runs all the same.
        let _ = output.result(&ready, banner);
        tokio::select! {
            ended = node.run(&mut stop) => ended?,
            ended = &mut chain_ended => {
                let error = ended.ok().and_then(Result::err).unwrap_or(DevNetError::Ended);
                return Err(error.into());
            }
        }
        // The chain stops after the node, so that the lanes can finish their work on it.
        stop_chain.send_replace(true);
        match chain_ended.await {
            Ok(ended) => ended?,
            Err(_) => return Err(DevNetError::Ended.into()),
        }
        Ok(Exit::Success)
    }
}

/// Runs the chain on its own threads, so that a slow block does not delay calls of the API.
fn run_on_own_threads(
    running: impl Future<Output = Result<(), DevNetError>> + Send + 'static,
) -> oneshot::Receiver<Result<(), DevNetError>> {
    let (sender, receiver) = oneshot::channel();
    TokioDriver::start().spawn(Box::pin(async move {
        let _ = sender.send(running.await);
    }));
    receiver
}

fn make_folder(path: &Path) -> Result<(), CliError> {
    std::fs::create_dir_all(path).map_err(|source| CliError::File { path: path.to_owned(), source })
}

/// Parses a loopback address. Dev servers have no API keys, and the keys of their accounts are public.
pub(crate) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let text = text.replace("localhost:", "127.0.0.1:");
    let address: SocketAddr = text.parse().map_err(|_| "write host and port, as in 127.0.0.1:8080".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("use a loopback address, as in 127.0.0.1:8080".to_owned())
    }
}

pub(crate) fn block_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() { Err("use a time above zero, as in 100ms".to_owned()) } else { Ok(time) }
}

struct Banner<'a> {
    ready: &'a DevReady,
    data_dir: &'a Path,
    block_time: Duration,
}

impl fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DevReady { api, rpc, chain, submitters } = self.ready;
        let mut list = String::new();
        for (position, submitter) in submitters.iter().enumerate() {
            writeln!(list, "    dev-{position}  {submitter}")?;
        }
        let every = show_duration(self.block_time);
        let dir = self.data_dir.display();
        let [first, second] = [0, 1].map(|position| submitters.get(position).or(submitters.first()));
        let to = second.and_then(|id| id.rsplit(':').next()).unwrap_or_default();
        let from = first.map_or("", String::as_str);
        write!(
            f,
            "Gapless is ready.

  API         {api}   (documentation: {api}/docs)
  dev chain   {rpc}   ({chain}, a block every {every})
  data        {dir}

  Submitters with 10,000 ETH each:
{list}
  Send a transaction:
    curl -s {api}/api/v1/tx -H 'content-type: application/json' \
-d '{{\"submitter\":\"{from}\",\"requestId\":\"order-1\",\"payload\":{{\"to\":\"{to}\",\"value\":\"1\"}}}}'
  or:
    gapless tx send --api {api} --submitter dev-0 --to {to} --value 1gwei --wait

  Ctrl-C stops Gapless; the next start continues with the same data.
"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_parser_rejects_other_addresses() {
        assert!(loopback("127.0.0.1:0").is_ok() && loopback("[::1]:8080").is_ok() && loopback("localhost:1").is_ok());
        assert!(loopback("0.0.0.0:8080").is_err() && loopback("192.168.1.1:1").is_err() && loopback("8080").is_err());
    }
}
