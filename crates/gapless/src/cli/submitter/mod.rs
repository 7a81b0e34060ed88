//! `gapless submitter`: the submitters of a running node, and the commands to their lanes.

mod cancel_pending;
mod command;
mod list;
mod pause;
mod resume;
mod resync;
mod show;
mod unprotect;

use clap::{Args, Subcommand};

use super::server::ServerArgs;
use super::{CliError, Exit, block_on};
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum SubmitterCommand {
    /// List the submitters
    List(list::ListSubmittersArgs),
    /// Show one submitter: its problems and the next steps, its lane, its bound nonces with their attempts
    Show(show::ShowSubmitterArgs),
    /// Bind no new nonces for a submitter; transactions that have a nonce go on
    Pause(pause::PauseArgs),
    /// End the pause of a submitter
    Resume(resume::ResumeArgs),
    /// Leave PROTECT; refused while the cause of PROTECT persists
    Unprotect(unprotect::UnprotectArgs),
    /// Reconcile the ledger of a submitter with the chain; --dry-run only lists the changes
    Resync(resync::ResyncArgs),
    /// Cancel all open transactions of a submitter; the chain decides about those with a nonce
    CancelPending(cancel_pending::CancelPendingArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// CAIP-10 id or alias of the submitter
    #[arg(value_name = "SUBMITTER")]
    name: String,
    #[command(flatten)]
    server: ServerArgs,
}

impl SubmitterCommand {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        block_on(async {
            match self {
                SubmitterCommand::List(args) => args.run(output).await,
                SubmitterCommand::Show(args) => args.run(output).await,
                SubmitterCommand::Pause(args) => args.run(output).await,
                SubmitterCommand::Resume(args) => args.run(output).await,
                SubmitterCommand::Unprotect(args) => args.run(output).await,
                SubmitterCommand::Resync(args) => args.run(output).await,
                SubmitterCommand::CancelPending(args) => args.run(output).await,
            }
        })
    }
}
