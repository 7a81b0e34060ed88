//! `gapless tx get`: shows one transaction.

use std::time::Duration;

use clap::Args;
use gapless_wire::{TxExpand, TxQuery};

use super::text::full_text;
use crate::cli::server::{ServerArgs, duration};
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Transaction id, as `tx send` printed it
    #[arg(value_name = "TX_ID", required_unless_present_all = ["submitter", "request_id"])]
    tx_id: Option<String>,
    /// Instead of the transaction id: the submitter (with --request-id)
    #[arg(long, value_name = "SUBMITTER", requires = "request_id", conflicts_with = "tx_id")]
    submitter: Option<String>,
    /// Instead of the transaction id: the request id (with --submitter)
    #[arg(long, value_name = "ID", requires = "submitter")]
    request_id: Option<String>,
    /// Also show every attempt: fees, sends, and the answers of the endpoints
    #[arg(long)]
    attempts: bool,
    /// Also show the events: every change of the transaction
    #[arg(long)]
    events: bool,
    /// Also show the blocks that confirm the transaction, beginning with the block that holds it
    #[arg(long)]
    confirmations: bool,
    /// Wait this long for the next change before showing the transaction, as in 30s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    #[command(flatten)]
    server: ServerArgs,
}

impl GetArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let client = self.server.client()?;
        let wanted = [
            (self.attempts, TxExpand::Attempts),
            (self.events, TxExpand::Events),
            (self.confirmations, TxExpand::Confirmations),
        ];
        let expand = wanted.into_iter().filter_map(|(is_wanted, word)| is_wanted.then_some(word)).collect();
        let query = TxQuery { wait: self.wait, expand, ..TxQuery::default() };
        let view = match (&self.tx_id, &self.submitter, &self.request_id) {
            (None, Some(submitter), Some(request_id)) => client.tx_by_request(submitter, request_id, &query).await?,
            (tx_id, _, _) => client.tx(tx_id.as_deref().unwrap_or_default(), &query).await?,
        };
        output.result(&view, full_text(&view))?;
        Ok(Exit::Success)
    }
}
