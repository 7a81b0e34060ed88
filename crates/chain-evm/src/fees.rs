//! A fee quote from the last blocks, within the operator's floors.

use gapless_chain::FeeQuote;
use gapless_domain::{Fees, names};
use serde::Deserialize;

use alloy_primitives::U256;

/// The number of blocks in the fee history.
pub(crate) const BLOCKS: u64 = 10;
/// The percentile of the tips of a block, for each speed.
pub(crate) const PERCENTILES: [u8; 4] = [10, 30, 60, 90];

/// On a chain with one gas price, the price of each speed in hundredths of it.
const LEGACY_PERCENT: [u128; 4] = [100, 100, 110, 125];

/// The options of fee quotes. Caps are a policy of the lane and not part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeeOptions {
    /// The minimum tip, in wei per gas. Many pools never mine a transaction without a tip. Arbitrum has no tips.
    pub min_priority_fee: u128,
    /// The minimum of the maximum fee, or of the gas price on a chain without base fee, in wei per gas.
    pub min_fee: u128,
    /// The factor by which the base fee may rise before a transaction has to wait, in thousandths.
    pub base_fee_factor: u32,
    pub rollup: Rollup,
}

names! {
    /// The fee rules of a rollup. They are configured, because a chain id does not reveal them.
    Rollup {
        None = "none",
        /// OP stack: the data of a transaction has a fee besides its gas.
        Optimism = "optimism",
        /// The sequencer orders by arrival and takes no tip. The gas estimate includes the data.
        Arbitrum = "arbitrum",
    }
}

impl FeeOptions {
    /// The base fee rises by at most an eighth per block, so its double is enough for the next six blocks.
    pub const DEFAULT_FACTOR: u32 = 2_000;
    /// A transaction below the base fee is not included.
    pub const MIN_FACTOR: u32 = 1_000;
    pub const MAX_FACTOR: u32 = 100_000;
    /// One ether per gas. A larger floor is a unit error.
    pub const MAX_FLOOR: u128 = 1_000_000_000_000_000_000;

    /// The minimum tip under the rules of the rollup.
    fn min_tip(&self) -> u128 {
        match self.rollup {
            Rollup::None | Rollup::Optimism => self.min_priority_fee,
            Rollup::Arbitrum => 0,
        }
    }

    /// The base fee after the configured rise.
    fn risen(&self, base_fee: u128) -> u128 {
        let factor = u128::from(self.base_fee_factor);
        // Computed in two parts, so that only a result beyond u128 saturates.
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
    /// One entry more than blocks: the last one is for the next block.
    #[serde(default)]
    pub(crate) base_fee_per_gas: Vec<U256>,
    #[serde(default)]
    pub(crate) gas_used_ratio: Vec<f64>,
    #[serde(default)]
    pub(crate) reward: Option<Vec<Vec<U256>>>,
}

/// The data of an endpoint for a quote.
#[derive(Clone, Debug)]
pub(crate) struct FeeMarket {
    /// `None` where blocks have no base fee (F04).
    pub(crate) base_fee: Option<u128>,
    pub(crate) history: FeeHistory,
    /// `eth_maxPriorityFeePerGas`, used if the last blocks were empty.
    pub(crate) suggested_tip: Option<u128>,
    pub(crate) gas_price: Option<u128>,
}

/// The quote, or `None` if the data has no price.
pub(crate) fn quote(market: &FeeMarket, options: &FeeOptions) -> Option<FeeQuote> {
    match market.base_fee {
        Some(base_fee) => Some(eip1559(market, base_fee, options)),
        None => market.gas_price.map(|price| legacy(price, options)),
    }
}

fn eip1559(market: &FeeMarket, base_fee: u128, options: &FeeOptions) -> FeeQuote {
    let next = market.history.base_fee_per_gas.last().map_or(0, |fee| narrow(*fee)).max(base_fee);
    let fallback = || {
        let over_base = market.gas_price.map(|price| price.saturating_sub(next));
        market.suggested_tip.or(over_base).unwrap_or_default()
    };
    let paid = |index| match options.rollup {
        Rollup::None | Rollup::Optimism => median(tips(&market.history, index)).unwrap_or_else(fallback),
        Rollup::Arbitrum => 0,
    };
    let mut tip = options.min_tip();
    let mut tier = |index: usize| {
        // A higher speed never has a lower tip.
        tip = paid(index).max(tip);
        let max_fee = options.risen(next).saturating_add(tip).max(options.min_fee);
        Fees::Eip1559 { max_fee, max_priority_fee: tip }
    };
    FeeQuote { slow: tier(0), standard: tier(1), fast: tier(2), instant: tier(3), base_fee: next }
}

/// A quote with one gas price. The minimum tip does not apply, and a chain with free gas stays free.
fn legacy(gas_price: u128, options: &FeeOptions) -> FeeQuote {
    let price = |percent| gas_price.saturating_mul(percent).div_ceil(100).max(options.min_fee);
    let [slow, standard, fast, instant] = LEGACY_PERCENT.map(|percent| Fees::Legacy { gas_price: price(percent) });
    FeeQuote { slow, standard, fast, instant, base_fee: 0 }
}

/// The tips of one percentile in the blocks with transactions. An empty block reports zero and is left out.
fn tips(history: &FeeHistory, index: usize) -> Vec<u128> {
    let blocks = history.reward.iter().flatten();
    let used = history.gas_used_ratio.iter().copied().chain(std::iter::repeat(1.0));
    blocks
        .zip(used)
        .filter(|(_, used)| *used > 0.0)
        .filter_map(|(tips, _)| tips.get(index))
        .map(|tip| narrow(*tip))
        .collect()
}

fn median(mut values: Vec<u128>) -> Option<u128> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// Narrows a price. A value beyond u128 is an error of the node and becomes a price that no cap allows.
pub(crate) fn narrow(value: U256) -> u128 {
    u128::try_from(value).unwrap_or(u128::MAX)
}

#[cfg(test)]
mod tests;
