//! The data fee of rollups.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

mod support;

use gapless_chain::{ChainPricer as _, ChainReader as _, Verdict};
use gapless_chain_evm::{ConnectError, EvmChain, EvmChainOptions, FeeOptions, Rollup};
use gapless_domain::{Action, Amount, Bytes, EvmCall, Fees, U256, Work};
use gapless_testbed::{Anvil, AnvilOptions};
use serde_json::json;
use support::{CHAIN, FakeNode, ask_node, call, options};

/// The data fee does not depend on the gas.
const GAS: Work = Work::new(100_000);
const ORACLE: &str = "0x420000000000000000000000000000000000000F";
/// An oracle that returns the word after the selector: the requested size.
const SINCE_FJORD: &str = "0x60043560005260206000f3";
/// An oracle that reverts for `getL1FeeUpperBound` and otherwise returns the third word: the length of the bytes.
const OLDER: &str = "0x60003560e01c63f1c7a58b14601a5760243560005260206000f35b60006000fd";
const REVERTS: &str = "0x60006000fd";

fn rollup(mut options: EvmChainOptions, rollup: Rollup) -> EvmChain {
    options.fees = FeeOptions { rollup, ..FeeOptions::default() };
    EvmChain::connect(options).unwrap()
}

fn with_data(bytes: usize) -> Action {
    EvmCall { data: Bytes::from(vec![0; bytes]), ..call() }.into()
}

#[tokio::test]
async fn oracle_is_asked_by_size_before_and_after_fjord() {
    let anvil = Anvil::start(AnvilOptions::default()).unwrap();
    let chain = |kind| {
        let rpc = vec![anvil.url().parse().unwrap()];
        rollup(EvmChainOptions::new(format!("eip155:{CHAIN}").parse().unwrap(), rpc), kind)
    };
    let optimism = chain(Rollup::Optimism);
    for nobody in [None, Some(REVERTS)] {
        if let Some(code) = nobody {
            ask_node(&anvil.url(), "anvil_setCode", json!([ORACLE, code])).await;
        }
        let error = optimism.surcharge(&with_data(0), GAS).await.unwrap_err().classified;
        assert_eq!(error.verdict, Verdict::Unavailable, "no verdict on the call: {error:?}");
    }
    for code in [SINCE_FJORD, OLDER] {
        ask_node(&anvil.url(), "anvil_setCode", json!([ORACLE, code])).await;
        for bytes in [0, 1, 100, 10_000] {
            let asked_for = optimism.surcharge(&with_data(bytes), GAS).await.unwrap().get();
            // A transfer has about 45 bytes besides the widened fields and the rounding.
            let range = U256::from(bytes + 45)..=U256::from(bytes + bytes / 8 + 45 + 64 + 64);
            assert!(range.contains(&asked_for), "{asked_for} for {bytes} with {code}");
        }
    }
    for kind in [Rollup::None, Rollup::Arbitrum] {
        assert_eq!(chain(kind).surcharge(&with_data(100), GAS).await.unwrap(), Amount::ZERO);
    }
}

#[tokio::test]
async fn data_fee_is_read_once_per_head_and_size() {
    let node = FakeNode::start(|script| drop(script.answers.insert("eth_call", json!(format!("0x{:064x}", 1))))).await;
    let chain = rollup(options(&[&node]), Rollup::Optimism);
    let asked = || node.count("eth_call");
    let ask = async |bytes| assert_eq!(chain.surcharge(&with_data(bytes), GAS).await.unwrap(), Amount::from(1_u64));
    ask(0).await;
    ask(0).await;
    assert_eq!(asked(), 2, "nothing is cached before a head is known");

    chain.head().await.unwrap();
    futures_util::future::join_all((0..50).map(|_| ask(0))).await;
    assert_eq!(asked(), 3);
    ask(5_000).await;
    ask(5_001).await;
    assert_eq!(asked(), 4, "sizes of one class share their fee");
    node.change(|script| script.head += 1);
    ask(0).await;
    assert_eq!(asked(), 4);
    chain.head().await.unwrap();
    ask(0).await;
    assert_eq!(asked(), 5);

    node.change(|script| {
        script.head += 1;
        script.errors.insert("eth_call", (-32000, "header not found"));
    });
    chain.head().await.unwrap();
    assert!(chain.surcharge(&with_data(0), GAS).await.is_err());
    node.change(|script| script.errors.clear());
    ask(0).await;
}

#[tokio::test]
async fn invalid_fee_options_are_refused() {
    let node = FakeNode::start(|_| {}).await;
    let with = |fees: FeeOptions| {
        let options = EvmChainOptions { fees, ..options(&[&node]) };
        EvmChain::connect(options).err()
    };
    let base = FeeOptions::default();
    assert_eq!(with(base), None);
    for base_fee_factor in [0, 999, 100_001] {
        assert_eq!(with(FeeOptions { base_fee_factor, ..base }), Some(ConnectError::FeeFactor));
    }
    assert_eq!(with(FeeOptions { min_fee: FeeOptions::MAX_FLOOR + 1, ..base }), Some(ConnectError::FeeFloor));
    assert_eq!(with(FeeOptions { min_priority_fee: u128::MAX, ..base }), Some(ConnectError::FeeFloor));
    let names = Rollup::ALL.iter().map(|rollup| rollup.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["none", "optimism", "arbitrum"]);
}

#[tokio::test]
async fn fee_options_affect_the_quote() {
    let anvil = Anvil::start(AnvilOptions::default()).unwrap();
    let with = |fees: FeeOptions| {
        let rpc = vec![anvil.url().parse().unwrap()];
        let options = EvmChainOptions::new(format!("eip155:{CHAIN}").parse().unwrap(), rpc);
        EvmChain::connect(EvmChainOptions { fees, ..options }).unwrap()
    };
    let base = FeeOptions::default();
    let floor = 7_000_000_000_000;
    let quote = with(FeeOptions { min_priority_fee: floor, ..base }).quote().await.unwrap();
    let Fees::Eip1559 { max_fee, max_priority_fee } = quote.slow else { panic!("{quote:?}") };
    assert_eq!((max_fee, max_priority_fee), (2 * quote.base_fee + floor, floor));
    assert!(quote.base_fee > 0);
    let quote = with(FeeOptions { rollup: Rollup::Arbitrum, base_fee_factor: 3_000, ..base }).quote().await.unwrap();
    assert_eq!(quote.instant, Fees::Eip1559 { max_fee: 3 * quote.base_fee, max_priority_fee: 0 });
}
