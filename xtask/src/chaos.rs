//! `cargo xtask chaos`: real processes under faults, for a given time (docs/chaos.md).
//!
//! The faults and the checks are in the test `chaos` of the package `gapless`. The test starts its own PostgreSQL
//! server, because it crashes the server.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::process::{cargo, status};

#[derive(Args)]
pub(crate) struct ChaosArguments {
    /// Minutes of faults; afterwards the run waits for all intents to end
    #[arg(long, default_value_t = 10)]
    minutes: u32,
    /// Seed that an earlier run printed: the same faults in the same order
    #[arg(long)]
    seed: Option<u64>,
    /// Callers repeat requests that the database lost, without checking the chain first. Transactions that were already
    /// mined happen twice, and the run reports a violation of P1
    #[arg(long)]
    resend_blindly: bool,
    /// Build with optimizations, for more load on the same machine
    #[arg(long)]
    release: bool,
}

pub(crate) fn run(arguments: &ChaosArguments) -> Result<ExitCode> {
    let mut command = cargo();
    command.args(["test", "--package", "gapless", "--test", "chaos"]);
    if arguments.release {
        command.arg("--release");
    }
    command.args(["--", "--nocapture"]).env("GAPLESS_CHAOS_MINUTES", arguments.minutes.to_string());
    if let Some(seed) = arguments.seed {
        command.env("GAPLESS_CHAOS_SEED", seed.to_string());
    }
    if arguments.resend_blindly {
        command.env("GAPLESS_CHAOS_RESEND_BLINDLY", "1");
    }
    // Cargo exits with 101 when a test fails. Here 1 means that a promise was broken.
    Ok(if status(&mut command)?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
