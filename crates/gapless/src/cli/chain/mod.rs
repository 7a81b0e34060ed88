//! `gapless chain`: the chains of a running node, and the error texts of endpoints.

mod accept;
mod classify;
mod families;
mod list;
mod show;

use clap::Subcommand;

use super::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ChainCommand {
    /// List the chains of a node: head, final block, healthy endpoints
    List(list::ListChainsArgs),
    /// Show one chain with all its endpoints
    Show(show::ShowChainArgs),
    /// Accept a chain after a finality violation, for example when a test network was started anew
    Accept(accept::AcceptArgs),
    /// Classify an error text of an endpoint: what Gapless takes it for, and by which rule
    Classify(classify::ClassifyArgs),
    /// List the known client families
    Families,
}

impl ChainCommand {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        match self {
            ChainCommand::List(args) => args.run(output),
            ChainCommand::Show(args) => args.run(output),
            ChainCommand::Accept(args) => args.run(output),
            ChainCommand::Classify(args) => args.run(output),
            ChainCommand::Families => families::run(output),
        }
    }
}
