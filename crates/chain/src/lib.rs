//! What a chain means to the rest of the house: the contract, and the one classifier of what nodes say (DESIGN §7).
//!
//! - [`Chain`] is the contract; adapters (`chain-evm`) implement it, the engine uses nothing else.
//! - [`Classifier`] turns a [`NodeFailure`] (a node's error, an HTTP status, a time-out) into a [`Classified`]: a [`Verdict`] that
//!   says what to do, and the [`Reason`] that says why.
//! - The tables (`table`) say which reason a text tells, family by family. [`Reason::verdict`] says, once for all families, what
//!   each reason means. So "fee above the node's cap is a wait" is decided in one line and not in forty tables.
//! - [`Overrides`] are the operator's own patterns; they come before the tables.
//! - [`Revert::decode`] puts what a reverted transaction returned into words.
//! - [`mempool_signal`] makes one signal of what several endpoints' pools show.
//! - [`UnknownTexts`] counts the texts that nobody has a pattern for.
//!
//! Three rules decide every doubtful row. A text is never a success: only [`Classified::answered`] gives `Accepted`, from the
//! hash that a node returned. `Rejected` is only for what is permanent for these bytes on every node. And `Unknown` is always
//! safe: it keeps the nonce and sends the same bytes again.
//!
//! Architecture invariant: no I/O, no clock, no provider or wire type, no retry policy. What to do about a verdict is the
//! lane's business, how to reach a node the adapter's.

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
    SendAnswer, SentInBlock, SignError, UnreadableTx, Wanted,
};
pub use failure::{Method, NodeFailure};
pub use family::Family;
pub use mempool::{PoolSight, mempool_signal};
pub use overrides::{OverrideError, OverrideRule, Overrides};
pub use pattern::PatternError;
pub use reason::Reason;
pub use unknown_texts::UnknownTexts;
pub use verdict::Verdict;
