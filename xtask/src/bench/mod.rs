//! `cargo xtask bench`: measures what the rooms cost, and what the whole of it does.

mod baseline;
mod check;

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Subcommand;
use gapless_testbed::{Anvil, AnvilOptions, Mining, Options, Postgres};

use crate::process::{cargo, exit_code, start_postgres, status, with_server};

/// In bigger blocks, anvil's receipts get slow.
const ANVIL_BLOCK_TIME: Duration = Duration::from_millis(250);

#[derive(Subcommand)]
pub(crate) enum What {
    /// The stores: accepts, commits and renewals a second
    Store {
        /// Arguments for gapless-bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The watcher: calls and time a block, by how many transactions are open
    Watcher {
        /// Arguments for gapless-bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The whole: `gapless bench` with a durable private PostgreSQL
    Load {
        /// On a private anvil with a block every 250 ms, instead of the null chain
        #[arg(long)]
        anvil: bool,
        /// Arguments for gapless bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Whether ratios and CPU a transaction are as good as docs/performance-baseline.json says
    Check {
        /// Write what is measured now as the new baseline
        #[arg(long)]
        update: bool,
    },
}

pub(crate) fn run(what: &What) -> Result<ExitCode> {
    match what {
        What::Store { arguments } => {
            let server = durable_postgres()?;
            Ok(exit_code(status(with_server(&mut bench("store", arguments), &server))?))
        }
        What::Watcher { arguments } => Ok(exit_code(status(&mut bench("watcher", arguments))?)),
        What::Load { anvil, arguments } => load(*anvil, arguments),
        What::Check { update } => check::run(*update),
    }
}

fn load(anvil: bool, arguments: &[String]) -> Result<ExitCode> {
    let server = durable_postgres()?;
    let mut command = gapless_bench(Some(&server));
    let node = if anvil {
        let options = AnvilOptions { mining: Mining::Every(ANVIL_BLOCK_TIME), ..AnvilOptions::default() };
        let node = Anvil::start(options).context("cannot start anvil")?;
        command.args(["--rpc", &node.ws_url()]);
        Some(node)
    } else {
        None
    };
    let status = status(command.args(arguments))?;
    drop(node);
    Ok(exit_code(status))
}

/// A durable server, since commits that are not synced cost nothing and mean nothing.
fn durable_postgres() -> Result<Postgres> {
    start_postgres(Options { durable: true, ..Options::default() })
}

fn bench(name: &str, arguments: &[String]) -> Command {
    let mut command = cargo();
    command.args(["run", "--release", "--package", "gapless-bench-micro", "--", name]).args(arguments);
    command
}

/// `gapless bench`, on a server or with SQLite.
fn gapless_bench(server: Option<&Postgres>) -> Command {
    let mut command = cargo();
    command.args(["run", "--release", "--package", "gapless", "--", "bench"]);
    if let Some(server) = server {
        command.args(["--store", &format!("{}/postgres", server.base_url())]);
    }
    command
}
