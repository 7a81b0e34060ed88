//! Counts and balances of accounts.

use gapless_domain::{Amount, U256};

use super::Harness;
use super::fixtures::{account, head, mine, view};

pub(super) async fn counts_are_of_latest_pending_and_final_block(harness: &dyn Harness) {
    let account = account(harness).await;
    let early = head(harness).await.block;
    account.accepted(&account.plan(0)).await;
    account.accepted(&account.plan(1)).await;
    let counts = async |final_at| {
        let views = harness.chain().accounts(std::slice::from_ref(&account.id), final_at).await.unwrap();
        let count = |nonce: gapless_domain::Nonce| nonce.get() - account.start;
        (count(views[0].latest), count(views[0].pending), views[0].finalized.map(count))
    };
    assert_eq!(counts(Some(early)).await, (0, 2, Some(0)), "two transactions are pooled");
    let late = mine(harness).await.block;
    assert_eq!(counts(None).await, (2, 2, None));
    assert_eq!(counts(Some(early)).await, (2, 2, Some(0)));
    assert_eq!(counts(Some(late)).await, (2, 2, Some(2)));
}

pub(super) async fn balance_falls_by_value_and_fee(harness: &dyn Harness) {
    let account = account(harness).await;
    let before = view(harness, &account.id).await;
    assert!(before.balance > Amount::ZERO && !before.narrow);
    let plan = account.plan(0);
    let tx = account.accepted(&plan).await;
    mine(harness).await;
    let receipt = harness.chain().receipts(&[tx.hash]).await.unwrap().remove(0).unwrap();
    let fee = receipt.unit_price.get() * U256::from(receipt.work_used);
    let after = view(harness, &account.id).await;
    assert_eq!(before.balance.get() - after.balance.get(), fee + plan.action.outflow().get());
}

pub(super) async fn accounts_are_answered_in_order(harness: &dyn Harness) {
    let (first, second) = (account(harness).await, account(harness).await);
    first.accepted(&first.plan(0)).await;
    mine(harness).await;
    let chain = harness.chain();
    for ids in [[&first.id, &second.id], [&second.id, &first.id]] {
        let views = chain.accounts(&ids.map(Clone::clone), None).await.unwrap();
        let sent = |id: &gapless_domain::SubmitterId| if *id == first.id { first.start + 1 } else { second.start };
        assert_eq!(views.iter().map(|view| view.latest.get()).collect::<Vec<_>>(), ids.map(sent));
    }
    assert_eq!(chain.accounts(&[], None).await.unwrap(), []);
}
