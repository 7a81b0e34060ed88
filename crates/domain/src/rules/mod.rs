//! Rules of chains: the differences between kinds of chains that matter to ids and lanes.
//!
//! [`ChainRules`] is pure and has one static value for each kind. A lane gets the rules of its chain with its setup
//! ([`LaneSetup`](crate::LaneSetup)), from the chain port.

mod evm;

use std::fmt;

use crate::action::{Action, Fees, Work};
use crate::amount::Amount;
use crate::id::{ChainId, SubmitterId};
use crate::lane::AccountFacts;
use crate::policy::{NoncePolicy, SubmitterPolicy};

pub use evm::EvmRules;

/// Rules of one kind of chain.
pub trait ChainRules: Send + Sync + fmt::Debug {
    /// The CAIP-2 namespace of the chains.
    fn namespace(&self) -> &'static str;

    /// Checks the reference of a chain id. The error says what a valid reference is.
    fn check_reference(&self, reference: &str) -> Result<(), &'static str>;

    /// The one form of an address that is used in submitter ids. The error says what a valid address is.
    fn canonical_address(&self, address: &str) -> Result<String, &'static str>;

    /// Largest number of bound nonces that are not consumed. `account` is `None` before its first read.
    fn window(&self, policy: &NoncePolicy, account: Option<&AccountFacts>) -> u16;

    /// An action that consumes a nonce and has no other effect.
    fn filler(&self, account: &SubmitterId) -> Action;

    /// Smallest factor, in thousandths, of a price over the price of a pooled transaction that it replaces.
    fn replace_step(&self) -> u32;

    /// The largest amount that a transaction can take from its account.
    fn worst_cost(&self, action: &Action, work: Work, fees: Fees, surcharge: Amount) -> Amount;

    /// Policy of a submitter whose config says nothing.
    fn defaults(&self) -> SubmitterPolicy;

    fn words(&self) -> &'static Words;
}

/// Words of a kind of chain, for the texts of a lane.
#[derive(Debug, PartialEq, Eq)]
pub struct Words {
    /// Unit of amounts.
    pub amount: &'static str,
    /// Unit of prices.
    pub price: &'static str,
    /// Unit of the fee of a transaction.
    pub fee: &'static str,
    /// Events that consume a nonce without a transaction of the account.
    pub silent_use: &'static str,
}

impl ChainId {
    /// The rules of the chain; `None` for a kind of chain without rules.
    pub fn rules(&self) -> Option<&'static dyn ChainRules> {
        of_namespace(self.namespace())
    }
}

pub(crate) fn of_namespace(namespace: &str) -> Option<&'static dyn ChainRules> {
    let all: [&'static dyn ChainRules; 1] = [&EvmRules];
    all.into_iter().find(|rules| rules.namespace() == namespace)
}

impl PartialEq for dyn ChainRules {
    fn eq(&self, other: &dyn ChainRules) -> bool {
        self.namespace() == other.namespace()
    }
}

impl Eq for dyn ChainRules {}
