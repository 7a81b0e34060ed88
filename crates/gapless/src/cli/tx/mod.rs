//! `gapless tx`: transactions of a running Gapless.

mod cancel;
mod get;
mod list;
mod send;
mod show;
mod watch;

use clap::Subcommand;

use super::{CliError, Exit, block_on};
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum TxCommand {
    /// Hand in a transaction
    Send(Box<send::SendArgs>),
    /// Show one transaction
    Get(get::GetArgs),
    /// List transactions, newest first
    List(list::ListArgs),
    /// Follow a transaction to its end
    Watch(watch::WatchArgs),
    /// Cancel a transaction: at once in the queue, later by a race that the chain decides
    Cancel(cancel::CancelArgs),
}

impl TxCommand {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        block_on(async {
            match self {
                TxCommand::Send(args) => args.run(output).await,
                TxCommand::Get(args) => args.run(output).await,
                TxCommand::List(args) => args.run(output).await,
                TxCommand::Watch(args) => args.run(output).await,
                TxCommand::Cancel(args) => args.run(output).await,
            }
        })
    }
}
