use super::*;
use crate::transaction;
use gapless_domain::{EvmCall, Nonce, Speed, TxPlan, Work};
use proptest::prelude::*;

fn market(json: &str) -> FeeMarket {
    let history = serde_json::from_str(json).unwrap();
    FeeMarket { base_fee: Some(100), history, suggested_tip: Some(7), gas_price: Some(1000) }
}

fn quote(market: &FeeMarket) -> Option<FeeQuote> {
    super::quote(market, &FeeOptions::default())
}

fn fees(max_fee: u128, max_priority_fee: u128) -> Fees {
    Fees::Eip1559 { max_fee, max_priority_fee }
}

fn tiers(quote: &FeeQuote) -> [Fees; 4] {
    [Speed::Slow, Speed::Standard, Speed::Fast, Speed::Instant].map(|speed| quote.at(speed))
}

#[test]
fn tiers_are_medians_over_blocks_with_transactions() {
    let market = market(
        r#"{"oldestBlock":"0x1","baseFeePerGas":["0x50","0x60","0x64","0x70"],"gasUsedRatio":[0.5,0,0.9],
        "reward":[["0x1","0x2","0x3","0x4"],["0x0","0x0","0x0","0x0"],["0x5","0x6","0x7","0x8"]]}"#,
    );
    let quote = quote(&market).unwrap();
    assert_eq!(quote.slow, fees(2 * 0x70 + 5, 5));
    assert_eq!(quote.instant, fees(2 * 0x70 + 8, 8));
    assert_eq!(quote.base_fee, 0x70, "the base fee of the next block");
}

