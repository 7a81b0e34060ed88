//! The composition root: builds a node from the config and the library crates.
//!
//! - `accounts`: the submitters with their keys. `chains`, `store`: the adapters.
//! - `node`: one node, from its start to the end of its drain. `ports`: the engine as the API sees it.
//! - `stuck_webhook`: the webhook that decides about stuck intents.
//! - `dev_net`: the dev chain and its server. `null_net`: the null chain and its server. `telemetry`: logs and metrics.
//!   `stop`: signals. `faults`: fault points for tests of crashes.
//!
//! Architecture invariant: this is the only module that knows all library crates, and it only connects them.

mod accounts;
mod chains;
mod dev_net;
mod error;
mod faults;
mod node;
mod null_net;
mod ports;
mod stop;
mod store;
mod stuck_webhook;
mod telemetry;

pub(crate) use accounts::{SubmitterAccount, accounts};
pub(crate) use dev_net::{DevNet, DevNetOptions};
pub(crate) use error::{ComposeError, is_refusal};
pub(crate) use gapless_devchain::rpc::Mining;
pub(crate) use node::{Node, NodeParts, listen};
pub(crate) use null_net::NullNet;
pub(crate) use stop::StopSignals;
pub(crate) use store::open_store;
pub(crate) use telemetry::{Metrics, start_logging};

use uuid::Uuid;

/// The random part of a process's name, so that no two processes have the same name (N22).
#[expect(clippy::disallowed_methods, reason = "the composition root gives every process its own identity")]
pub(crate) fn unique() -> u128 {
    Uuid::new_v4().as_u128()
}
