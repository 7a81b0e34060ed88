//! Quotes and estimates.

use gapless_domain::{BlockRef, EvmCall, Speed, TxPlan};

use super::Harness;
use super::fixtures::{Account, account, head, max_price, mine, transfer};
use crate::contract::ChainError;
use crate::verdict::Verdict;

async fn estimate(account: &Account<'_>, call: &EvmCall, at: BlockRef) -> Result<u64, ChainError> {
    let [gas] = account.harness.chain().estimate_gas(&account.id, &[call], at).await.try_into().unwrap();
    gas
}

pub(super) async fn quote_is_above_zero_and_grows_with_speed(harness: &dyn Harness) {
    head(harness).await;
    let quote = harness.chain().quote().await.unwrap();
    let prices = [Speed::Slow, Speed::Standard, Speed::Fast, Speed::Instant].map(|speed| max_price(quote.at(speed)));
    assert!(prices[0] > 0 && prices[0] >= quote.base_fee, "{quote:?}");
    assert!(prices.is_sorted(), "{quote:?}");
}

pub(super) async fn estimate_of_a_transfer_is_enough_gas(harness: &dyn Harness) {
    let account = account(harness).await;
    let at = head(harness).await.block;
    let gas_limit = estimate(&account, &transfer(), at).await.unwrap();
    assert!(gas_limit > 0);
    let tx = account.accepted(&TxPlan { gas_limit, ..account.plan(0) }).await;
    mine(harness).await;
    assert!(harness.chain().receipts(&[tx.hash]).await.unwrap().remove(0).unwrap().succeeded);
}

pub(super) async fn estimate_of_a_revert_is_reverted(harness: &dyn Harness) {
    let account = account(harness).await;
    let call = harness.reverting_call(&account.id).await;
    let at = head(harness).await.block;
    let error = estimate(&account, &call, at).await.unwrap_err();
    assert_eq!(error.classified.verdict, Verdict::Reverted, "{error}");
}

pub(super) async fn estimates_are_answered_in_order(harness: &dyn Harness) {
    let account = account(harness).await;
    let reverts = harness.reverting_call(&account.id).await;
    let at = head(harness).await.block;
    let calls = [&transfer(), &reverts, &transfer()];
    let answers = harness.chain().estimate_gas(&account.id, &calls, at).await;
    let has_gas: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(has_gas, [true, false, true], "{answers:?}");
}
