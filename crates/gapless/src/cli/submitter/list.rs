//! `gapless submitter list`: lists the submitters of a running node.

use clap::Args;
use gapless_wire::PageQuery;

use super::show;
use crate::cli::server::ServerArgs;
use crate::cli::table::columns;
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ListSubmittersArgs {
    /// Submitters per page; by default the server decides
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
    /// Start of the page: the cursor that the page before printed
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

impl ListSubmittersArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let query = PageQuery { limit: self.limit, cursor: self.cursor };
        let page = self.server.client()?.submitters(&query).await?;
        let rows: Vec<[String; 4]> = page
            .items
            .iter()
            .map(|view| {
                let alias = view.alias.clone().unwrap_or_default();
                let counts = format!("{} queued, {} open", view.queued, view.open);
                [view.submitter.clone(), alias, show::state_line(view), counts]
            })
            .collect();
        output.result(&page, columns(&rows))?;
        if let Some(cursor) = &page.next_cursor {
            output.note(format_args!("more submitters: --cursor {cursor}"));
        }
        Ok(Exit::Success)
    }
}
