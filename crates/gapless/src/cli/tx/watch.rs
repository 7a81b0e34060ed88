//! `gapless tx watch`: a line for every change, to the end.

use clap::Args;
use gapless_wire::{TxExpand, TxQuery, TxView};

use super::show;
use crate::cli::server::{ServerArgs, TimeoutArgs, exit_of_tx, follow};
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The id that `tx send` gave
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
        // What was before is history: `tx get --events` tells it.
        let mut known = first.version.saturating_sub(1);
        let last = follow(&client, first, &self.timeout, &expand, |view| {
            let view = since(view, known);
            known = view.version;
            Ok(output.result(&view, show::changes(&view))?)
        })
        .await?;
        Ok(exit_of_tx(&last))
    }
}

/// The same transaction with only those events that are new to whoever knows this version.
fn since(view: &TxView, known: u32) -> TxView {
    let mut view = view.clone();
    view.events.iter_mut().for_each(|events| events.retain(|event| event.seq > known));
    view
}
