//! One `gapless serve` process.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

use futures_util::future::join_all;
use gapless_wire::{Client, SubmitterExpand};

use super::{ChildProcess, TestFolder, eventually};

pub(super) const MNEMONIC: &str = "test test test test test test test test test test test junk";
/// Lines of a log that are shown when a test fails.
const LOG_LINES: usize = 60;

/// The config file and the environment of a node.
#[derive(Clone, Debug)]
pub(crate) struct TestNodeConfig {
    store: String,
    rpc: Vec<String>,
    /// The accounts of anvil's mnemonic that the node has; number 3 has the alias `s3`.
    accounts: Vec<u32>,
    secrets: Option<Secrets>,
    settings: Vec<(String, String)>,
    /// The variable that sets a fault point, and the name of the point.
    fault: Option<(&'static str, String)>,
}

/// A submitter `secret` whose key is in the environment.
#[derive(Clone, Debug)]
pub(crate) struct Secrets {
    pub(crate) key: String,
}

impl TestNodeConfig {
    pub(crate) fn new(store: &str, rpc: &str, accounts: &[u32]) -> Self {
        Self::with_endpoints(store, &[rpc.to_owned()], accounts)
    }

    pub(crate) fn with_endpoints(store: &str, rpc: &[String], accounts: &[u32]) -> Self {
        let (store, rpc) = (store.to_owned(), rpc.to_vec());
        let config =
            TestNodeConfig { store, rpc, accounts: accounts.to_vec(), secrets: None, settings: vec![], fault: None };
        config
            .set("auth.mode", "none")
            .set("node.listen", "127.0.0.1:0")
            .set("log.filter", "debug")
            .set("store.postgres.pool_size", "4")
            // A mined transaction is final, unless a test is about finality.
            .set("confirmations.required", "1")
    }

    /// Sets a key such as `nonce.max_in_flight`.
    pub(crate) fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.retain(|(other, _)| other != key);
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn secrets(self, secrets: Secrets) -> Self {
        TestNodeConfig { secrets: Some(secrets), ..self }
    }

    /// Sets a short lease for a fast takeover.
    pub(crate) fn short_lease(self) -> Self {
        self.set("lease.duration", "3s").set("lease.renew_interval", "500ms").set("lease.clock_skew", "500ms")
    }

    /// Aborts the process at a fault point.
    pub(crate) fn abort_at(self, point: &str) -> Self {
        TestNodeConfig { fault: Some(("GAPLESS_ABORT_AT", point.to_owned())), ..self }
    }

    /// Stops the process at a fault point, as `SIGSTOP` does.
    pub(crate) fn stop_at(self, point: &str) -> Self {
        TestNodeConfig { fault: Some(("GAPLESS_STOP_AT", point.to_owned())), ..self }
    }

    pub(crate) fn without_faults(&self) -> Self {
        TestNodeConfig { fault: None, ..self.clone() }
    }

    /// The config with one loopback port replaced by another in all URLs.
    pub(crate) fn redirected(&self, from: u16, to: u16) -> Self {
        let redirect = |url: &String| {
            let (before, rest) = url.split_once(&format!("127.0.0.1:{from}")).unwrap_or((url, ""));
            if before.len() == url.len() { url.clone() } else { format!("{before}127.0.0.1:{to}{rest}") }
        };
        let (store, rpc) = (redirect(&self.store), self.rpc.iter().map(redirect).collect());
        TestNodeConfig { store, rpc, ..self.clone() }
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
            text += "[[submitter]]\nalias = \"secret\"\nchain = \"eip155:31337\"\n\
                     signer = { type = \"env\", var = \"TEST_KEY\" }\n";
        }
        text
    }

    /// A `gapless` command with this config, which is written to `folder`.
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

/// A running `gapless serve`. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct NodeProcess {
    pub(crate) name: String,
    pub(crate) api: String,
    pub(crate) client: Client,
    process: ChildProcess,
}

impl NodeProcess {
    /// Starts a node and waits until `/readyz` succeeds.
    pub(crate) async fn start(name: &str, config: &TestNodeConfig) -> Self {
        let node = NodeProcess::try_start(name, config).await;
        let node = node.unwrap_or_else(|log| panic!("the node ended during its start: {log}"));
        eventually("a node is ready", async || node.client.readyz().await.ok()).await;
        node
    }

