//! `gapless tx`: transactions of a running Gapless.

mod cancel;
mod get;
mod list;
mod orders;
mod payload;
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
    /// Ask for another payload in its place: at once in the queue, later at the same nonce, where the chain decides
    Replace(Box<orders::ReplaceArgs>),
    /// Send a transaction again now, at a price of your own or as the config says
    Resubmit(orders::ResubmitArgs),
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
                TxCommand::Replace(args) => args.run(output).await,
                TxCommand::Resubmit(args) => args.run(output).await,
            }
        })
    }
}
