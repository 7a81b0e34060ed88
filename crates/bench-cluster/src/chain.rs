//! The chain of a measurement: started for it, or an existing one.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::account::Account;
use crate::child::Child;
use crate::options::{ChainChoice, Options};
use crate::rpc::{Rpc, RpcAddress, number};
use crate::{LoadError, accounting};

/// A thousand ether: more than any measurement can spend.
const FUNDS: &str = "0x3635c9adc5dea00000";
const SET_BALANCE: [&str; 2] = ["anvil_setBalance", "hardhat_setBalance"];
const FUNDED_AT_ONCE: usize = 500;

#[derive(Debug)]
pub(crate) struct Chain {
    /// The endpoint URLs for the nodes' config.
    pub(crate) urls: Vec<String>,
    pub(crate) endpoint: Endpoint,
    child: Option<Child>,
}

/// The chain's endpoints and kind.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: RpcAddress,
    pub(crate) chain_id: u64,
    /// The null chain: endless funds for every account, and a record of arrival times.
    pub(crate) is_null: bool,
}

impl Chain {
    pub(crate) async fn start(options: &Options, latency: Duration, folder: &Path) -> Result<Self, LoadError> {
        let (child, urls, is_null) = match &options.chain {
            ChainChoice::Rpc(urls) => (None, urls.clone(), false),
            ChainChoice::Null => {
                let latency = format!("{}ms", latency.as_millis());
                let (child, url) = start(options, &["--null", "--latency", &latency], folder).await?;
                (Some(child), vec![url], true)
            }
            ChainChoice::Dev => {
                let (child, url) = start(options, &[], folder).await?;
                (Some(child), vec![url], false)
            }
        };
        let first = urls.first().ok_or_else(|| LoadError::Url(String::new()))?;
        let address = RpcAddress::parse(first)?;
        let id = Rpc::open(&address).await?.call("eth_chainId", json!([])).await?;
        let chain_id = number(&id).ok_or_else(|| unreadable("eth_chainId", &id))?;
        Ok(Chain { urls, endpoint: Endpoint { address, chain_id, is_null }, child })
    }

    /// CPU time of the chain's process; `None` for a chain that was not started here.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        accounting::cpu(self.child.as_ref()?.pid())
    }

    pub(crate) fn check(&mut self) -> Result<(), LoadError> {
        self.child.as_mut().map_or(Ok(()), Child::check)
    }
}

impl Endpoint {
    pub(crate) async fn connect(&self) -> Result<Rpc, LoadError> {
        Rpc::open(&self.address).await
    }

    /// Funds every account, by a method that only development chains have.
    pub(crate) async fn fund(&self, accounts: &[Account]) -> Result<(), LoadError> {
        if self.is_null {
            return Ok(());
        }
        let mut rpc = self.connect().await?;
        for method in SET_BALANCE {
            if fund_by(&mut rpc, method, accounts).await? {
                return Ok(());
            }
        }
        Err(LoadError::NoFunds)
    }
}

async fn start(options: &Options, more: &[&str], folder: &Path) -> Result<(Child, String), LoadError> {
    let mut command = Command::new(&options.program);
    let block_time = format!("{}ms", options.block_time().as_millis());
    command.args(["devchain", "--json", "--listen", "127.0.0.1:0", "--block-time", &block_time]).args(more);
    let mut child = Child::start("the chain", &mut command, folder)?;
    let ready = child.ready().await?;
    let url = ready["ws"].as_str().ok_or_else(|| unreadable("the chain", &ready))?.to_owned();
    Ok((child, url))
}

/// True if the chain supports the method.
async fn fund_by(rpc: &mut Rpc, method: &str, accounts: &[Account]) -> Result<bool, LoadError> {
    for some in accounts.chunks(FUNDED_AT_ONCE) {
        let calls = some.iter().enumerate().map(|(id, account)| {
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": [account.address.to_string(), FUNDS] })
        });
        let answers: Vec<Value> = rpc.post(method, &Value::Array(calls.collect()).to_string()).await?;
        if answers.iter().any(|answer| answer.get("error").is_some()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn unreadable(what: &str, answer: &Value) -> LoadError {
    LoadError::Unreadable { what: what.to_owned(), text: answer.to_string() }
}
