//! Transactions before and after signing.

use alloy_primitives::{B256, Bytes, U256};

use crate::amount::Amount;
use crate::id::SubmitterId;
use crate::nonce::Nonce;
use crate::payload::{EvmCall, Fees};

/// A complete transaction without its signature. `gas_limit` and `fees` are the chosen values; the ones in `call` are
/// only the caller's wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxPlan {
    pub submitter: SubmitterId,
    pub nonce: Nonce,
    pub call: EvmCall,
    pub gas_limit: u64,
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
    pub call: EvmCall,
    pub gas_limit: u64,
    /// The largest amount that the transaction can take from the account.
    pub cost: Amount,
}

impl Outline {
    pub fn of(plan: &TxPlan) -> Self {
        Outline { call: plan.call.clone(), gas_limit: plan.gas_limit, cost: plan.worst_cost() }
    }
}

impl TxPlan {
    /// The largest amount that the transaction can take from the account.
    pub fn worst_cost(&self) -> Amount {
        worst_cost(self.call.value, self.gas_limit, self.fees)
    }
}

/// The largest amount that a transaction can take from its account: its value, and all of its gas at the highest price.
pub fn worst_cost(value: Amount, gas_limit: u64, fees: Fees) -> Amount {
    let gas = U256::from(gas_limit).saturating_mul(U256::from(fees.highest_price()));
    Amount::new(value.get().saturating_add(gas))
}
