//! Receipts and the reasons of reverts.

use alloy_primitives::B256;
use gapless_domain::{Amount, BlockRef, TxPlan};

use super::Harness;
use super::fixtures::{WORK, account, head, mine};

const UNKNOWN: B256 = B256::repeat_byte(0x77);

pub(super) async fn receipt_is_found_by_block_and_by_hash(harness: &dyn Harness) {
    let account = account(harness).await;
    let before = head(harness).await;
    let tx = account.accepted(&account.plan(0)).await;
    assert_eq!(harness.chain().receipts(&[tx.hash]).await.unwrap(), [None], "a pooled transaction has no receipt");
    mine(harness).await;
    let receipt = harness.chain().receipts(&[tx.hash]).await.unwrap().remove(0).unwrap();
    assert_eq!(receipt.hash, tx.hash);
    assert!(receipt.succeeded && receipt.work_used > 0 && receipt.unit_price > Amount::ZERO);
    assert!(receipt.block.number > before.block.number);
    let wanted = tx.hash;
    let of_block = harness.chain().block_receipts(receipt.block, &move |hash| hash == wanted).await.unwrap();
    assert!(of_block.unwrap().contains(&receipt));
    let of_parent = harness.chain().block_receipts(before.block, &|_| true).await.unwrap();
    assert!(of_parent.unwrap().iter().all(|other| other.hash != tx.hash));
}

pub(super) async fn unknown_receipt_is_none_in_its_place(harness: &dyn Harness) {
    let account = account(harness).await;
    let first = account.accepted(&account.plan(0)).await.hash;
    let second = account.accepted(&account.plan(1)).await.hash;
    mine(harness).await;
    let receipts = harness.chain().receipts(&[second, UNKNOWN, first]).await.unwrap();
    let hashes: Vec<_> = receipts.into_iter().map(|receipt| receipt.map(|receipt| receipt.hash)).collect();
    assert_eq!(hashes, [Some(second), None, Some(first)]);
    assert_eq!(harness.chain().receipts(&[]).await.unwrap(), []);
}

pub(super) async fn receipts_of_unknown_block_are_none(harness: &dyn Harness) {
    let number = head(harness).await.block.number;
    for number in [number, number + 1_000_000] {
        let unknown = BlockRef { number, hash: UNKNOWN };
        assert_eq!(harness.chain().block_receipts(unknown, &|_| true).await.unwrap(), None);
    }
}

pub(super) async fn failed_transaction_has_a_receipt(harness: &dyn Harness) {
    let account = account(harness).await;
    let tx = account.accepted(&TxPlan { action: harness.failing_action(), ..account.plan(0) }).await;
    mine(harness).await;
    let receipt = harness.chain().receipts(&[tx.hash]).await.unwrap().remove(0).unwrap();
    assert!(!receipt.succeeded && (1..=WORK.units).contains(&receipt.work_used), "{receipt:?}");
    assert_eq!(harness.chain().reverts(&[tx.hash]).await.unwrap().len(), 1);
}

pub(super) async fn revert_of_successful_or_unknown_transaction_is_none(harness: &dyn Harness) {
    let account = account(harness).await;
    let tx = account.accepted(&account.plan(0)).await;
    mine(harness).await;
    assert_eq!(harness.chain().reverts(&[tx.hash, UNKNOWN]).await.unwrap(), [None, None]);
}
