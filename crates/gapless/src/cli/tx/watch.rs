//! `gapless tx watch`: a line for every change, to the end.

use clap::Args;
use gapless_wire::TxQuery;

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
        let first = client.tx(&self.tx_id, &TxQuery::default()).await?;
        let last = follow(&client, first, &self.timeout, |view| Ok(output.result(view, show::line(view))?)).await?;
        Ok(exit_of_tx(&last))
    }
}
