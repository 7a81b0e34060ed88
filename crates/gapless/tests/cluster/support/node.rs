//! One `gapless serve` process.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

use futures_util::future::join_all;
use gapless_wire::{Client, SubmitterExpand};

use super::{Folder, Process, eventually};

pub(super) const MNEMONIC: &str = "test test test test test test test test test test test junk";
/// How much of a log is shown when a test fails.
const LOG_LINES: usize = 60;

/// What is written to the config file, and what the process gets by environment.
#[derive(Clone, Debug)]
pub(crate) struct NodeConfig {
    store: String,
    rpc: Vec<String>,
    /// Which accounts of anvil's mnemonic it has; number 3 has the alias `s3`.
    accounts: Vec<u32>,
    secrets: Option<Secrets>,
    settings: Vec<(String, String)>,
    /// A variable that names a fault point, and the point.
    fault: Option<(&'static str, String)>,
}

/// A submitter `secret` whose key is in the environment.
#[derive(Clone, Debug)]
pub(crate) struct Secrets {
    pub(crate) key: String,
}

impl NodeConfig {
    pub(crate) fn new(store: &str, rpc: &str, accounts: &[u32]) -> Self {
        Self::with_endpoints(store, &[rpc.to_owned()], accounts)
    }

    pub(crate) fn with_endpoints(store: &str, rpc: &[String], accounts: &[u32]) -> Self {
        let (store, rpc) = (store.to_owned(), rpc.to_vec());
        let config =
            NodeConfig { store, rpc, accounts: accounts.to_vec(), secrets: None, settings: vec![], fault: None };
        config
            .set("auth.mode", "none")
            .set("node.listen", "127.0.0.1:0")
            .set("log.filter", "debug")
            .set("store.postgres.pool_size", "4")
            // Final when mined, unless a test is about that.
            .set("confirmations.required", "1")
    }

    /// `nonce.max_in_flight` and so on.
    pub(crate) fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.retain(|(other, _)| other != key);
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn secrets(self, secrets: Secrets) -> Self {
        NodeConfig { secrets: Some(secrets), ..self }
    }

    /// A short lease, so that a takeover does not take long.
    pub(crate) fn short_lease(self) -> Self {
        self.set("lease.duration", "3s").set("lease.renew_interval", "500ms").set("lease.clock_skew", "500ms")
    }

    /// Ends the process as a crash would when it gets to this fault point.
    pub(crate) fn abort_at(self, point: &str) -> Self {
        NodeConfig { fault: Some(("GAPLESS_ABORT_AT", point.to_owned())), ..self }
    }

    /// Stops the process, as `SIGSTOP` does, when it gets to this fault point.
    pub(crate) fn stop_at(self, point: &str) -> Self {
        NodeConfig { fault: Some(("GAPLESS_STOP_AT", point.to_owned())), ..self }
    }

    pub(crate) fn without_faults(&self) -> Self {
        NodeConfig { fault: None, ..self.clone() }
    }

    /// With one loopback port in place of another, wherever it is asked for.
    pub(crate) fn redirected(&self, from: u16, to: u16) -> Self {
        let redirect = |url: &String| {
            let (before, rest) = url.split_once(&format!("127.0.0.1:{from}")).unwrap_or((url, ""));
            if before.len() == url.len() { url.clone() } else { format!("{before}127.0.0.1:{to}{rest}") }
        };
        let (store, rpc) = (redirect(&self.store), self.rpc.iter().map(redirect).collect());
        NodeConfig { store, rpc, ..self.clone() }
    }

    fn toml(&self) -> String {
        let mut text =
            format!("[store]\nurl = {:?}\n[[chain]]\nid = \"eip155:31337\"\nrpc = {:?}\n", self.store, self.rpc);
        for account in &self.accounts {
            text += &format!(
                "[[submitter]]\nalias = \"s{account}\"\nchain = \"eip155:31337\"\n\
                 signer = {{ type = \"mnemonic\", var = \"TEST_WORDS\", path = \"m/44'/60'/0'/0/{account}\" }}\n"
            );
        }
        if self.secrets.is_some() {
            text += "[[submitter]]\nalias = \"secret\"\nchain = \"eip155:31337\"\nsigner = { type = \"env\", var = \"TEST_KEY\" }\n";
        }
        text
    }

    /// `gapless` with this config, written to `folder`.
    pub(crate) fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let file = folder.join("gapless.toml");
        fs::write(&file, self.toml()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gapless"));
        command.args(arguments).arg("--config").arg(file).current_dir(folder).env("TEST_WORDS", MNEMONIC);
        for (key, value) in &self.settings {
            command.env(format!("GAPLESS__{}", key.replace('.', "__").to_uppercase()), value);
        }
        if let Some((variable, point)) = &self.fault {
            command.env(variable, point);
        }
        if let Some(secrets) = &self.secrets {
            command.env("TEST_KEY", &secrets.key);
        }
        command
    }
}

/// A running node. Dropping it ends it as a crash would.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) api: String,
    pub(crate) client: Client,
    process: Process,
}

