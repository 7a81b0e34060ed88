//! `gapless tx cancel`: cancels a transaction.

use std::time::Duration;

use clap::Args;
use gapless_wire::CancelView;

use crate::cli::server::{ServerArgs, duration};
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// Transaction id, as `tx send` printed it
    #[arg(value_name = "TX_ID")]
    tx_id: String,
    /// How long to wait until the lane has executed the command
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    wait: Duration,
    #[command(flatten)]
    server: ServerArgs,
}

impl CancelArgs {
    /// The command succeeds once the goal is stored, although the chain may still decide; `tx watch` shows the end.
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let view = self.server.client()?.cancel_tx(&self.tx_id, Some(self.wait)).await?;
        output.result(&view, text(&view))?;
        Ok(Exit::Success)
    }
}

fn text(view: &CancelView) -> String {
    let sub_state = view.sub_state.map(|sub_state| format!(" {sub_state}")).unwrap_or_default();
    let result = view.result.as_ref().map(|result| format!("\n{result}")).unwrap_or_default();
    format!("{}  {}{sub_state}: {}{result}", view.tx_id, view.state, view.note)
}
