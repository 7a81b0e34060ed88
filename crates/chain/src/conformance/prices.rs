//! Quotes and measures of work.

use gapless_domain::{Action, BlockRef, Fees, Speed, TxPlan, Work};

use super::Harness;
use super::fixtures::{Account, account, head, mine, transfer};
use crate::contract::ChainError;
use crate::verdict::Verdict;

async fn measure(account: &Account<'_>, action: &Action, at: BlockRef) -> Result<Work, ChainError> {
    let [work] = account.harness.chain().measure(&account.id, &[action], at).await.try_into().unwrap();
    work
}

pub(super) async fn quote_is_above_zero_and_grows_with_speed(harness: &dyn Harness) {
    head(harness).await;
    let quote = harness.chain().quote().await.unwrap();
    let prices = [Speed::Slow, Speed::Standard, Speed::Fast, Speed::Instant]
        .map(|speed| quote.at(speed))
        .map(Fees::highest_price);
    assert!(prices[0] > 0 && prices[0] >= quote.base_fee, "{quote:?}");
    assert!(prices.is_sorted(), "{quote:?}");
}

pub(super) async fn measured_work_of_a_transfer_is_enough(harness: &dyn Harness) {
    let account = account(harness).await;
    let at = head(harness).await.block;
    let work = measure(&account, &transfer(), at).await.unwrap();
    assert!(work.units > 0);
    let tx = account.accepted(&TxPlan { work, ..account.plan(0) }).await;
    mine(harness).await;
    assert!(harness.chain().receipts(&[tx.hash]).await.unwrap().remove(0).unwrap().succeeded);
}

pub(super) async fn measure_of_a_revert_is_reverted(harness: &dyn Harness) {
    let account = account(harness).await;
    let action = harness.reverting_action(&account.id).await;
    let at = head(harness).await.block;
    let error = measure(&account, &action, at).await.unwrap_err();
    assert_eq!(error.classified.verdict, Verdict::Reverted, "{error}");
}

pub(super) async fn measures_are_answered_in_order(harness: &dyn Harness) {
    let account = account(harness).await;
    let reverts = harness.reverting_action(&account.id).await;
    let at = head(harness).await.block;
    let actions = [&transfer(), &reverts, &transfer()];
    let answers = harness.chain().measure(&account.id, &actions, at).await;
    let is_known: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(is_known, [true, false, true], "{answers:?}");
}
