//! The mempool state of sent transactions.

use alloy_primitives::B256;
use gapless_domain::{DiagnoseRequest, MempoolSignal};

use super::Harness;
use super::fixtures::{Account, account, nonce};

async fn diagnose(account: &Account<'_>, offset: u64, hash: B256) -> MempoolSignal {
    let asked = DiagnoseRequest { nonce: nonce(account.start + offset), hashes: vec![hash] };
    let [signal] = account.harness.chain().diagnose(&account.id, &[asked]).await.try_into().unwrap();
    signal
}

pub(super) async fn pooled_transaction_is_in_mempool(harness: &dyn Harness) {
    let account = account(harness).await;
    let tx = account.accepted(&account.plan(0)).await;
    assert_eq!(diagnose(&account, 0, tx.hash).await, MempoolSignal::InMempool);
}

pub(super) async fn unsent_transaction_is_likely_dropped(harness: &dyn Harness) {
    let account = account(harness).await;
    let unsent = account.sign(&account.plan(0)).await;
    assert_eq!(diagnose(&account, 0, unsent.hash).await, MempoolSignal::LikelyDropped);
}

pub(super) async fn foreign_transaction_is_likely_replacement(harness: &dyn Harness) {
    let account = account(harness).await;
    let unsent = account.sign(&account.plan(0)).await;
    harness.send_foreign(&account.id, nonce(account.start)).await;
    assert_eq!(diagnose(&account, 0, unsent.hash).await, MempoolSignal::LikelyReplaced);
}
