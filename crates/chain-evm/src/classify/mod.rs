//! The classifier of node errors (DESIGN §7).
//!
//! - [`Classifier`] turns a [`NodeFailure`] (an error of a node, an HTTP status, a time-out) into a
//!   [`Classified`](gapless_chain::Classified): a verdict for the next step, and its reason.
//! - The tables (`table`) map texts to reasons, family by family. `Reason::verdict` maps reasons to verdicts, once for
//!   all families. So "fee above the cap of the node is a wait" is one line and not forty tables.
//! - [`Overrides`] are the operator's own patterns. They come before the tables.
//! - [`family_of`] finds the client family of an endpoint.
//! - [`UnknownTexts`] counts the texts without a pattern.
//!
//! Three rules decide every doubtful row. A text is never a success: only `Classified::answered` gives `Accepted`, from
//! the hash that a node returned. `Rejected` is only for failures that are permanent for these bytes on every node.
//! `Unknown` is always safe: it keeps the nonce and sends the same bytes again.

mod classifier;
mod client_version;
mod failure;
mod family;
mod overrides;
mod pattern;
mod revert_data;
mod table;
mod unknown_texts;
mod words;

pub use classifier::Classifier;
pub(crate) use client_version::family_of;
pub use failure::{Method, NodeFailure};
pub use family::Family;
pub use overrides::{OverrideError, OverrideRule, Overrides};
pub use pattern::PatternError;
pub use unknown_texts::UnknownTexts;
