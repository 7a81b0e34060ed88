//! `cargo xtask bench`: benchmarks of single crates and of whole nodes.

mod baseline;
mod check;

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Subcommand;
use gapless_testbed::{Anvil, AnvilOptions, Mining, Options, Postgres};

use crate::process::{cargo, exit_code, start_postgres, status, with_server};

#[derive(Subcommand)]
pub(crate) enum What {
    /// Measure the stores: accepts, commits and renewals per second
    Store {
        /// Arguments for gapless-bench-micro
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure the watcher: calls and time per block, by the number of open transactions
    Watcher {
        /// Arguments for gapless-bench-micro
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure whole nodes: `gapless bench` with a durable private PostgreSQL server
    Load {
        /// Use a private anvil instead of the null chain
        #[arg(long)]
        anvil: bool,
        /// Milliseconds between blocks of anvil, whose receipts get slow in bigger blocks
        #[arg(long, default_value_t = 250, requires = "anvil", value_parser = clap::value_parser!(u64).range(1..))]
        anvil_block_ms: u64,
        /// Gas limit of a block of anvil; with a low limit, blocks are full and their size is measured
        #[arg(long, default_value_t = 1_000_000_000, requires = "anvil")]
        anvil_block_gas: u64,
        /// Arguments for gapless bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compare ratios and CPU per transaction with docs/performance-baseline.json
    Check {
        /// Write the measured figures as the new baseline
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
        What::Load { anvil, anvil_block_ms, anvil_block_gas, arguments } => {
            let options = anvil.then(|| AnvilOptions {
                mining: Mining::Every(Duration::from_millis(*anvil_block_ms)),
                arguments: vec!["--gas-limit".to_string(), anvil_block_gas.to_string()],
                ..AnvilOptions::default()
            });
            load(options, arguments)
        }
        What::Check { update } => check::run(*update),
    }
}

fn load(anvil: Option<AnvilOptions>, arguments: &[String]) -> Result<ExitCode> {
    let server = durable_postgres()?;
    let mut command = gapless_bench(Some(&server));
    let node = if let Some(options) = anvil {
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

/// A durable server: commits that are not synced to disk would make the figures meaningless.
fn durable_postgres() -> Result<Postgres> {
    start_postgres(Options { durable: true, ..Options::default() })
}

fn bench(name: &str, arguments: &[String]) -> Command {
    let mut command = cargo();
    command.args(["run", "--release", "--package", "gapless-bench-micro", "--", name]).args(arguments);
    command
}

/// `gapless bench`, on a PostgreSQL server or with SQLite.
fn gapless_bench(server: Option<&Postgres>) -> Command {
    let mut command = cargo();
    command.args(["run", "--release", "--package", "gapless", "--", "bench"]);
    if let Some(server) = server {
        command.args(["--store", &format!("{}/postgres", server.base_url())]);
    }
    command
}
