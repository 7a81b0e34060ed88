//! Hardhat's node, which is its own EVM (EDR) behind JSON-RPC.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::Error;
use crate::node::{Mining, Node};
use crate::npm::Package;

const NAME: &str = "hardhat";
/// The newest version that runs on common Node.js versions; 3.x needs a newer Node.js.
const VERSION: &str = "2.29.1";

/// Settings of a Hardhat node.
#[derive(Debug, Clone)]
pub struct HardhatOptions {
    pub mining: Mining,
    pub chain_id: u64,
    /// Number of funded accounts of the well-known mnemonic (`test test … junk`).
    pub accounts: u32,
    /// Balance of each funded account, in ether.
    pub balance_ether: u64,
}

impl Default for HardhatOptions {
    fn default() -> Self {
        Self { mining: Mining::PerTransaction, chain_id: 31_337, accounts: 10, balance_ether: 10_000 }
    }
}

/// A running private Hardhat node. It stops when this value is dropped or when the process ends for any reason.
#[derive(Debug)]
pub struct HardhatNode {
    node: Node,
}

impl HardhatNode {
    /// Fetches Hardhat from npm unless it is cached, and starts it on a free loopback port. Needs `node` on PATH. The
    /// node serves HTTP and WebSocket when this returns.
    pub fn start(options: HardhatOptions) -> Result<Self, Error> {
        let program = Path::new(NAME).join("internal").join("cli").join("bootstrap.js");
        let package = Package { label: NAME, name: NAME.to_owned(), version: VERSION };
        let modules = package.fetched(&program, |_| Ok(()))?.join("node_modules");
        let folder = Node::folder(NAME)?;
        // Hardhat only runs in a project that lists it among its packages.
        let failed = || Error::io(format!("preparing {}", folder.path().display()));
        fs::write(folder.path().join("hardhat.config.js"), configuration(&options)).map_err(failed())?;
        let modules = fs::canonicalize(modules).map_err(failed())?;
        symlink(&modules, folder.path().join("node_modules")).map_err(failed())?;
        let mut node = Command::new("node");
        node.arg(modules.join(program)).args(["node", "--hostname", "127.0.0.1"]);
        node.env("HARDHAT_DISABLE_TELEMETRY_PROMPT", "true");
        Ok(Self { node: Node::start(NAME, folder, &mut node)? })
    }

    /// The HTTP URL.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.node.port())
    }

    /// The WebSocket URL.
    pub fn ws_url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.node.port())
    }

    pub fn port(&self) -> u16 {
        self.node.port()
    }

    /// The process id, for tests that stop and continue the node; `None` while it is down.
    pub fn pid(&self) -> Option<u32> {
        self.node.pid()
    }

    /// Ends the node like a crash (SIGKILL).
    pub fn stop(&self) -> Result<(), Error> {
        self.node.stop()
    }

    /// Starts the node again on the same port after [`HardhatNode::stop`]. The chain begins at its genesis again.
    pub fn start_again(&self) -> Result<(), Error> {
        self.node.start_again()
    }
}

/// The values are numbers, so no quoting is needed.
fn configuration(options: &HardhatOptions) -> String {
    let mining = match options.mining {
        Mining::PerTransaction => "{ auto: true }".to_owned(),
        Mining::Every(time) => format!("{{ auto: false, interval: {} }}", time.as_millis()),
        Mining::OnDemand => "{ auto: false, interval: 0 }".to_owned(),
    };
    let HardhatOptions { chain_id, accounts, balance_ether, .. } = options;
    let balance = u128::from(*balance_ether) * 1_000_000_000_000_000_000;
    format!(
        "module.exports = {{ networks: {{ hardhat: {{ hardfork: 'prague', chainId: {chain_id}, mining: {mining}, \
         accounts: {{ count: {accounts}, accountsBalance: '{balance}' }} }} }} }};\n"
    )
}
