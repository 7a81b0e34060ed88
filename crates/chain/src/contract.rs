//! The contract of a chain, independent of its kind and its transport, in three roles. Each part of the engine takes
//! the roles that it needs.
//!
//! | role | purpose | used by |
//! | --- | --- | --- |
//! | [`ChainReader`] | heads, blocks, receipts, accounts, scans, endpoint status | watcher, account reader, scan, API |
//! | [`ChainPricer`] | quotes, estimates, surcharges | pricing before a nonce is bound |
//! | [`ChainSender`] | sends, and the diagnosis of sent transactions | sender loop, diagnosis of stuck transactions |
//!
//! Every list verb answers in the order of its input, one answer for each item. No verb chooses a nonce: the nonce is
//! part of the plan.

mod pricer;
mod reader;
mod sender;

use alloy_primitives::Bytes;
use async_trait::async_trait;
use gapless_domain::{NodeText, Outline, Permit, SignedPlan, SignedTx, SubmitterId, TxPlan};

pub use pricer::{ChainPricer, FeeQuote};
pub use reader::{
    AccountView, ChainReader, EndpointHealth, EndpointStatus, Header, HeaderAt, Receipt, Revert, SentInBlock, Wanted,
};
pub use sender::{ChainSender, SendAnswer};

use crate::classified::Classified;

/// One chain with one or more endpoints: all roles together, and its signed transactions.
#[async_trait]
pub trait Chain: ChainReader + ChainPricer + ChainSender {
    /// Signs a plan with the key of its submitter. The result is verified: its signature recovers to the submitter, and
    /// it carries exactly this plan (S09).
    async fn sign(&self, permit: &Permit, plan: &TxPlan) -> Result<SignedTx, SignError>;

    /// Decodes signed bytes of any account. Hash and sender are computed from the bytes.
    fn read_signed(&self, raw: &Bytes) -> Result<SignedPlan, UnreadableTx>;

    /// The outline of our own signed bytes, without recovering the sender. `None` if they cannot be decoded.
    fn outline(&self, raw: &Bytes) -> Option<Outline> {
        self.read_signed(raw).ok().map(|read| Outline::of(&read.plan))
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    #[error("this node has no key for {0}")]
    NoKey(SubmitterId),
    /// A later try may succeed: a remote signer is down.
    #[error("the signer is not available: {0}")]
    Unavailable(String),
    /// A later try fails too: the signer or the encoding cannot express this plan.
    #[error("the signer refused: {0}")]
    Refused(String),
    /// The signed bytes differ from the plan. They are dropped (S09).
    #[error("the signer returned a transaction with a different {0}")]
    Mismatch(&'static str),
}
