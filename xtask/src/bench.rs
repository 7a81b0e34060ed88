//! `cargo xtask bench`: measures with a durable server, since commits that are not synced cost nothing and mean
//! nothing.

use std::process::ExitCode;

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
}

pub(crate) fn run(what: &What) -> Result<ExitCode> {
    let What::Store { arguments } = what;
    let server = start_postgres(Options { durable: true, ..Options::default() })?;
    let mut command = cargo();
    command.args(["run", "--release", "--package", "gapless-bench", "--", "store"]).args(arguments);
    let status = status(with_server(&mut command, &server))?;
    Ok(exit_code(status))
}
