//! Foundry's anvil, an EVM node in one process.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::node::{Mining, Node};
use crate::npm::{self, Package};

const NAME: &str = "anvil";
const VERSION: &str = "1.7.1";

/// Settings of an anvil node.
#[derive(Debug, Clone)]
pub struct AnvilOptions {
    pub mining: Mining,
    pub chain_id: u64,
    /// Number of funded accounts of the well-known mnemonic (`test test … junk`).
    pub accounts: u32,
    /// Balance of each funded account, in ether.
    pub balance_ether: u64,
    /// Further command line arguments (`--load-state`, `--hardfork`, …).
    pub arguments: Vec<String>,
}

impl Default for AnvilOptions {
    fn default() -> Self {
        Self {
            mining: Mining::PerTransaction,
            chain_id: 31_337,
            accounts: 10,
            balance_ether: 10_000,
            arguments: Vec::new(),
        }
    }
}

/// A running private anvil node. It stops when this value is dropped or when the process ends for any reason.
#[derive(Debug)]
pub struct Anvil {
    node: Node,
}

impl Anvil {
    /// Finds anvil (on PATH if the version matches, otherwise as an npm package) and starts it on a free loopback port.
    /// The node serves HTTP and WebSocket when this returns.
    pub fn start(options: AnvilOptions) -> Result<Self, Error> {
        let mut anvil = Command::new(binary()?);
        anvil.args(["--host", "127.0.0.1"]);
        anvil.args(["--chain-id", &options.chain_id.to_string()]);
        anvil.args(["--accounts", &options.accounts.to_string()]);
        anvil.args(["--balance", &options.balance_ether.to_string()]);
        match options.mining {
            Mining::PerTransaction => {}
            Mining::Every(time) => {
                anvil.args(["--block-time", &time.as_secs_f64().to_string()]);
            }
            Mining::OnDemand => {
                anvil.arg("--no-mining");
            }
        }
        anvil.args(options.arguments);
        Ok(Self { node: Node::start(NAME, Node::folder(NAME)?, &mut anvil)? })
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

    /// Starts the node again on the same port after [`Anvil::stop`]. The chain begins at its genesis again.
    pub fn start_again(&self) -> Result<(), Error> {
        self.node.start_again()
    }
}

fn binary() -> Result<PathBuf, Error> {
    if let Some(found) = on_path() {
        return Ok(found);
    }
    let machine = match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    // The binary is a package of its own; the one called `anvil` only finds the right one of them.
    let package =
        Package { label: NAME, name: format!("@foundry-rs/anvil-{}-{machine}", npm::system()), version: VERSION };
    let binary = Path::new(&package.name).join("bin").join("anvil");
    let kept = package.fetched(&binary, |_| Ok(()))?;
    Ok(kept.join("node_modules").join(binary))
}

fn on_path() -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(NAME)).find(|binary| {
        let output = Command::new(binary).arg("--version").output();
        output.is_ok_and(|output| is_our_version(&String::from_utf8_lossy(&output.stdout)))
    })
}

/// The first line is `anvil Version: 1.7.1`, with `-stable` behind it when foundryup has installed it.
fn is_our_version(output: &str) -> bool {
    let line = output.lines().next().unwrap_or_default();
    let version = line.rsplit(' ').next().unwrap_or_default();
    version.strip_suffix("-stable").unwrap_or(version) == VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_on_the_path_is_not_used() {
        assert!(is_our_version(&format!("anvil Version: {VERSION}\nCommit SHA: 4072e48")));
        assert!(is_our_version(&format!("anvil Version: {VERSION}-stable\n")));
        assert!(!is_our_version("anvil Version: 1.7.10\n"));
        assert!(!is_our_version(&format!("anvil Version: {VERSION}-nightly\n")));
        assert!(!is_our_version(""));
    }
}
