//! The contract of a chain, independent of its kind and its transport, in three roles. Each part of the engine takes
//! the roles that it needs.
//!
//! | role | purpose | used by |
//! | --- | --- | --- |
//! | [`ChainReader`] | heads, blocks, receipts, accounts, scans, endpoint status | watcher, account reader, scan, API |
//! | [`ChainPricer`] | quotes, measures of work, surcharges | pricing before a nonce is bound |
//! | [`ChainSender`] | sends, and the diagnosis of sent transactions | sender loop, diagnosis of stuck transactions |
//!
//! Every list verb answers in the order of its input, one answer for each item. No verb chooses a nonce: the nonce is
//! part of the plan.

mod pricer;
mod reader;
mod sender;

use alloy_primitives::Bytes;
use gapless_domain::{ChainRules, NodeText, Outline, SignedPlan};

pub use pricer::{ChainPricer, FeeQuote};
pub use reader::{
    AccountView, ChainReader, EndpointHealth, EndpointStatus, Header, HeaderAt, Receipt, Revert, SentInBlock, Wanted,
};
pub use sender::{ChainSender, SendAnswer};

use crate::classified::Classified;

/// One chain with one or more endpoints: all roles together, and its signed transactions.
pub trait Chain: ChainReader + ChainPricer + ChainSender {
    /// The rules of this kind of chain, for the lanes.
    fn rules(&self) -> &'static dyn ChainRules;

    /// Decodes signed bytes of any account. Hash and sender are computed from the bytes.
    fn read_signed(&self, raw: &Bytes) -> Result<SignedPlan, UnreadableTx>;

    /// The outline of our own signed bytes, without recovering the sender. `None` if they cannot be decoded.
    fn outline(&self, raw: &Bytes) -> Option<Outline> {
        self.read_signed(raw).ok().map(|read| Outline::of(&read.plan, self.rules()))
    }
}

/// Bytes that are no signed transaction of a known type, or belong to another chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a signed transaction of this chain: {0}")]
pub struct UnreadableTx(pub NodeText);

/// No endpoint gave a usable answer. This is the last failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", classified.reason.as_str(), classified.text)]
pub struct ChainError {
    pub classified: Classified,
}
