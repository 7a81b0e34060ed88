//! `gapless chain`: how chains are, and what their nodes say.

mod accept;
mod classify;
mod look;

use clap::Subcommand;

use super::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ChainCommand {
    /// List the chains of a node: heads, what is final, how many endpoints are good
    List(look::ListArgs),
    /// Show one chain with all its endpoints
    Show(look::ShowArgs),
    /// Accept that a chain is another one than before, or went back behind what was final
    Accept(accept::AcceptArgs),
    /// Say what an error text of a node means, why, and who decided
    Classify(classify::ClassifyArgs),
    /// List the client families that are known
    Families,
}

impl ChainCommand {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        match self {
            ChainCommand::List(args) => args.run(output),
            ChainCommand::Show(args) => args.run(output),
            ChainCommand::Accept(args) => args.run(output),
            ChainCommand::Classify(args) => args.run(output),
            ChainCommand::Families => classify::families(output),
        }
    }
}
