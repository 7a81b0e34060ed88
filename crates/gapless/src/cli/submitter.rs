//! `gapless submitter`: the lanes of a running Gapless.

use std::time::Duration;

use clap::{Args, Subcommand};
use gapless_wire::{CommandState, CommandView, NoncesView, PageQuery, SubmitterExpand, SubmitterView};

use super::server::{ServerArgs, duration};
use super::table::{columns, span};
use super::{CliError, Exit, block_on};
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum SubmitterCommand {
    /// List the submitters
    List(ListArgs),
    /// Show one submitter: its lane, its nonces and what the chain counts, its lease
    Show(NameArgs),
    /// Bind nothing new for a submitter; what has a nonce goes on
    Pause(TellArgs),
    /// Go on after a pause
    Resume(TellArgs),
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
pub(crate) struct TellArgs {
    #[command(flatten)]
    to: NameArgs,
    /// How long to wait until the lane has taken notice
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    wait: Duration,
}

impl SubmitterCommand {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        block_on(async {
            match self {
                SubmitterCommand::List(args) => list(args, output).await,
                SubmitterCommand::Show(args) => {
                    let expand = [SubmitterExpand::Lease, SubmitterExpand::Nonces];
                    let view = args.server.client()?.submitter(&args.name, &expand).await?;
                    output.result(&view, whole(&view))?;
                    Ok(Exit::Success)
                }
                SubmitterCommand::Pause(args) => {
                    told(args.to.server.client()?.pause(&args.to.name, Some(args.wait)).await?, output)
                }
                SubmitterCommand::Resume(args) => {
                    told(args.to.server.client()?.resume(&args.to.name, Some(args.wait)).await?, output)
                }
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
            [view.submitter.clone(), alias, state(view), format!("{} queued, {} open", view.queued, view.open)]
        })
        .collect();
    output.result(&page, columns(&rows))?;
    if let Some(cursor) = &page.next_cursor {
        output.note(format_args!("there are more: --cursor {cursor}"));
    }
    Ok(Exit::Success)
}

/// The command is durable in any case; a lane that takes long to notice is no failure.
fn told(view: CommandView, output: &Output) -> Result<Exit, CliError> {
    let text = match view.state {
        CommandState::Done => view.result.clone().unwrap_or_else(|| "done".to_owned()),
        CommandState::Open => format!("written down as command {}; the lane has not come to it yet", view.command_id),
    };
    output.result(&view, text)?;
    Ok(Exit::Success)
}

fn state(view: &SubmitterView) -> String {
    let paused = if view.paused { ", paused" } else { "" };
    let protect = view.protect.as_ref().map_or(String::new(), |protect| {
        format!(": {} ({})", protect.code, protect.detail.as_ref().unwrap_or(&protect.message))
    });
    format!("{}{paused}{protect}", view.state)
}

/// What the chain counts, each by itself.
fn counts(nonces: &NoncesView) -> String {
    let count = |count: Option<u64>| count.map_or("unknown".to_owned(), |count| count.to_string());
    format!(
        "latest {}, preconfirmed {}, final {}",
        count(nonces.latest),
        count(nonces.preconfirmed),
        count(nonces.settled)
    )
}

fn whole(view: &SubmitterView) -> String {
    let row = |name: &str, value: String| [name.to_owned(), value];
    let mut rows = vec![row("submitter", view.submitter.clone())];
    rows.extend(view.alias.clone().map(|alias| row("alias", alias)));
    rows.push(row("state", state(view)));
    rows.push(row("queued", view.queued.to_string()));
    rows.push(row("open", view.open.to_string()));
    rows.extend(view.oldest_queued_at.clone().map(|at| row("oldest queued", at)));
    rows.extend(view.balance.clone().map(|balance| row("balance", format!("{balance} wei"))));
    let age = view.chain_head_age_ms.map(|age| format!(", {} ago", span(age))).unwrap_or_default();
    rows.extend(view.chain_head.map(|head| row("chain head", format!("{head}{age}"))));
    rows.extend(view.chain_trouble.clone().map(|code| row("CHAIN TROUBLE", code)));
    if let Some(nonces) = &view.nonces {
        rows.extend(nonces.next.map(|next| row("next nonce", next.to_string())));
        rows.push(row("chain counts", counts(nonces)));
    }
    if let Some(lease) = &view.lease {
        let held = format!("{} (token {}) until {}", lease.owner, lease.fencing_token, lease.expires_at);
        rows.push(row("lease", held));
    }
    columns(&rows)
}
