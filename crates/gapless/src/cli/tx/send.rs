//! `gapless tx send`

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use gapless_wire::{Speed, TxQuery, TxRequest, from_json};
use serde_json::value::RawValue;

use super::payload::PayloadArgs;
use super::show;
use crate::cli::server::{ServerArgs, TimeoutArgs, exit_of_tx, follow, hand_in};
use crate::cli::{CliError, Exit};
use crate::compose::unique;
use crate::output::Output;

const MAX_FILE_BYTES: u64 = 8 << 20;

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// Who sends: a CAIP-10 id or an alias
    #[arg(long, short = 's', value_name = "SUBMITTER", required_unless_present = "file")]
    submitter: Option<String>,
    /// Your own name for it; the same name again is the same transaction. Without one, a new name is made up
    #[arg(long, short = 'r', value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    payload: PayloadArgs,
    /// How fast: slow, standard, fast or instant
    #[arg(long, value_name = "SPEED", value_parser = speed)]
    speed: Option<Speed>,
    /// Give it up if it is not on chain by then, as in 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    valid_until: Option<String>,
    /// Your own JSON, kept with it
    #[arg(long, value_name = "JSON", value_parser = raw_json)]
    metadata: Option<Box<RawValue>>,
    /// The whole request as JSON, as the API takes it, instead of all of the above; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "submitter", "request_id", "to", "value", "data", "gas_limit", "gas_price", "max_fee", "max_priority_fee", "speed",
        "valid_until", "metadata",
    ])]
    file: Option<PathBuf>,
    /// Wait until it is final, and show how it goes on
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
        let (accepted, is_new) = hand_in(&client, &request).await?;
        if !self.wait {
            let known = if is_new { "" } else { " (known)" };
            let text = format!("{}  {}{known}", accepted.tx_id, accepted.state);
            output.result(&accepted, text)?;
            return Ok(Exit::Success);
        }
        let first = client.tx(&accepted.tx_id, &TxQuery::default()).await;
        let first = first.map_err(|error| CliError::Lost { tx_id: accepted.tx_id.clone(), source: Box::new(error) })?;
        let last = {
            let mut progress = output.progress();
            let say = |view: &_| {
                progress.say(format_args!("{}  {}", accepted.tx_id, show::state(view)));
                Ok(())
            };
            follow(&client, first, &self.timeout, &[], say).await?
        };
        output.result(&last, show::whole(&last))?;
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
    Speed::parse(text).ok_or_else(|| "there are slow, standard, fast and instant".to_owned())
}

fn raw_json(text: &str) -> Result<Box<RawValue>, String> {
    RawValue::from_string(text.to_owned()).map_err(|error| error.to_string())
}
