//! `gapless tx send`: sends a transaction.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use gapless_wire::{Speed, TxQuery, TxRequest, from_json};
use serde_json::value::RawValue;

use super::payload::PayloadArgs;
use super::text::{full_text, state_line};
use crate::cli::server::{ServerArgs, TimeoutArgs, create_with_retries, exit_of_tx, follow};
use crate::cli::{CliError, Exit};
use crate::compose::unique;
use crate::output::Output;

const MAX_FILE_BYTES: u64 = 8 << 20;

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// CAIP-10 id or alias of the submitter
    #[arg(long, short = 's', value_name = "SUBMITTER", required_unless_present = "file")]
    submitter: Option<String>,
    /// Your idempotency key: the same key again is the same transaction. Without it, a random key is used
    #[arg(long, short = 'r', value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    payload: PayloadArgs,
    /// Fee level: slow, standard, fast or instant
    #[arg(long, value_name = "SPEED", value_parser = speed)]
    speed: Option<Speed>,
    /// Give the transaction up if it is not mined by this time, as in 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    valid_until: Option<String>,
    /// JSON of your own that is stored with the transaction
    #[arg(long, value_name = "JSON", value_parser = raw_json)]
    metadata: Option<Box<RawValue>>,
    /// File with the whole request as JSON of the API, instead of all options above; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "submitter", "request_id", "to", "value", "data", "gas_limit", "gas_price", "max_fee", "max_priority_fee",
        "speed", "valid_until", "metadata",
    ])]
    file: Option<PathBuf>,
    /// Wait until the transaction has ended, and show its progress
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    timeout: TimeoutArgs,
    #[command(flatten)]
    server: ServerArgs,
}

impl SendArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let client = self.server.client()?;
        let request = match &self.file {
            Some(path) => read_request(path)?,
            None => self.request(),
        };
        let (accepted, is_new) = create_with_retries(&client, &request).await?;
        if !self.wait {
            let known = if is_new { "" } else { " (accepted before)" };
            let text = format!("{}  {}{known}", accepted.tx_id, accepted.state);
            output.result(&accepted, text)?;
            return Ok(Exit::Success);
        }
        let first = client.tx(&accepted.tx_id, &TxQuery::default()).await;
        let first = first.map_err(|error| CliError::Lost { tx_id: accepted.tx_id.clone(), source: Box::new(error) })?;
        let last = {
            let mut progress = output.progress();
            let print_progress = |view: &_| {
                progress.say(format_args!("{}  {}", accepted.tx_id, state_line(view)));
                Ok(())
            };
            follow(&client, first, &self.timeout, &[], print_progress).await?
        };
        output.result(&last, full_text(&last))?;
        Ok(exit_of_tx(&last))
    }

    fn request(&self) -> TxRequest {
        TxRequest {
            submitter: self.submitter.clone().unwrap_or_default(),
            request_id: Some(self.request_id.clone().unwrap_or_else(|| format!("cli-{:032x}", unique()))),
            payload: self.payload.payload(),
            speed: self.speed,
            valid_until: self.valid_until.clone(),
            metadata: self.metadata.clone(),
        }
    }
}

fn read_request(path: &Path) -> Result<TxRequest, CliError> {
    let wrong = |source| CliError::File { path: path.to_owned(), source };
    let input: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin().lock()),
        _ => Box::new(std::fs::File::open(path).map_err(wrong)?),
    };
    let mut bytes = Vec::new();
    input.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(wrong)?;
    from_json(&bytes).map_err(|error| CliError::Request { path: path.to_owned(), source: error })
}

fn speed(text: &str) -> Result<Speed, String> {
    Speed::parse(text).ok_or_else(|| "the fee levels are slow, standard, fast and instant".to_owned())
}

fn raw_json(text: &str) -> Result<Box<RawValue>, String> {
    RawValue::from_string(text.to_owned()).map_err(|error| error.to_string())
}
