//! A quote from what the chain's last blocks paid, within the operator's floors.

use gapless_chain::FeeQuote;
use gapless_domain::{Fees, names};
use serde::Deserialize;

use alloy_primitives::U256;

/// How many blocks back, and which part of each block's tips is one speed.
pub(crate) const BLOCKS: u64 = 10;
pub(crate) const PERCENTILES: [u8; 4] = [10, 30, 60, 90];

/// Where there is one price for all, speed is paid by a part of it, in hundredths.
const LEGACY_PERCENT: [u128; 4] = [100, 100, 110, 125];

/// How prices are made of what a chain says. What nobody may go above is a policy of the lane's, not of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeeOptions {
    /// No tip is less, in wei for one gas. Without any tip transactions wait for ever in many pools; on Arbitrum there is none.
    pub min_priority_fee: u128,
    /// Nothing offers less than this in all, in wei for one gas: the highest fee, or the price where there is no base fee.
    pub min_fee: u128,
    /// How far the base fee may rise before a transaction has to wait, in thousandths.
    pub base_fee_factor: u32,
    pub rollup: Rollup,
}

names! {
    /// Which rollup's rules a chain has. It is configured: a chain id does not tell.
    Rollup {
        None = "none",
        /// Of the OP stack: a transaction's data is paid for apart from its gas.
        Optimism = "optimism",
        /// The sequencer goes by the order of arrival and takes no tip; the gas of an estimate holds the part for data.
        Arbitrum = "arbitrum",
    }
}

impl FeeOptions {
    /// Blocks may rise by an eighth each; double the base fee stays enough for six full blocks in a row.
    pub const DEFAULT_FACTOR: u32 = 2_000;
    /// Less than the base fee is in no block.
    pub const MIN_FACTOR: u32 = 1_000;
    pub const MAX_FACTOR: u32 = 100_000;
    /// One ether for one gas: whoever means that has forgotten a unit.
    pub const MAX_FLOOR: u128 = 1_000_000_000_000_000_000;

    /// No tip is less.
    fn least_tip(&self) -> u128 {
        match self.rollup {
            Rollup::None | Rollup::Optimism => self.min_priority_fee,
            Rollup::Arbitrum => 0,
        }
    }

    /// What the base fee may have become when the transaction is taken.
    fn risen(&self, base_fee: u128) -> u128 {
        let factor = u128::from(self.base_fee_factor);
        // In two parts, so that only what is really too much for a price stops at its end.
        let (whole, rest) = (base_fee / 1000, base_fee % 1000);
        whole.saturating_mul(factor).saturating_add((rest * factor).div_ceil(1000))
    }
}

impl Default for FeeOptions {
    fn default() -> Self {
        FeeOptions { min_priority_fee: 1, min_fee: 0, base_fee_factor: Self::DEFAULT_FACTOR, rollup: Rollup::None }
    }
}

/// The answer of `eth_feeHistory`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FeeHistory {
    /// One more than blocks: the last is the next block's.
    #[serde(default)]
    pub(crate) base_fee_per_gas: Vec<U256>,
    #[serde(default)]
    pub(crate) gas_used_ratio: Vec<f64>,
    #[serde(default)]
    pub(crate) reward: Option<Vec<Vec<U256>>>,
}

/// What the nodes said.
#[derive(Clone, Debug)]
pub(crate) struct Market {
    /// `None` where blocks have no base fee (F04).
    pub(crate) base_fee: Option<u128>,
    pub(crate) history: FeeHistory,
    /// `eth_maxPriorityFeePerGas`, for when the last blocks were empty and tell nothing.
    pub(crate) suggested_tip: Option<u128>,
    pub(crate) gas_price: Option<u128>,
}

/// `None` when it says too little to price anything.
pub(crate) fn quote(market: &Market, options: &FeeOptions) -> Option<FeeQuote> {
    match market.base_fee {
        Some(base_fee) => Some(eip1559(market, base_fee, options)),
        None => market.gas_price.map(|price| legacy(price, options)),
    }
}

fn eip1559(market: &Market, base_fee: u128, options: &FeeOptions) -> FeeQuote {
    let next = market.history.base_fee_per_gas.last().map_or(0, |fee| narrow(*fee)).max(base_fee);
    let fallback = || {
        let over_base = market.gas_price.map(|price| price.saturating_sub(next));
        market.suggested_tip.or(over_base).unwrap_or_default()
    };
    let paid = |place| match options.rollup {
        Rollup::None | Rollup::Optimism => median(tips(&market.history, place)).unwrap_or_else(fallback),
        Rollup::Arbitrum => 0,
    };
    let mut least = options.least_tip();
    let mut tier = |place: usize| {
        // Nobody pays less for more speed.
        least = paid(place).max(least);
        let max_fee = options.risen(next).saturating_add(least).max(options.min_fee);
        Fees::Eip1559 { max_fee, max_priority_fee: least }
    };
    FeeQuote { slow: tier(0), standard: tier(1), fast: tier(2), instant: tier(3), base_fee: next }
}

/// One price, which is not split: the floor of tips is none of it, and chains that cost nothing stay so.
fn legacy(gas_price: u128, options: &FeeOptions) -> FeeQuote {
    let price = |percent| gas_price.saturating_mul(percent).div_ceil(100).max(options.min_fee);
    let [slow, standard, fast, instant] = LEGACY_PERCENT.map(|percent| Fees::Legacy { gas_price: price(percent) });
    FeeQuote { slow, standard, fast, instant, base_fee: 0 }
}

/// What was paid in the blocks that had transactions; an empty block reports zero.
fn tips(history: &FeeHistory, place: usize) -> Vec<u128> {
    let blocks = history.reward.iter().flatten();
    let used = history.gas_used_ratio.iter().copied().chain(std::iter::repeat(1.0));
    blocks
        .zip(used)
        .filter(|(_, used)| *used > 0.0)
        .filter_map(|(tips, _)| tips.get(place))
        .map(|tip| narrow(*tip))
        .collect()
}

fn median(mut values: Vec<u128>) -> Option<u128> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// More wei for one gas than there are in the world is an error of a node, and a price that no cap lets pass.
pub(crate) fn narrow(value: U256) -> u128 {
    u128::try_from(value).unwrap_or(u128::MAX)
}

#[cfg(test)]
mod tests;
