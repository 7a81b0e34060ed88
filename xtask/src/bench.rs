//! `cargo xtask bench`: measures what the rooms cost.

use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Subcommand;
use gapless_testbed::Options;

use crate::process::{cargo, exit_code, start_postgres, status, with_server};

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
}

pub(crate) fn run(what: &What) -> Result<ExitCode> {
    match what {
        What::Store { arguments } => {
            // A durable server, since commits that are not synced cost nothing and mean nothing.
            let server = start_postgres(Options { durable: true, ..Options::default() })?;
            Ok(exit_code(status(with_server(&mut bench("store", arguments), &server))?))
        }
        What::Watcher { arguments } => Ok(exit_code(status(&mut bench("watcher", arguments))?)),
    }
}

fn bench(name: &str, arguments: &[String]) -> Command {
    let mut command = cargo();
    command.args(["run", "--release", "--package", "gapless-bench", "--", name]).args(arguments);
    command
}
