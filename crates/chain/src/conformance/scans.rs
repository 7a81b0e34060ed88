//! Scans of the transactions of one account.

use super::Harness;
use super::fixtures::{account, head, mine, nonce};

pub(super) async fn scan_finds_own_and_foreign_transactions(harness: &dyn Harness) {
    let (account, other) = (account(harness).await, account(harness).await);
    let before = head(harness).await.block.number;
    let own = account.accepted(&account.plan(0)).await.hash;
    other.accepted(&other.plan(0)).await;
    mine(harness).await;
    let foreign = harness.send_foreign(&account.id, nonce(account.start + 1)).await;
    let newest = mine(harness).await.block.number;
    let blocks = harness.chain().sent_by(&account.id, before..=newest).await.unwrap();
    let sent: Vec<_> = blocks.into_iter().flat_map(|block| block.unwrap().sent).collect();
    let nonces: Vec<_> = sent.iter().map(|sent| sent.plan.nonce.get() - account.start).collect();
    assert_eq!(nonces, [0, 1]);
    assert_eq!(sent.iter().map(|sent| sent.signed.hash).collect::<Vec<_>>(), [own, foreign]);
    assert!(sent.iter().all(|sent| sent.plan.submitter == account.id && !sent.signed.raw.is_empty()));
}

pub(super) async fn scanned_blocks_are_linked(harness: &dyn Harness) {
    let account = account(harness).await;
    let before = head(harness).await;
    mine(harness).await;
    let newest = mine(harness).await;
    let numbers = before.block.number..=newest.block.number;
    let headers = harness.chain().headers(numbers.clone()).await.unwrap();
    let blocks = harness.chain().sent_by(&account.id, numbers).await.unwrap();
    assert_eq!(blocks.len(), headers.len());
    for (block, header) in blocks.into_iter().zip(headers) {
        let (link, header) = (block.unwrap().link, header.unwrap());
        assert_eq!((link.block, link.parent_hash), (header.block, header.parent_hash));
    }
}

pub(super) async fn scan_above_the_head_is_none(harness: &dyn Harness) {
    let account = account(harness).await;
    let above = head(harness).await.block.number + 1_000_000;
    assert_eq!(harness.chain().sent_by(&account.id, above..=above).await.unwrap(), [None]);
}
