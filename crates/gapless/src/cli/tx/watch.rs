//! `gapless tx watch`: prints a line for each change of a transaction until it has ended.

use clap::Args;
use gapless_wire::{TxExpand, TxQuery, TxView};

use super::text::event_lines;
use crate::cli::server::{ServerArgs, TimeoutArgs, exit_of_tx, follow};
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Transaction id, as `tx send` printed it
    #[arg(value_name = "TX_ID")]
    tx_id: String,
    #[command(flatten)]
    timeout: TimeoutArgs,
    #[command(flatten)]
    server: ServerArgs,
}

impl WatchArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let client = self.server.client()?;
        let expand = vec![TxExpand::Events];
        let query = TxQuery { expand: expand.clone(), ..TxQuery::default() };
        let first = client.tx(&self.tx_id, &query).await?;
        // Only the newest of the earlier events is printed; `tx get --events` shows all.
        let mut known = first.version.saturating_sub(1);
        let last = follow(&client, first, &self.timeout, &expand, |view| {
            let view = since(view, known);
            known = view.version;
            Ok(output.result(&view, event_lines(&view))?)
        })
        .await?;
        Ok(exit_of_tx(&last))
    }
}

/// The transaction with only the events after the version `known`.
fn since(view: &TxView, known: u32) -> TxView {
    let mut view = view.clone();
    view.events.iter_mut().for_each(|events| events.retain(|event| event.seq > known));
    view
}
