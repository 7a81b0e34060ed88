//! Actions: the effect of one transaction on chain. An action has one variant for each kind of chain, and only this
//! module and [`rules`](crate::rules) look inside. Every other part carries the action and asks it.

mod evm;
mod fees;
mod row;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
mod work;

use crate::amount::Amount;
use crate::id::SubmitterId;
use crate::intent::FieldErrors;
use crate::payload::{FieldHasher, Payload};

pub use alloy_primitives::Address;
pub use evm::{AccessListItem, Authorization, EvmCall, EvmLimits};
pub use fees::Fees;
pub(crate) use fees::times;
pub use row::{RowFieldError, RowFields, RowValue};
pub use work::Work;

/// The effect of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Evm(EvmCall),
}

/// Limits on the actions of callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionLimits {
    pub evm: EvmLimits,
}

impl Action {
    /// The word that names the variant in rows and answers.
    pub fn kind(&self) -> &'static str {
        match self {
            Action::Evm(_) => evm::KIND,
        }
    }

    /// The price that the caller set.
    pub fn own_price(&self) -> Option<Fees> {
        match self {
            Action::Evm(call) => call.fees,
        }
    }

    /// The work that the caller set.
    pub fn own_work(&self) -> Option<Work> {
        match self {
            Action::Evm(call) => call.gas_limit.map(Work::new),
        }
    }

    /// An action with the same effect, and with this price and work as set by the caller.
    #[must_use]
    pub fn wishing(self, price: Option<Fees>, work: Option<Work>) -> Action {
        match self {
            Action::Evm(call) => Action::Evm(EvmCall { fees: price, gas_limit: work.map(|work| work.units), ..call }),
        }
    }

    /// The amount that the effect takes from the account, without fees.
    pub fn outflow(&self) -> Amount {
        match self {
            Action::Evm(call) => call.value,
        }
    }

    /// Number of bytes that the caller gave.
    pub fn bytes(&self) -> usize {
        match self {
            Action::Evm(call) => call.data.len(),
        }
    }

    /// True if both actions have the same effect, apart from work and price.
    pub fn does_the_same(&self, other: &Action) -> bool {
        match (self, other) {
            (Action::Evm(call), Action::Evm(other)) => call.has_same_effect(other),
        }
    }

    /// True if both actions do the same for the caller. Parts that only change the cost or the rights of accounts are
    /// not compared.
    pub fn has_same_purpose(&self, other: &Action) -> bool {
        match (self, other) {
            (Action::Evm(call), Action::Evm(other)) => call.has_same_purpose(other),
        }
    }

    /// The effect in a few words, for operators and evidence.
    pub fn summary(&self) -> String {
        match self {
            Action::Evm(call) => call.summary(),
        }
    }

    /// The fields of the action in a row, without its kind.
    pub fn to_fields(&self) -> RowFields {
        match self {
            Action::Evm(call) => call.to_fields(),
        }
    }

    /// Reads an action from a row of this kind; `None` for a kind that is no action.
    pub fn from_fields(kind: &str, fields: &RowFields) -> Option<Result<Action, RowFieldError>> {
        (kind == evm::KIND).then(|| EvmCall::from_fields(fields).map(Action::Evm))
    }

    pub(crate) fn hash_into(&self, hasher: &mut FieldHasher) {
        match self {
            Action::Evm(call) => call.hash_into(hasher),
        }
    }

    /// Runs the checks of a new intent.
    pub(crate) fn check(&self, submitter: &SubmitterId, limits: &ActionLimits, errors: &mut FieldErrors) {
        match self {
            Action::Evm(call) => call.check(submitter.chain(), &limits.evm, errors),
        }
    }
}

impl From<EvmCall> for Action {
    fn from(call: EvmCall) -> Self {
        Action::Evm(call)
    }
}

impl From<EvmCall> for Payload {
    fn from(call: EvmCall) -> Self {
        Payload::Act(Action::Evm(call))
    }
}
