//! The contract of a chain, and the neutral verdicts on the answers of its nodes (DESIGN §7).
//!
//! - [`Chain`] is the contract, in three roles: [`ChainReader`], [`ChainPricer`] and [`ChainSender`]. Adapters
//!   (`chain-evm`) implement it; the engine uses nothing else.
//! - [`Classified`] is the meaning of an answer: a [`Verdict`] for the next step, and its [`Reason`]. An adapter maps
//!   the errors of its nodes to reasons. [`Reason::verdict`] maps reasons to verdicts, once for all chains.
//! - [`mempool_signal`] combines the mempool states of several endpoints.
//! - `conformance` (a feature) is the suite that every implementation passes.
//!
//! Architecture invariant: no I/O, no clock, no provider or wire type, no text of a node, no retry policy. The lane
//! decides about a verdict; the adapter reaches the node.

mod classified;
#[cfg(feature = "conformance")]
pub mod conformance;
mod contract;
mod mempool;
mod reason;
mod verdict;

pub use classified::{Classified, Source};
pub use contract::{
    AccountView, Chain, ChainError, ChainPricer, ChainReader, ChainSender, EndpointHealth, EndpointStatus, FeeQuote,
    Header, HeaderAt, Receipt, Revert, SendAnswer, SentInBlock, UnreadableTx, Wanted,
};
pub use mempool::{PoolView, mempool_signal};
pub use reason::Reason;
pub use verdict::Verdict;