#[test]
fn empty_blocks_use_the_suggested_tip() {
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
fn chain_without_base_fee_has_one_price() {
    let market = FeeMarket { base_fee: None, ..market("{}") };
    let one = quote(&market).unwrap();
    assert_eq!((one.slow, one.instant), (Fees::Legacy { gas_price: 1000 }, Fees::Legacy { gas_price: 1250 }));
    let floor = FeeOptions { min_fee: 1_200, min_priority_fee: 5_000, ..FeeOptions::default() };
    let [slow, _, _, instant] = tiers(&super::quote(&market, &floor).unwrap());
    assert_eq!((slow, instant), (Fees::Legacy { gas_price: 1200 }, Fees::Legacy { gas_price: 1250 }));
    assert_eq!(quote(&FeeMarket { gas_price: None, ..market.clone() }), None);
    let free = FeeMarket { gas_price: Some(0), ..market };
    assert_eq!(quote(&free).unwrap().fast, Fees::Legacy { gas_price: 0 }, "where gas is free it stays free");
}

#[test]
fn configured_floors_and_factor_apply() {
    let market = market("{}");
    let with = |options: FeeOptions| super::quote(&market, &options).unwrap().standard;
    let base = FeeOptions::default();
    assert_eq!(with(FeeOptions { min_priority_fee: 50, ..base }), fees(250, 50));
    assert_eq!(with(FeeOptions { min_fee: 10_000, ..base }), fees(10_000, 7));
    assert_eq!(with(FeeOptions { base_fee_factor: 1_125, ..base }), fees(113 + 7, 7), "rounded up");
    let silent = FeeMarket { suggested_tip: None, gas_price: None, ..market.clone() };
    let free = FeeOptions { min_priority_fee: 0, ..base };
    assert_eq!(super::quote(&silent, &free).unwrap().standard, fees(200, 0), "a minimum tip of zero is allowed");
}

#[test]
fn arbitrum_quote_has_no_tip() {
    let paid = market(r#"{"baseFeePerGas":["0x64","0x64"],"gasUsedRatio":[0.5],"reward":[["0x1","0x2","0x3","0x4"]]}"#);
    let options = FeeOptions { rollup: Rollup::Arbitrum, min_priority_fee: 9, ..FeeOptions::default() };
    assert_eq!(tiers(&super::quote(&paid, &options).unwrap()), [fees(200, 0); 4]);
}

fn markets() -> impl Strategy<Value = FeeMarket> {
    let tips = proptest::collection::vec(proptest::collection::vec(any::<u128>(), 0..5), 0..12);
    // Realistic prices are drawn as often as extreme ones.
    let price = || prop_oneof![any::<u128>(), 0..1_000_000_000_000_u128];
    let some = || proptest::option::of(price());
    (some(), price(), tips, some(), price()).prop_map(|(base_fee, next, tips, suggested_tip, gas_price)| {
        let reward = tips.iter().map(|tips| tips.iter().map(|tip| U256::from(*tip)).collect()).collect();
        let base_fee_per_gas = vec![U256::from(next)];
        let history = FeeHistory { reward: Some(reward), base_fee_per_gas, ..FeeHistory::default() };
        FeeMarket { base_fee, history, suggested_tip, gas_price: Some(gas_price) }
    })
}

fn options() -> impl Strategy<Value = FeeOptions> {
    let floor = || 0..=FeeOptions::MAX_FLOOR;
    let factor = FeeOptions::MIN_FACTOR..=FeeOptions::MAX_FACTOR;
    (floor(), floor(), factor, proptest::sample::select(Rollup::ALL)).prop_map(
        |(min_priority_fee, min_fee, base_fee_factor, rollup)| FeeOptions {
            min_priority_fee,
            min_fee,
            base_fee_factor,
            rollup,
        },
    )
}

/// The maximum fee and the tip. With one gas price both are that price.
fn split(fees: Fees) -> (u128, u128) {
    match fees {
        Fees::Legacy { gas_price } => (gas_price, gas_price),
        Fees::Eip1559 { max_fee, max_priority_fee } => (max_fee, max_priority_fee),
    }
}

proptest! {
    #[test]
    fn higher_speed_is_never_cheaper(market in markets(), options in options()) {
        let tiers = tiers(&super::quote(&market, &options).unwrap()).map(split);
        for pair in tiers.windows(2) {
            prop_assert!(pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1, "{tiers:?}");
        }
    }

    #[test]
    fn quotes_respect_the_floors(market in markets(), options in options()) {
        let quote = super::quote(&market, &options).unwrap();
        for fees in tiers(&quote) {
            prop_assert!(fees.highest_price() >= options.min_fee);
            let Fees::Eip1559 { max_fee, max_priority_fee } = fees else { continue };
            prop_assert!(max_priority_fee >= options.min_tip());
            prop_assert!(max_fee >= quote.base_fee, "the transaction could not be included");
        }
    }

    #[test]
    fn every_quote_can_be_signed(market in markets(), options in options()) {
        let submitter: gapless_domain::SubmitterId =
            "eip155:1:0x00000000000000000000000000000000000000aa".parse().unwrap();
        let call = EvmCall { to: submitter.evm_address(), ..EvmCall::default() };
        for fees in tiers(&super::quote(&market, &options).unwrap()) {
            let (submitter, nonce, call) = (submitter.clone(), Nonce::ZERO, call.clone());
            let plan = TxPlan { submitter, nonce, action: call.into(), work: Work::new(21_000), fees };
            prop_assert!(transaction::build(&plan, 1).is_ok(), "{fees:?}");
        }
    }

    #[test]
    fn larger_factor_never_lowers_the_quote(market in markets(), options in options(), more in 0..50_000_u32) {
        let factor = (options.base_fee_factor + more).min(FeeOptions::MAX_FACTOR);
        let larger = FeeOptions { base_fee_factor: factor, ..options };
        let offers = |options| tiers(&super::quote(&market, options).unwrap()).map(split);
        for (less, more) in offers(&options).into_iter().zip(offers(&larger)) {
            prop_assert!(less.0 <= more.0 && less.1 == more.1);
        }
    }

    #[test]
    fn factor_is_exact_and_rounded_up(
        base in 0..u128::from(u64::MAX),
        factor in FeeOptions::MIN_FACTOR..=FeeOptions::MAX_FACTOR,
    ) {
        let options = FeeOptions { base_fee_factor: factor, ..FeeOptions::default() };
        prop_assert_eq!(options.risen(base), (base * u128::from(factor)).div_ceil(1000));
    }
}
