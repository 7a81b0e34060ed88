//! A quote from what the chain's last blocks paid.

use gapless_chain::FeeQuote;
use gapless_domain::Fees;
use serde::Deserialize;

use alloy_primitives::U256;

/// How many blocks back, and which part of each block's tips is one speed.
pub(crate) const BLOCKS: u64 = 10;
pub(crate) const PERCENTILES: [u8; 4] = [10, 30, 60, 90];

/// Blocks may rise by an eighth each; double the base fee stays enough for six full blocks in a row.
const BASE_FEE_FACTOR: u128 = 2;
/// Where there is one price for all, speed is paid by a part of it, in hundredths.
const LEGACY_PERCENT: [u128; 4] = [100, 100, 110, 125];

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
pub(crate) fn quote(market: &Market) -> Option<FeeQuote> {
    match market.base_fee {
        Some(base_fee) => Some(eip1559(market, base_fee)),
        None => market.gas_price.map(legacy),
    }
}

fn eip1559(market: &Market, base_fee: u128) -> FeeQuote {
    let next = market.history.base_fee_per_gas.last().map_or(0, |fee| narrow(*fee)).max(base_fee);
    let fallback = || {
        let over_base = market.gas_price.map(|price| price.saturating_sub(next));
        market.suggested_tip.or(over_base).unwrap_or_default()
    };
    let mut least = 0;
    let mut tier = |place: usize| {
        let tip = median(tips(&market.history, place)).unwrap_or_else(fallback);
        // Nobody pays less for more speed, and no tip at all waits for ever in many pools.
        least = tip.max(least).max(1);
        Fees::Eip1559 { max_fee: next.saturating_mul(BASE_FEE_FACTOR).saturating_add(least), max_priority_fee: least }
    };
    FeeQuote { slow: tier(0), standard: tier(1), fast: tier(2), instant: tier(3), base_fee: next }
}

fn legacy(gas_price: u128) -> FeeQuote {
    let [slow, standard, fast, instant] =
        LEGACY_PERCENT.map(|percent| Fees::Legacy { gas_price: gas_price.saturating_mul(percent).div_ceil(100) });
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn market(json: &str) -> Market {
        let history = serde_json::from_str(json).unwrap();
        Market { base_fee: Some(100), history, suggested_tip: Some(7), gas_price: Some(1000) }
    }

    fn fees(max_fee: u128, max_priority_fee: u128) -> Fees {
        Fees::Eip1559 { max_fee, max_priority_fee }
    }

    #[test]
    fn tiers_are_medians_over_the_blocks_with_transactions() {
        let market = market(
            r#"{"oldestBlock":"0x1","baseFeePerGas":["0x50","0x60","0x64","0x70"],"gasUsedRatio":[0.5,0,0.9],
            "reward":[["0x1","0x2","0x3","0x4"],["0x0","0x0","0x0","0x0"],["0x5","0x6","0x7","0x8"]]}"#,
        );
        let quote = quote(&market).unwrap();
        assert_eq!(quote.slow, fees(2 * 0x70 + 5, 5));
        assert_eq!(quote.instant, fees(2 * 0x70 + 8, 8));
    }

    #[test]
    fn empty_blocks_leave_the_nodes_suggestion() {
        let mut market =
            market(r#"{"baseFeePerGas":["0x64","0x58"],"gasUsedRatio":[0],"reward":[["0x0","0x0","0x0","0x0"]]}"#);
        assert_eq!(quote(&market).unwrap().fast, fees(207, 7));
        market.suggested_tip = None;
        assert_eq!(quote(&market).unwrap().fast, fees(200 + 900, 900));
        market.gas_price = Some(1);
        assert_eq!(quote(&market).unwrap().fast, fees(201, 1));
    }

    /// proves F04
    #[test]
    fn without_a_base_fee_there_is_one_price() {
        let market = Market { base_fee: None, ..market("{}") };
        let quote = quote(&market).unwrap();
        assert_eq!((quote.slow, quote.instant), (Fees::Legacy { gas_price: 1000 }, Fees::Legacy { gas_price: 1250 }));
        assert_eq!(super::quote(&Market { gas_price: None, ..market }), None);
    }

    proptest! {
        #[test]
        fn speed_never_gets_cheaper_and_every_price_can_be_signed(
            base in any::<u128>(),
            tips in proptest::collection::vec(proptest::collection::vec(any::<u128>(), 0..5), 0..12),
            suggested in any::<Option<u128>>(),
        ) {
            let reward = tips.iter().map(|tips| tips.iter().map(|tip| U256::from(*tip)).collect()).collect();
            let history = FeeHistory { reward: Some(reward), ..FeeHistory::default() };
            let market = Market { base_fee: Some(base), history, suggested_tip: suggested, gas_price: None };
            let quote = quote(&market).unwrap();
            let mut last = 0;
            for fees in [quote.slow, quote.standard, quote.fast, quote.instant] {
                let Fees::Eip1559 { max_fee, max_priority_fee } = fees else { panic!() };
                prop_assert!(max_priority_fee <= max_fee && max_priority_fee >= last.max(1));
                last = max_priority_fee;
            }
        }
    }
}
