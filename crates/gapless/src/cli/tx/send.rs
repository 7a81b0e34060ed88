//! `gapless tx send`

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use gapless_domain::{Amount, U256};
use gapless_wire::{CallPayload, FeesPayload, Quantity, Speed, TxQuery, TxRequest, from_json};
use serde_json::value::RawValue;

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
    /// The receiver; without one, a contract is created
    #[arg(long, value_name = "ADDRESS")]
    to: Option<String>,
    /// How much: wei, or with a unit as in 1.5ether, 20gwei
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    value: Option<String>,
    /// Calldata or init code, 0x-hex
    #[arg(long, value_name = "HEX")]
    data: Option<String>,
    /// Gas limit; estimated if not given
    #[arg(long, value_name = "GAS")]
    gas_limit: Option<u64>,
    /// For a legacy transaction: wei per gas, or as in 20gwei
    #[arg(long, value_name = "AMOUNT", value_parser = amount, conflicts_with_all = ["max_fee", "max_priority_fee"])]
    gas_price: Option<String>,
    /// The most to pay per gas
    #[arg(long, value_name = "AMOUNT", value_parser = amount, requires = "max_priority_fee")]
    max_fee: Option<String>,
    /// The most of it for whoever includes it
    #[arg(long, value_name = "AMOUNT", value_parser = amount, requires = "max_fee")]
    max_priority_fee: Option<String>,
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
        let fees = FeesPayload {
            gas_price: self.gas_price.clone(),
            max_fee_per_gas: self.max_fee.clone(),
            max_priority_fee_per_gas: self.max_priority_fee.clone(),
        };
        TxRequest {
            submitter: self.submitter.clone().unwrap_or_default(),
            request_id: Some(self.request_id.clone().unwrap_or_else(|| format!("cli-{:032x}", unique()))),
            payload: CallPayload {
                to: self.to.clone(),
                value: self.value.clone(),
                data: self.data.clone(),
                gas_limit: self.gas_limit.map(Quantity::Number),
                fees: (fees != FeesPayload::default()).then_some(fees),
                ..CallPayload::default()
            },
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

const UNITS: [(&str, usize); 4] = [("gwei", 9), ("ether", 18), ("eth", 18), ("wei", 0)];

/// An amount as people say it, in wei as the API takes it.
fn amount(text: &str) -> Result<String, String> {
    let wrong = || "an amount is wei (decimal or 0x-hex), or has a unit as in 1.5ether or 20gwei".to_owned();
    let Some((number, decimals)) =
        UNITS.iter().find_map(|(unit, decimals)| Some((text.strip_suffix(unit)?, *decimals)))
    else {
        return text.parse::<Amount>().map(|_| text.to_owned()).map_err(|_| wrong());
    };
    let number = number.trim_end();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > decimals || number.ends_with('.') {
        return Err(wrong());
    }
    let wei: U256 = format!("{whole}{fraction:0<decimals$}").parse().map_err(|_| wrong())?;
    Ok(wei.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        for (text, wei) in [
            ("0", "0"),
            ("0x10", "0x10"),
            ("7wei", "7"),
            ("20gwei", "20000000000"),
            ("1.5ether", "1500000000000000000"),
            ("0.000000000000000001eth", "1"),
            ("1 gwei", "1000000000"),
        ] {
            assert_eq!(amount(text).as_deref(), Ok(wei), "{text}");
        }
        for text in
            ["", "-1", "1.5", "ether", ".5ether", "1.ether", "0.5wei", "1.0000000001gwei", "1e18", "1e3gwei", "٣gwei"]
        {
            assert!(amount(text).is_err(), "{text}");
        }
        assert!(amount(&format!("{}ether", "9".repeat(80))).is_err());
    }
}
