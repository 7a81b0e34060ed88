//! Transactions before and after signing.

use alloy_primitives::{B256, Bytes};

use crate::action::{Action, Fees, Work};
use crate::amount::Amount;
use crate::id::SubmitterId;
use crate::nonce::Nonce;
use crate::rules::ChainRules;

/// A complete transaction without its signature. `work` and `fees` are the chosen values; the ones in `action` are
/// only the caller's wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxPlan {
    pub submitter: SubmitterId,
    pub nonce: Nonce,
    pub action: Action,
    pub work: Work,
    pub fees: Fees,
}

/// A signed transaction. The hash is the transaction's hash on chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedTx {
    pub hash: B256,
    pub raw: Bytes,
}

/// Signed bytes with their decoded content. `plan.submitter` is the account that signed the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPlan {
    pub plan: TxPlan,
    pub signed: SignedTx,
}

/// Effect and highest cost of signed bytes, independent of their signer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    pub action: Action,
    pub work: Work,
    /// The largest amount that the transaction can take from the account.
    pub cost: Amount,
}

impl Outline {
    pub fn of(plan: &TxPlan, rules: &dyn ChainRules) -> Self {
        Outline { action: plan.action.clone(), work: plan.work, cost: plan.worst_cost(rules) }
    }
}

impl TxPlan {
    /// The largest amount that the transaction can take from the account, besides a surcharge.
    pub fn worst_cost(&self, rules: &dyn ChainRules) -> Amount {
        rules.worst_cost(&self.action, self.work, self.fees, Amount::ZERO)
    }
}
