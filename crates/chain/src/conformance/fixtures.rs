//! Plans, sends and blocks for the cases.

use gapless_domain::{Address, Amount, EvmCall, Fees, Nonce, SignedTx, Speed, SubmitterId, TxPlan};

use super::Harness;
use crate::contract::{AccountView, Header};
use crate::verdict::Verdict;

/// The gas limit of every plan.
pub(super) const GAS: u64 = 100_000;

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
pub(super) fn transfer() -> EvmCall {
    EvmCall { to: Some(Address::repeat_byte(0xd7)), value: Amount::from(1_u64), ..EvmCall::default() }
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
        TxPlan { submitter, nonce: nonce(self.start + offset), call: transfer(), gas_limit: GAS, fees }
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
    match fees {
        Fees::Legacy { gas_price } => Fees::Legacy { gas_price: gas_price * factor },
        Fees::Eip1559 { max_fee, max_priority_fee } => {
            Fees::Eip1559 { max_fee: max_fee * factor, max_priority_fee: max_priority_fee * factor }
        }
    }
}

/// The highest price of a unit of gas.
pub(super) fn max_price(fees: Fees) -> u128 {
    match fees {
        Fees::Legacy { gas_price } => gas_price,
        Fees::Eip1559 { max_fee, .. } => max_fee,
    }
}
