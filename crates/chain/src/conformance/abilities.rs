//! Reorgs and endpoints that are cut off, and the abilities that a chain under test lacks.

use super::fixtures::{account, head, mine, view};
use super::{Ability, Harness};
use crate::contract::HeaderAt;
use crate::verdict::Verdict;

pub(super) async fn reorg_takes_back_blocks_and_receipts(harness: &dyn Harness) {
    let account = account(harness).await;
    let tx = account.accepted(&account.plan(0)).await;
    let old = mine(harness).await;
    assert!(harness.chain().receipts(&[tx.hash]).await.unwrap()[0].is_some());
    if harness.reorg().await.is_err() {
        return assert!(lacks(harness, Ability::Reorg));
    }
    head(harness).await;
    let chain = harness.chain();
    let new = chain.header(HeaderAt::Number(old.block.number)).await.unwrap().unwrap();
    assert_ne!(new.block.hash, old.block.hash);
    assert_eq!(new.parent_hash, old.parent_hash);
    assert_eq!(chain.receipts(&[tx.hash]).await.unwrap(), [None]);
    assert_eq!(view(harness, &account.id).await.latest.get(), account.start);
    let blocks = chain.sent_by(&account.id, old.block.number..=old.block.number).await.unwrap();
    assert!(blocks[0].as_ref().unwrap().sent.is_empty());
}

pub(super) async fn cut_endpoint_is_unavailable_until_restored(harness: &dyn Harness) {
    let account = account(harness).await;
    let tx = account.sign(&account.plan(0)).await;
    if harness.cut().await.is_err() {
        return assert!(lacks(harness, Ability::Cut));
    }
    let chain = harness.chain();
    assert_eq!(chain.head().await.unwrap_err().classified.verdict, Verdict::Unavailable);
    assert_eq!(chain.receipts(&[tx.hash]).await.unwrap_err().classified.verdict, Verdict::Unavailable);
    assert_eq!(account.send(&tx).await, Verdict::Unavailable);
    harness.restore().await;
    head(harness).await;
    assert_eq!(account.send(&tx).await, Verdict::Accepted);
}

pub(super) async fn lacking_abilities_are_stated(harness: &dyn Harness) {
    assert!(harness.lacks().iter().all(|(_, why)| !why.0.is_empty()));
    mine(harness).await;
    let refused = [(Ability::Reorg, harness.reorg().await), (Ability::Cut, harness.cut().await)];
    for (ability, done) in refused {
        let stated = harness.lacks().iter().find(|(lacking, _)| *lacking == ability).map(|(_, why)| *why);
        assert_eq!(done.err(), stated, "{ability:?}");
    }
    if !lacks(harness, Ability::Cut) {
        harness.restore().await;
    }
}

fn lacks(harness: &dyn Harness, ability: Ability) -> bool {
    harness.lacks().iter().any(|(lacking, _)| *lacking == ability)
}
