//! Plans, sends and blocks for the cases.

use gapless_domain::{Action, Fees, Nonce, SignedTx, Speed, SubmitterId, TxPlan, Work, samples};

use super::Harness;
use crate::contract::{AccountView, Header};
use crate::verdict::Verdict;

/// The work of every plan.
pub(super) const WORK: Work = samples::ENOUGH_WORK;

/// An account with the plans of its transactions, at the price of the chain.
pub(super) struct Account<'a> {
    pub(super) harness: &'a dyn Harness,
    pub(super) id: SubmitterId,
    pub(super) start: u64,
    pub(super) fees: Fees,
}

pub(super) fn nonce(number: u64) -> Nonce {
    Nonce::new(number).unwrap()
}

/// A transfer of one unit to an account without code.
pub(super) fn transfer() -> Action {
    samples::transfer(1_u64)
}

pub(super) async fn account(harness: &dyn Harness) -> Account<'_> {
    let id = harness.account().await;
    head(harness).await;
    let fees = harness.chain().quote().await.unwrap().at(Speed::Standard);
    let start = view(harness, &id).await.latest.get();
    Account { harness, id, start, fees }
}

pub(super) async fn head(harness: &dyn Harness) -> Header {
    harness.chain().head().await.unwrap()
}

/// Makes blocks, and reads the head.
pub(super) async fn mine(harness: &dyn Harness) -> Header {
    harness.mine().await;
    head(harness).await
}

pub(super) async fn view(harness: &dyn Harness, account: &SubmitterId) -> AccountView {
    let views = harness.chain().accounts(std::slice::from_ref(account), None).await.unwrap();
    let [view] = views.try_into().unwrap();
    view
}

impl Account<'_> {
    /// A transfer at the nonce that is so many after the first.
    pub(super) fn plan(&self, offset: u64) -> TxPlan {
        let (submitter, fees) = (self.id.clone(), self.fees);
        TxPlan { submitter, nonce: nonce(self.start + offset), action: transfer(), work: WORK, fees }
    }

    pub(super) async fn sign(&self, plan: &TxPlan) -> SignedTx {
        self.harness.sign(plan).await
    }

    pub(super) async fn send(&self, tx: &SignedTx) -> Verdict {
        let answers = self.harness.chain().broadcast(std::slice::from_ref(tx)).await;
        let [answer] = answers.try_into().unwrap();
        answer.classified.verdict
    }

    /// Signs and sends a plan, which the chain accepts.
    pub(super) async fn accepted(&self, plan: &TxPlan) -> SignedTx {
        let tx = self.sign(plan).await;
        assert_eq!(self.send(&tx).await, Verdict::Accepted);
        tx
    }
}

/// The fees times a factor.
pub(super) fn times(fees: Fees, factor: u128) -> Fees {
    if fees == Fees::flat(fees.highest_price()) {
        return Fees::flat(fees.highest_price() * factor);
    }
    Fees::with_tip(fees.highest_price() * factor, fees.tip() * factor)
}
