//! `gapless tx list`: lists transactions, newest first.

use clap::Args;
use gapless_wire::{ListQuery, PageQuery, TxStateName};

use super::text::state_line;
use crate::cli::server::ServerArgs;
use crate::cli::table::columns;
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ListTxArgs {
    /// List only transactions of this submitter (CAIP-10 id or alias)
    #[arg(long, value_name = "SUBMITTER")]
    submitter: Option<String>,
    /// List only transactions in this state: QUEUED, ALLOCATED, TRACKING, STUCK, CONFIRMED, FAILED_FINAL or CANCELED
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<TxStateName>,
    /// Transactions per page; by default the server decides
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
    /// Start of the page: the cursor that the page before printed
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

fn state(text: &str) -> Result<TxStateName, String> {
    let known = || TxStateName::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ");
    TxStateName::parse(&text.to_ascii_uppercase()).ok_or_else(|| format!("the states are {}", known()))
}

impl ListTxArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let client = self.server.client()?;
        let page = PageQuery { limit: self.limit, cursor: self.cursor };
        let page = client.list_tx(&ListQuery { submitter: self.submitter, state: self.state, page }).await?;
        let rows: Vec<[String; 4]> = page
            .items
            .iter()
            .map(|view| [view.tx_id.clone(), view.submitter.clone(), view.request_id.clone(), state_line(view)])
            .collect();
        output.result(&page, columns(&rows))?;
        if let Some(cursor) = &page.next_cursor {
            output.note(format_args!("more transactions: --cursor {cursor}"));
        }
        Ok(Exit::Success)
    }
}
