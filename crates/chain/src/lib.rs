//! The contract of a chain, and the classifier of node errors (DESIGN §7).
//!
//! - [`Chain`] is the contract. Adapters (`chain-evm`) implement it; the engine uses nothing else.
//! - [`Classifier`] turns a [`NodeFailure`] (an error of a node, an HTTP status, a time-out) into a [`Classified`]: a
//!   [`Verdict`] for the next step, and its [`Reason`].
//! - The tables (`table`) map texts to reasons, family by family. [`Reason::verdict`] maps reasons to verdicts, once
//!   for all families. So "fee above the cap of the node is a wait" is one line and not forty tables.
//! - [`Overrides`] are the operator's own patterns. They come before the tables.
//! - [`Revert::decode`] decodes the return value of a reverted transaction.
//! - [`mempool_signal`] combines the mempool states of several endpoints.
//! - [`UnknownTexts`] counts the texts without a pattern.
//!
//! Three rules decide every doubtful row. A text is never a success: only [`Classified::answered`] gives `Accepted`,
//! from the hash that a node returned. `Rejected` is only for failures that are permanent for these bytes on every
//! node. `Unknown` is always safe: it keeps the nonce and sends the same bytes again.
//!
//! Architecture invariant: no I/O, no clock, no provider or wire type, no retry policy. The lane decides about a
//! verdict; the adapter reaches the node.

mod classified;
mod classifier;
mod contract;
mod failure;
mod family;
mod mempool;
mod overrides;
mod pattern;
mod reason;
mod revert;
mod revert_reason;
mod table;
mod unknown_texts;
mod verdict;
mod words;

pub use classified::{Classified, Source};
pub use classifier::Classifier;
pub use contract::{
    AccountView, Chain, ChainError, EndpointHealth, EndpointStatus, FeeQuote, Header, HeaderAt, Receipt, Revert,
    SendAnswer, SentInBlock, UnreadableTx, Wanted,
};
pub use failure::{Method, NodeFailure};
pub use family::Family;
pub use mempool::{PoolView, mempool_signal};
pub use overrides::{OverrideError, OverrideRule, Overrides};
pub use pattern::PatternError;
pub use reason::Reason;
pub use unknown_texts::UnknownTexts;
pub use verdict::Verdict;
