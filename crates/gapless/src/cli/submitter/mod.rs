//! `gapless submitter`: the lanes of a running Gapless.

mod show;
mod tell;

use clap::{Args, Subcommand};
use gapless_wire::{PageQuery, SubmitterExpand};

use super::server::ServerArgs;
use super::table::columns;
use super::{CliError, Exit, block_on};
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum SubmitterCommand {
    /// List the submitters
    List(ListArgs),
    /// Show one submitter: what is wrong and what to do, its lane, its bound nonces with their attempts
    Show(ShowArgs),
    /// Bind nothing new for a submitter; what has a nonce goes on
    Pause(tell::TellArgs),
    /// Go on after a pause
    Resume(tell::TellArgs),
    /// Leave PROTECT; refused while what led into it persists
    Unprotect(tell::TellArgs),
    /// Reconcile the ledger with the chain, or with --dry-run only say what that would do
    Resync(tell::ResyncArgs),
    /// Cancel everything that a submitter has under way; the chain decides about what has a nonce
    CancelPending(tell::TellArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// How many
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
    /// Where the page begins: what the page before gave as its end
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// A CAIP-10 id or an alias
    #[arg(value_name = "SUBMITTER")]
    name: String,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    of: NameArgs,
    /// Where the page of bound nonces begins: what the page before gave as its end
    #[arg(long, value_name = "NONCE")]
    from_slot: Option<u64>,
}

impl SubmitterCommand {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        block_on(async {
            match self {
                SubmitterCommand::List(args) => list(args, output).await,
                SubmitterCommand::Show(args) => args.run(output).await,
                SubmitterCommand::Pause(args) => args.pause(output).await,
                SubmitterCommand::Resume(args) => args.resume(output).await,
                SubmitterCommand::Unprotect(args) => args.unprotect(output).await,
                SubmitterCommand::Resync(args) => args.run(output).await,
                SubmitterCommand::CancelPending(args) => args.cancel_pending(output).await,
            }
        })
    }
}

async fn list(args: ListArgs, output: &Output) -> Result<Exit, CliError> {
    let query = PageQuery { limit: args.limit, cursor: args.cursor };
    let page = args.server.client()?.submitters(&query).await?;
    let rows: Vec<[String; 4]> = page
        .items
        .iter()
        .map(|view| {
            let alias = view.alias.clone().unwrap_or_default();
            [view.submitter.clone(), alias, show::state(view), format!("{} queued, {} open", view.queued, view.open)]
        })
        .collect();
    output.result(&page, columns(&rows))?;
    if let Some(cursor) = &page.next_cursor {
        output.note(format_args!("there are more: --cursor {cursor}"));
    }
    Ok(Exit::Success)
}

impl ShowArgs {
    async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let client = self.of.server.client()?;
        let expand = [SubmitterExpand::Lease, SubmitterExpand::Nonces, SubmitterExpand::Slots];
        let view = client.submitter_from(&self.of.name, &expand, self.from_slot).await?;
        // How the endpoints are belongs to the picture, and is not worth failing for.
        let chain = client.chain(&view.chain).await.ok();
        output.result(&view, show::whole(&view, chain.as_ref(), &self.of.name))?;
        if let Some(nonce) = view.next_slot {
            output.note(format_args!("there are more: --from-slot {nonce}"));
        }
        Ok(Exit::Success)
    }
}