impl Node {
    /// Starts it, and waits until it is ready for requests.
    pub(crate) async fn start(name: &str, config: &NodeConfig) -> Self {
        let node = Node::try_start(name, config).await;
        let node = node.unwrap_or_else(|log| panic!("it ended while it started: {log}"));
        eventually("a node is ready", async || node.client.readyz().await.ok()).await;
        node
    }

    /// Starts it, and waits until it listens. Tells why if it does not.
    pub(crate) async fn try_start(name: &str, config: &NodeConfig) -> Result<Self, String> {
        let folder = Folder::new(name);
        let mut command = config.command(folder.path(), &["serve", "--json"]);
        command.env("GAPLESS__NODE__ID", name);
        let mut process = Process::spawn(command, folder);
        let ready = process.try_ready().await?;
        // Else it says why it is about to end.
        let api = ready["api"].as_str().ok_or_else(|| ready.to_string())?.to_owned();
        Ok(Node { name: name.to_owned(), client: Client::new(&api).unwrap(), api, process })
    }

    /// `STOP`, `CONT`, `TERM`, `KILL`.
    pub(crate) fn signal(&mut self, signal: &str) {
        assert!(self.has_ended().is_none(), "{} has ended before it got {signal}", self.name);
        self.process.signal(signal);
    }

    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.process.has_ended()
    }

    pub(crate) async fn wait_for_end(&mut self) -> ExitStatus {
        eventually("a process ends", async || self.has_ended()).await
    }

    /// Whether it has come to its fault point.
    pub(crate) fn has_aborted(&mut self) -> bool {
        const SIGABRT: i32 = 6;
        let status = self.has_ended();
        if let Some(status) = status {
            assert_eq!(status.signal(), Some(SIGABRT), "{} ended otherwise: {status}", self.name);
        }
        status.is_some()
    }

    /// Whether it has come to the fault point where it stops.
    pub(crate) fn has_stopped(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap_or_default();
        // The state comes after the name, which is in parentheses.
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    }

    /// Everything it has logged.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// The sum over all labels of a counter, as `/metrics` shows it.
    pub(crate) async fn counter(&self, name: &str) -> f64 {
        let text = self.client.metrics().await.unwrap();
        let lines = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// The name of the node that owns a lane, as this one sees it, and its fencing token.
    pub(crate) async fn owner_of(&self, submitter: &str) -> Option<(String, u64)> {
        let view = self.client.submitter(submitter, &[SubmitterExpand::Lease]).await.ok()?;
        let lease = view.lease?;
        // A process's name has a random part behind it.
        let (name, _) = lease.owner.split_once('/').unwrap();
        Some((name.to_owned(), lease.fencing_token))
    }
}

/// The nodes of most clusters.
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

/// Nodes `a`, `b` and `c`.
pub(crate) async fn three(config: &NodeConfig) -> Vec<Node> {
    join_all(NAMES.map(|name| Node::start(name, config))).await
}

/// Which of these owns a lane, as one of them says, and its fencing token.
pub(crate) async fn owner(nodes: &[Node], submitter: &str, asked: usize) -> (usize, u64) {
    let (name, token) = eventually("a lane has an owner", async || nodes[asked].owner_of(submitter).await).await;
    (nodes.iter().position(|node| node.name == name).unwrap(), token)
}

/// Waits until another node than this one has a lane, with a higher token, and tells which and the token.
pub(crate) async fn taken_over(nodes: &[Node], submitter: &str, loser: usize, token: u64) -> (usize, u64) {
    let other = &nodes[(loser + 1) % nodes.len()];
    let (name, newer) = eventually("another node has the lane", async || {
        let (owner, newer) = other.owner_of(submitter).await?;
        (owner != nodes[loser].name && newer > token).then_some((owner, newer))
    })
    .await;
    (nodes.iter().position(|node| node.name == name).unwrap(), newer)
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            show_log(&self.name, &self.log());
        }
    }
}

#[expect(clippy::print_stderr, reason = "whoever looks at a failed test wants to see the logs of its nodes")]
fn show_log(name: &str, log: &str) {
    // What HTTP clients do with their connections is of no interest, and most of it.
    let lines: Vec<&str> = log.lines().filter(|line| !line.contains(" hyper_util::")).collect();
    let shown = lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default();
    eprintln!("--- the log of {name}, its last lines:\n{}\n---", shown.join("\n"));
}
