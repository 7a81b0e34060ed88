//! Sends and the verdicts on them.

use alloy_primitives::U256;
use gapless_domain::{Amount, TxPlan, samples};

use super::Harness;
use super::fixtures::{account, mine, times, view};
use crate::verdict::Verdict;

pub(super) async fn new_transactions_are_accepted_in_order(harness: &dyn Harness) {
    let account = account(harness).await;
    let mut txs = Vec::new();
    for offset in 0..5 {
        txs.push(account.sign(&account.plan(offset)).await);
    }
    let answers = harness.chain().broadcast(&txs).await;
    let verdicts: Vec<_> = answers.iter().map(|answer| answer.classified.verdict).collect();
    assert_eq!(verdicts, [Verdict::Accepted; 5]);
    mine(harness).await;
    assert_eq!(view(harness, &account.id).await.latest.get(), account.start + 5);
    assert_eq!(harness.chain().broadcast(&[]).await, []);
}

pub(super) async fn sent_transaction_is_already_known(harness: &dyn Harness) {
    let account = account(harness).await;
    let tx = account.accepted(&account.plan(0)).await;
    assert_eq!(account.send(&tx).await, Verdict::AlreadyKnown);
    mine(harness).await;
    assert_eq!(view(harness, &account.id).await.latest.get(), account.start + 1);
}

pub(super) async fn used_nonce_is_too_low(harness: &dyn Harness) {
    let account = account(harness).await;
    account.accepted(&account.plan(0)).await;
    mine(harness).await;
    let action = samples::transfer(2_u64);
    let late = account.sign(&TxPlan { action, ..account.plan(0) }).await;
    assert_eq!(account.send(&late).await, Verdict::NonceTooLow);
}

pub(super) async fn replacement_at_equal_price_is_underpriced(harness: &dyn Harness) {
    let account = account(harness).await;
    let first = account.accepted(&account.plan(0)).await;
    let action = samples::transfer(2_u64);
    let second = account.sign(&TxPlan { action, ..account.plan(0) }).await;
    assert_eq!(account.send(&second).await, Verdict::ReplacementUnderpriced);
    mine(harness).await;
    let receipts = harness.chain().receipts(&[first.hash, second.hash]).await.unwrap();
    assert!(receipts[0].is_some() && receipts[1].is_none());
}

pub(super) async fn dearer_replacement_is_mined(harness: &dyn Harness) {
    let account = account(harness).await;
    let first = account.accepted(&account.plan(0)).await;
    let second = account.accepted(&TxPlan { fees: times(account.fees, 2), ..account.plan(0) }).await;
    mine(harness).await;
    let receipts = harness.chain().receipts(&[first.hash, second.hash]).await.unwrap();
    assert!(receipts[0].is_none() && receipts[1].is_some());
}

pub(super) async fn unaffordable_transaction_is_refused(harness: &dyn Harness) {
    let account = account(harness).await;
    let balance = view(harness, &account.id).await.balance.get();
    let action = samples::transfer(Amount::new(balance + U256::ONE));
    let tx = account.sign(&TxPlan { action, ..account.plan(0) }).await;
    assert_eq!(account.send(&tx).await, Verdict::InsufficientFunds);
}
