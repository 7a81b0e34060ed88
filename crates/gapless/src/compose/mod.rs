//! The composition root: builds a node from the config and the library crates.
//!
//! - `accounts`: the submitters with their keys. `chains`, `store`: the adapters.
//! - `node`: one node, from its start to the end of its drain. `ports`: the engine as the API sees it.
//! - `stuck_webhook`: the webhook that decides about stuck intents.
//! - `telemetry`: logs and metrics. `stop`: signals. `faults`: fault points for tests of crashes.
//! - `tools`: the dev chain and the null chain with their servers, in builds with the feature `tools`.
//!
//! Architecture invariant: this is the only module that knows all library crates, and it only connects them.

mod accounts;
mod chains;
mod error;
mod faults;
mod node;
mod ports;
mod stop;
mod store;
mod stuck_webhook;
mod telemetry;
#[cfg(feature = "tools")]
mod tools;

#[cfg(feature = "tools")]
pub(crate) use accounts::SubmitterAccount;
pub(crate) use accounts::accounts;
pub(crate) use error::{ComposeError, is_refusal};
pub(crate) use node::{Node, NodeParts, listen};
pub(crate) use stop::StopSignals;
pub(crate) use store::open_store;
pub(crate) use telemetry::{Metrics, start_logging};
#[cfg(feature = "tools")]
pub(crate) use tools::{DevNet, DevNetError, DevNetOptions, Mining, NullNet};

use uuid::Uuid;

/// The random part of a process's name, so that no two processes have the same name (N22).
#[expect(clippy::disallowed_methods, reason = "the composition root gives every process its own identity")]
pub(crate) fn unique() -> u128 {
    Uuid::new_v4().as_u128()
}
