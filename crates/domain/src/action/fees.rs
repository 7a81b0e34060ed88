//! Prices of one unit of work, and their arithmetic.

use std::fmt;

use alloy_primitives::U256;

use super::row::{RowFieldError, RowFields, RowValue};
use super::work::Work;
use crate::amount::Amount;

/// Price of one unit of work, in the smallest unit of the chain's currency (wei per unit of gas).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fees {
    Legacy { gas_price: u128 },
    Eip1559 { max_fee: u128, max_priority_fee: u128 },
}

impl Fees {
    /// One price, all of which the block's producer gets.
    pub const fn flat(price: u128) -> Self {
        Fees::Legacy { gas_price: price }
    }

    /// A highest price, and the highest share of it that the block's producer gets.
    pub const fn with_tip(highest: u128, tip: u128) -> Self {
        Fees::Eip1559 { max_fee: highest, max_priority_fee: tip }
    }

    /// The highest price that one unit of work can cost.
    pub fn highest_price(self) -> u128 {
        match self {
            Fees::Legacy { gas_price } => gas_price,
            Fees::Eip1559 { max_fee, .. } => max_fee,
        }
    }

    /// The highest share of the price that the block's producer gets.
    pub fn tip(self) -> u128 {
        match self {
            Fees::Legacy { gas_price } => gas_price,
            Fees::Eip1559 { max_priority_fee, .. } => max_priority_fee,
        }
    }

    /// True if the price or the tip is higher than in `other`.
    pub fn offers_more_than(self, other: Fees) -> bool {
        self.highest_price() > other.highest_price() || self.tip() > other.tip()
    }

    /// The highest fee of this work.
    pub fn most_for(self, work: Work) -> Amount {
        Amount::new(U256::from(work.units).saturating_mul(U256::from(self.highest_price())))
    }

    /// The lowest price of a unit of work that a block with this base fee accepts.
    pub(crate) fn least_at(self, base_fee: u128) -> u128 {
        match self {
            Fees::Legacy { gas_price } => gas_price,
            Fees::Eip1559 { max_fee, max_priority_fee } => base_fee.saturating_add(max_priority_fee).min(max_fee),
        }
    }

    /// Raises `self` until every field is above `sent` by the given factor, rounded up, and by at least one. The kind
    /// of price does not change.
    pub(crate) fn to_replace(self, sent: Fees, step_permille: u32) -> Fees {
        let above = |price: u128| times(price, step_permille).max(price.saturating_add(1));
        self.at_least(match self {
            Fees::Legacy { .. } => Fees::Legacy { gas_price: above(sent.highest_price()) },
            Fees::Eip1559 { .. } => {
                Fees::Eip1559 { max_fee: above(sent.highest_price()), max_priority_fee: above(sent.tip()) }
            }
        })
    }

    pub(crate) fn at_most(self, cap: u128) -> Fees {
        match self {
            Fees::Legacy { gas_price } => Fees::Legacy { gas_price: gas_price.min(cap) },
            Fees::Eip1559 { max_fee, max_priority_fee } => {
                Fees::Eip1559 { max_fee: max_fee.min(cap), max_priority_fee: max_priority_fee.min(cap) }
            }
        }
    }

    /// Maximum of both prices in every field. The tip never exceeds the whole price.
    pub(crate) fn at_least(self, other: Fees) -> Fees {
        match self {
            Fees::Legacy { gas_price } => Fees::Legacy { gas_price: gas_price.max(other.highest_price()) },
            Fees::Eip1559 { max_fee, max_priority_fee } => {
                let max_priority_fee = max_priority_fee.max(other.tip());
                let max_fee = max_fee.max(other.highest_price()).max(max_priority_fee);
                Fees::Eip1559 { max_fee, max_priority_fee }
            }
        }
    }

    /// The price as fields of a row. Prices are decimal texts: JSON numbers lose digits above 2^53.
    pub fn to_row(&self) -> RowValue {
        let text = |price: u128| RowValue::Text(price.to_string());
        RowValue::Fields(match *self {
            Fees::Legacy { gas_price } => RowFields::default().with("gas_price", text(gas_price)),
            Fees::Eip1559 { max_fee, max_priority_fee } => {
                RowFields::default().with("max_fee", text(max_fee)).with("max_priority_fee", text(max_priority_fee))
            }
        })
    }

    pub fn from_row(row: &RowValue) -> Result<Fees, RowFieldError> {
        let fields = row.fields("fees")?;
        Ok(match fields.get("gas_price") {
            Some(_) => Fees::Legacy { gas_price: fields.parsed("gas_price")? },
            None => Fees::Eip1559 {
                max_fee: fields.parsed("max_fee")?,
                max_priority_fee: fields.parsed("max_priority_fee")?,
            },
        })
    }
}

/// Formats the price of one unit of work.
impl fmt::Display for Fees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fees::Legacy { gas_price } => write!(f, "{gas_price}"),
            Fees::Eip1559 { max_fee, max_priority_fee } => write!(f, "{max_fee} with a tip of {max_priority_fee}"),
        }
    }
}

/// `price * permille / 1000`, rounded up and saturating at the highest price.
pub(crate) fn times(price: u128, permille: u32) -> u128 {
    let (whole, rest) = (price / 1000, price % 1000);
    let part = rest.saturating_mul(u128::from(permille)).div_ceil(1000);
    whole.checked_mul(u128::from(permille)).map_or(u128::MAX, |whole| whole.saturating_add(part))
}
