//! `gapless dev`: everything in one process: a node, its ledger in a file, a dev chain, funded submitters.

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

use super::serve::url_of;
use super::server::duration;
use super::{CliError, Exit, block_on};
use crate::compose::{
    Account, ComposeError, DevNet, DevNetOptions, Metrics, Mining, Node, NodeParts, Stop, listen, start_logging,
};
use crate::config::{Config, show_duration};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Where the API listens, on a loopback address; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = loopback)]
    listen: SocketAddr,
    /// Where the dev chain's JSON-RPC listens
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = loopback)]
    rpc_listen: SocketAddr,
    /// Where the ledger and the chain are kept; the next start goes on from there
    #[arg(long, value_name = "DIR", default_value = ".gapless")]
    data_dir: PathBuf,
    /// Time between blocks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = block_time)]
    block_time: Duration,
    /// How many submitters
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=i64::from(DevNet::MAX_ACCOUNTS)))]
    submitters: u32,
}

/// What is told when it is ready.
#[derive(Debug, Serialize)]
struct Ready {
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
        config.keep_ledger_in(self.data_dir.join("ledger.db"));
        block_on(self.serve(config, output))
    }

    async fn serve(self, mut config: Config, output: &Output) -> Result<Exit, CliError> {
        let mut stop = Stop::listen()?;
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
            accounts.push(Account::new(&chain, Some(name), Arc::new(signer), config.policy.clone())?);
        }
        let ready = Ready {
            api: url_of(&listener)?,
            rpc: format!("http://{}", net.address),
            chain: chain.to_string(),
            submitters: accounts.iter().map(|account| account.id.to_string()).collect(),
        };
        let (stop_chain, stopped) = watch::channel(false);
        let mut chain_over = beside(net.run(stopped));
        let metrics = Metrics::start()?;
        let node = Node::start(NodeParts { config, accounts, listener, metrics }).await?;
        let banner = Banner { ready: &ready, data_dir: &self.data_dir, block_time: self.block_time };
        // Whoever started it may have closed its end; that is no reason to stop.
        let _ = output.result(&ready, banner);
        tokio::select! {
            ended = node.run(&mut stop) => ended?,
            ended = &mut chain_over => return Err(ended.unwrap_or(Err(ComposeError::DevChainEnded)).err().unwrap_or(ComposeError::DevChainEnded).into()),
        }
        // The chain outlives the node, so that lanes end on a chain that answers.
        stop_chain.send_replace(true);
        match chain_over.await {
            Ok(ended) => ended?,
            Err(_) => return Err(ComposeError::DevChainEnded.into()),
        }
        Ok(Exit::Success)
    }
}

/// Runs the chain on threads of its own, so that a block that takes long does not keep calls waiting.
fn beside(
    running: impl Future<Output = Result<(), ComposeError>> + Send + 'static,
) -> oneshot::Receiver<Result<(), ComposeError>> {
    let (tell, told) = oneshot::channel();
    TokioDriver::start().spawn(Box::pin(async move {
        let _ = tell.send(running.await);
    }));
    told
}

fn make_folder(path: &Path) -> Result<(), CliError> {
    std::fs::create_dir_all(path).map_err(|source| CliError::File { path: path.to_owned(), source })
}

/// Nobody is asked for a key here, and the accounts' own are known to everybody.
pub(crate) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let text = text.replace("localhost:", "127.0.0.1:");
    let address: SocketAddr = text.parse().map_err(|_| "an address is as in 127.0.0.1:8080".to_owned())?;
    if address.ip().is_loopback() { Ok(address) } else { Err("it has to be a loopback address".to_owned()) }
}

pub(crate) fn block_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() { Err("blocks take some time, as in 100ms".to_owned()) } else { Ok(time) }
}

struct Banner<'a> {
    ready: &'a Ready,
    data_dir: &'a Path,
    block_time: Duration,
}

impl fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ready { api, rpc, chain, submitters } = self.ready;
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
  kept in     {dir}

  Submitters with 10,000 ETH each:
{list}
  Send something:
    curl -s {api}/api/v1/tx -H 'content-type: application/json' -d '{{\"submitter\":\"{from}\",\"requestId\":\"order-1\",\"payload\":{{\"to\":\"{to}\",\"value\":\"1\"}}}}'
  or:
    gapless tx send --api {api} --submitter dev-0 --to {to} --value 1gwei --wait

  Ctrl-C stops it; the next start goes on from here.
"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_taken() {
        assert!(loopback("127.0.0.1:0").is_ok() && loopback("[::1]:8080").is_ok() && loopback("localhost:1").is_ok());
        assert!(loopback("0.0.0.0:8080").is_err() && loopback("192.168.1.1:1").is_err() && loopback("8080").is_err());
    }
}
