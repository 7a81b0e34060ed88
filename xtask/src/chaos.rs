//! `cargo xtask chaos`: everything goes wrong, for as long as one likes (docs/chaos.md).
//!
//! What goes wrong, and what must be true all the same, is in the test `chaos` of the package `gapless`. It starts its own PostgreSQL,
//! since it has to crash it.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::process::{cargo, status};

#[derive(Args)]
pub(crate) struct ChaosArguments {
    /// For how long faults go on; what they leave behind is waited for after that
    #[arg(long, default_value_t = 10)]
    minutes: u32,
    /// The seed that a run before has printed: the same faults in the same order
    #[arg(long)]
    seed: Option<u64>,
    /// Callers whose accepted requests were lost by the database ask again without having looked at what the operator has found on
    /// chain: whatever had happened already happens again, and is told as a violation of P1
    #[arg(long)]
    resend_blindly: bool,
    /// Build with optimizations: more load on the same machine
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
    // Cargo ends with another code when a test fails; here 1 says that a promise was not kept.
    Ok(if status(&mut command)?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
