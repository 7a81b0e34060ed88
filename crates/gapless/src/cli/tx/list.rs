//! `gapless tx list`

use clap::Args;
use gapless_wire::{ListQuery, PageQuery, TxStateName};

use super::show;
use crate::cli::server::ServerArgs;
use crate::cli::table::columns;
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only those of this submitter, by id or alias
    #[arg(long, value_name = "SUBMITTER")]
    submitter: Option<String>,
    /// Only those in this state: QUEUED, ALLOCATED, TRACKING, STUCK, CONFIRMED, FAILED_FINAL or CANCELED
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<TxStateName>,
    /// How many
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
    /// Where the page begins: what the page before gave as its end
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

fn state(text: &str) -> Result<TxStateName, String> {
    let known = || TxStateName::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ");
    TxStateName::parse(&text.to_ascii_uppercase()).ok_or_else(|| format!("there are {}", known()))
}

impl ListArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let client = self.server.client()?;
        let page = PageQuery { limit: self.limit, cursor: self.cursor };
        let page = client.list_tx(&ListQuery { submitter: self.submitter, state: self.state, page }).await?;
        let rows: Vec<[String; 4]> = page
            .items
            .iter()
            .map(|view| [view.tx_id.clone(), view.submitter.clone(), view.request_id.clone(), show::state(view)])
            .collect();
        output.result(&page, columns(&rows))?;
        if let Some(cursor) = &page.next_cursor {
            output.note(format_args!("there are more: --cursor {cursor}"));
        }
        Ok(Exit::Success)
    }
}
