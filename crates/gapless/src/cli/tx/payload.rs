//! The arguments for the payload and the fees of a transaction.

use clap::Args;
use gapless_domain::{Amount, U256};
use gapless_wire::{CallPayload, FeesPayload, Quantity};

#[derive(Clone, Debug, Default, Args)]
pub(super) struct PayloadArgs {
    /// Address of the recipient; without it, the transaction creates a contract
    #[arg(long, value_name = "ADDRESS")]
    to: Option<String>,
    /// Amount to send: in wei, or with a unit as in 1.5ether or 20gwei
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    value: Option<String>,
    /// Calldata or init code in 0x-hex
    #[arg(long, value_name = "HEX")]
    data: Option<String>,
    /// Gas limit; without it, the node estimates one
    #[arg(long, value_name = "GAS")]
    gas_limit: Option<u64>,
    #[command(flatten)]
    fees: FeeArgs,
}

#[derive(Clone, Debug, Default, Args)]
pub(super) struct FeeArgs {
    /// Gas price of a legacy transaction: in wei, or with a unit as in 20gwei
    #[arg(long, value_name = "AMOUNT", value_parser = amount, conflicts_with_all = ["max_fee", "max_priority_fee"])]
    gas_price: Option<String>,
    /// Max fee per gas: in wei, or with a unit as in 20gwei
    #[arg(long, value_name = "AMOUNT", value_parser = amount, requires = "max_priority_fee")]
    max_fee: Option<String>,
    /// Max priority fee per gas (the tip), part of the max fee
    #[arg(long, value_name = "AMOUNT", value_parser = amount, requires = "max_fee")]
    max_priority_fee: Option<String>,
}

impl PayloadArgs {
    pub(super) fn payload(&self) -> CallPayload {
        CallPayload {
            to: self.to.clone(),
            value: self.value.clone(),
            data: self.data.clone(),
            gas_limit: self.gas_limit.map(Quantity::Number),
            fees: self.fees.fees(),
            ..CallPayload::default()
        }
    }
}

impl FeeArgs {
    /// The fees of the arguments, or `None` if there are none.
    pub(super) fn fees(&self) -> Option<FeesPayload> {
        let fees = FeesPayload {
            gas_price: self.gas_price.clone(),
            max_fee_per_gas: self.max_fee.clone(),
            max_priority_fee_per_gas: self.max_priority_fee.clone(),
        };
        (fees != FeesPayload::default()).then_some(fees)
    }
}

const UNITS: [(&str, usize); 4] = [("gwei", 9), ("ether", 18), ("eth", 18), ("wei", 0)];

/// Parses an amount with an optional unit, and returns it in wei as the API expects it.
fn amount(text: &str) -> Result<String, String> {
    let wrong = || "write an amount in wei (decimal or 0x-hex), or with a unit as in 1.5ether or 20gwei".to_owned();
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
    fn amount_parser_is_exact_and_rejects_bad_input() {
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
