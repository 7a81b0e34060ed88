//! `gapless tx`: the transactions of a running node.

mod cancel;
mod command;
mod get;
mod list;
mod payload;
mod replace;
mod resubmit;
mod send;
mod text;
mod watch;

use clap::Subcommand;

use super::{CliError, Exit, block_on};
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum TxCommand {
    /// Send a transaction
    Send(Box<send::SendArgs>),
    /// Show one transaction
    Get(get::GetArgs),
    /// List transactions, newest first
    List(list::ListTxArgs),
    /// Follow a transaction to its end, with a line for each change
    Watch(watch::WatchArgs),
    /// Cancel a transaction: at once if it is queued, else by another transaction at its nonce, and the chain decides
    Cancel(cancel::CancelArgs),
    /// Replace the payload: at once if the transaction is queued, else at the same nonce, and the chain decides
    Replace(Box<replace::ReplaceArgs>),
    /// Send a transaction again now, with the fees of the config or with fees of your own
    Resubmit(resubmit::ResubmitArgs),
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
