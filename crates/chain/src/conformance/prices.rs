//! Quotes and estimates.

use gapless_domain::{Speed, TxPlan};

use super::Harness;
use super::fixtures::{account, head, max_price, mine, transfer};
use crate::verdict::Verdict;

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
    let gas_limit = harness.chain().estimate_gas(&account.id, &transfer(), at).await.unwrap();
    assert!(gas_limit > 0);
    let tx = account.accepted(&TxPlan { gas_limit, ..account.plan(0) }).await;
    mine(harness).await;
    assert!(harness.chain().receipts(&[tx.hash]).await.unwrap().remove(0).unwrap().succeeded);
}

pub(super) async fn estimate_of_a_revert_is_reverted(harness: &dyn Harness) {
    let account = account(harness).await;
    let call = harness.reverting_call(&account.id).await;
    let at = head(harness).await.block;
    let error = harness.chain().estimate_gas(&account.id, &call, at).await.unwrap_err();
    assert_eq!(error.classified.verdict, Verdict::Reverted, "{error}");
}