    /// Starts a node and waits until it listens. `Err` is the log of a node that ended instead.
    pub(crate) async fn try_start(name: &str, config: &TestNodeConfig) -> Result<Self, String> {
        let folder = TestFolder::new(name);
        let mut command = config.command(folder.path(), &["serve", "--json"]);
        command.env("GAPLESS__NODE__ID", name);
        let mut process = ChildProcess::spawn(command, folder);
        let ready = process.try_ready().await?;
        // Without `api` the line is an error.
        let api = ready["api"].as_str().ok_or_else(|| ready.to_string())?.to_owned();
        Ok(NodeProcess { name: name.to_owned(), client: Client::new(&api).unwrap(), api, process })
    }

    /// Sends a signal: `STOP`, `CONT`, `TERM` or `KILL`.
    pub(crate) fn signal(&mut self, signal: &str) {
        assert!(self.has_ended().is_none(), "{} ended before the signal {signal}", self.name);
        self.process.signal(signal);
    }

    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.process.has_ended()
    }

    pub(crate) async fn wait_for_end(&mut self) -> ExitStatus {
        eventually("a process ends", async || self.has_ended()).await
    }

    /// True if the node aborted at its fault point.
    pub(crate) fn has_aborted(&mut self) -> bool {
        const SIGABRT: i32 = 6;
        let status = self.has_ended();
        if let Some(status) = status {
            assert_eq!(status.signal(), Some(SIGABRT), "{} ended without an abort: {status}", self.name);
        }
        status.is_some()
    }

    /// True if the node stopped at its fault point.
    pub(crate) fn has_stopped(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap_or_default();
        // The process state follows the name in parentheses.
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    }

    /// The whole log.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// The sum of a counter of `/metrics` over all labels.
    pub(crate) async fn counter(&self, name: &str) -> f64 {
        let text = self.client.metrics().await.unwrap();
        let lines = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// The name of the owner of a lane and its fencing token, as this node shows it.
    pub(crate) async fn owner_of(&self, submitter: &str) -> Option<(String, u64)> {
        let view = self.client.submitter(submitter, &[SubmitterExpand::Lease]).await.ok()?;
        let lease = view.lease?;
        // The random part of the name follows a slash.
        let (name, _) = lease.owner.split_once('/').unwrap();
        Some((name.to_owned(), lease.fencing_token))
    }
}

/// The names of the nodes of most clusters.
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

/// Starts the nodes `a`, `b` and `c`.
pub(crate) async fn start_three_nodes(config: &TestNodeConfig) -> Vec<NodeProcess> {
    join_all(NAMES.map(|name| NodeProcess::start(name, config))).await
}

/// The index of the owner of a lane and its fencing token, as the node `observer` shows it.
pub(crate) async fn owner(nodes: &[NodeProcess], submitter: &str, observer: usize) -> (usize, u64) {
    let (name, token) = eventually("a lane has an owner", async || nodes[observer].owner_of(submitter).await).await;
    (nodes.iter().position(|node| node.name == name).unwrap(), token)
}

/// Waits until another node than `loser` owns a lane with a higher token, and returns its index and the token.
pub(crate) async fn wait_for_takeover(
    nodes: &[NodeProcess],
    submitter: &str,
    loser: usize,
    token: u64,
) -> (usize, u64) {
    let other = &nodes[(loser + 1) % nodes.len()];
    let (name, newer) = eventually("another node owns the lane", async || {
        let (owner, newer) = other.owner_of(submitter).await?;
        (owner != nodes[loser].name && newer > token).then_some((owner, newer))
    })
    .await;
    (nodes.iter().position(|node| node.name == name).unwrap(), newer)
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            show_log(&self.name, &self.log());
        }
    }
}

#[expect(clippy::print_stderr, reason = "a failed test shows the logs of its nodes")]
fn show_log(name: &str, log: &str) {
    // Lines about HTTP connections are most of the log and do not help.
    let lines: Vec<&str> = log.lines().filter(|line| !line.contains(" hyper_util::")).collect();
    let shown = lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default();
    eprintln!("--- last lines of the log of {name}:\n{}\n---", shown.join("\n"));
}
