//! What is to be signed.

use alloy_primitives::{B256, Bytes, U256};

use crate::amount::Amount;
use crate::id::SubmitterId;
use crate::nonce::Nonce;
use crate::payload::{EvmCall, Fees};

/// A transaction, whole but for its signature. Gas limit and fees are decided: those in `call` are only what the caller
/// wished for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxPlan {
    pub submitter: SubmitterId,
    pub nonce: Nonce,
    pub call: EvmCall,
    pub gas_limit: u64,
    pub fees: Fees,
}

/// The same, signed. The hash is the one that the chain will know it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedTx {
    pub hash: B256,
    pub raw: Bytes,
}

/// Signed bytes, and what can be read from them: the plan's submitter is who has signed them, whoever handed them in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPlan {
    pub plan: TxPlan,
    pub signed: SignedTx,
}

/// What signed bytes do, and what they can cost, whoever has signed them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    pub call: EvmCall,
    pub gas_limit: u64,
    /// The most that it can take from the account.
    pub cost: Amount,
}

impl Outline {
    pub fn of(plan: &TxPlan) -> Self {
        Outline { call: plan.call.clone(), gas_limit: plan.gas_limit, cost: plan.worst_cost() }
    }
}

impl TxPlan {
    /// The most that it can take from the account.
    pub fn worst_cost(&self) -> Amount {
        worst_cost(self.call.value, self.gas_limit, self.fees)
    }
}

/// The most that a transaction can take from its account: its value, and all of its gas at the highest price.
pub fn worst_cost(value: Amount, gas_limit: u64, fees: Fees) -> Amount {
    let gas = U256::from(gas_limit).saturating_mul(U256::from(fees.highest_price()));
    Amount::new(value.get().saturating_add(gas))
}
