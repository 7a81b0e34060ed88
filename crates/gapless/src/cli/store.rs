//! `gapless store`: the declarations of an operator about the database.

use clap::{Args, Subcommand};
use gapless_wire::{StoreDeclarationName, StoreDeclared};

use super::server::ServerArgs;
use super::{CliError, Exit, block_on};
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Declare that the database was restored or has lost commits: every submitter stops until it is resynced
    DeclareLost(DeclareArgs),
    /// Declare that every loss of commits has been looked into: new submitters work again
    DeclareReconciled(DeclareArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DeclareArgs {
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    server: ServerArgs,
}

impl StoreCommand {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let declared = match self {
            StoreCommand::DeclareLost(args) => {
                block_on(async { Ok(args.server.client()?.declare_lost(&args.reason).await?) })?
            }
            StoreCommand::DeclareReconciled(args) => {
                block_on(async { Ok(args.server.client()?.declare_reconciled(&args.reason).await?) })?
            }
        };
        output.result(&declared, text(&declared))?;
        Ok(Exit::Success)
    }
}

fn text(declared: &StoreDeclared) -> &'static str {
    match declared.declared {
        StoreDeclarationName::Lost => {
            "the database is declared to have lost commits; every submitter goes into PROTECT (store_regressed)\n\
             next, for each submitter: gapless submitter resync NAME --dry-run, then without --dry-run\n\
             then: gapless store declare-reconciled --reason TEXT"
        }
        StoreDeclarationName::Reconciled => {
            "every loss so far is declared reconciled; submitters that are registered from now on work at once\n\
             submitters that are in PROTECT stay there until they are resynced: gapless submitter list"
        }
    }
}
