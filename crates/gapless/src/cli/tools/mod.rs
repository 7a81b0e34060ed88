//! The commands for development, and their errors. The lean build has none of them.

mod bench;
mod dev;
mod devchain;
mod sim;

use clap::Subcommand;

use super::{CliError, Exit};
use crate::compose::DevNetError;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    /// Run a complete local setup: a node with a SQLite ledger, a dev chain and funded submitters
    #[command(display_order = 0)]
    Dev(dev::DevArgs),
    /// Run only the dev chain, without a node
    Devchain(devchain::DevchainArgs),
    /// Run the simulator: seeded worlds full of faults, in which every promise is checked
    Sim(sim::SimArgs),
    /// Measure throughput, latencies, CPU and memory of Gapless on this machine
    Bench(bench::BenchArgs),
}

impl ToolCommand {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        match self {
            ToolCommand::Dev(args) => args.run(output),
            ToolCommand::Devchain(args) => args.run(output),
            ToolCommand::Sim(args) => args.run(output),
            ToolCommand::Bench(args) => args.run(output),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error(transparent)]
    Bench(#[from] gapless_bench_cluster::LoadError),
    #[error(transparent)]
    DevNet(DevNetError),
}

impl ToolError {
    /// True if the error stays until the command line or the environment changes.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            ToolError::Bench(error) => error.is_refusal(),
            ToolError::DevNet(_) => false,
        }
    }

    /// The stable error code for programs.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            ToolError::Bench(_) => "bench",
            ToolError::DevNet(_) => "start",
        }
    }
}

impl From<DevNetError> for CliError {
    fn from(error: DevNetError) -> Self {
        match error {
            DevNetError::Compose(error) => CliError::Compose(error),
            error => CliError::Tool(ToolError::DevNet(error)),
        }
    }
}

impl From<gapless_bench_cluster::LoadError> for CliError {
    fn from(error: gapless_bench_cluster::LoadError) -> Self {
        CliError::Tool(ToolError::Bench(error))
    }
}
