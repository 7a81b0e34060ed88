//! One `gapless serve` process.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::LoadError;
use crate::account::Account;
use crate::chain::Chain;
use crate::child::Child;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) child: Child,
    /// Address of the API, such as `127.0.0.1:8080`.
    pub(crate) authority: String,
}

/// Settings that all nodes of a setup share.
#[derive(Debug)]
pub(crate) struct NodePlan<'a> {
    pub(crate) program: &'a Path,
    pub(crate) store: &'a str,
    pub(crate) chain: &'a Chain,
    pub(crate) accounts: &'a [Account],
    pub(crate) window: u32,
    pub(crate) confirmations: u32,
    pub(crate) callers: u32,
}

impl NodePlan<'_> {
    /// The config: room for as many calls as there are callers, and defaults elsewhere. The environment may override
    /// it.
    fn toml(&self) -> String {
        let mut text = format!(
            "[auth]\nmode = \"none\"\n[log]\nfilter = \"warn\"\n[confirmations]\nrequired = {}\n\
             [nonce]\nmax_in_flight = {}\n[limits]\nin_flight_requests = {}\n\
             [[chain]]\nid = \"eip155:{}\"\nrpc = {:?}\n",
            self.confirmations,
            self.window,
            self.callers.saturating_mul(2).max(1024),
            self.chain.endpoint.chain_id,
            self.chain.urls,
        );
        for (index, account) in self.accounts.iter().enumerate() {
            // Writing to a String never fails.
            let _ = write!(
                text,
                "[[submitter]]\nchain = \"eip155:{}\"\naddress = \"{}\"\nsigner = {{ type = \"env\", var = \"{}\" }}\n",
                self.chain.endpoint.chain_id,
                account.address,
                variable(index)
            );
        }
        text
    }

    pub(crate) async fn start(&self, name: &str, folder: &Path) -> Result<Node, LoadError> {
        let mut child = Child::start(name, &mut self.command("serve", folder)?, folder)?;
        let ready = child.ready().await?;
        let authority = ready["api"].as_str().and_then(|url| url.strip_prefix("http://")).map(str::to_owned);
        let authority =
            authority.ok_or_else(|| LoadError::Unreadable { what: name.to_owned(), text: ready.to_string() })?;
        Ok(Node { child, authority })
    }

    /// Creates the tables and nothing else.
    pub(crate) async fn migrate(&self, folder: &Path) -> Result<(), LoadError> {
        Child::start("gapless migrate", &mut self.command("migrate", folder)?, folder)?.ended().await
    }

    fn command(&self, word: &str, folder: &Path) -> Result<Command, LoadError> {
        let file = folder.join("gapless.toml");
        fs::write(&file, self.toml()).map_err(LoadError::file(&file))?;
        let mut command = Command::new(self.program);
        command.args([word, "--json", "--config"]).arg(file);
        // The environment must not override these: another store or port would be measured, or damaged.
        command.env("GAPLESS__STORE__URL", self.store).env("GAPLESS__NODE__LISTEN", "127.0.0.1:0");
        for (index, account) in self.accounts.iter().enumerate() {
            command.env(variable(index), account.key_text());
        }
        Ok(command)
    }
}

fn variable(index: usize) -> String {
    format!("BENCH_KEY_{index}")
}
