//! The composition root: builds the rooms from the config and puts them together.
//!
//! - `accounts`: keys, from wherever the config says they are. `chains`, `store`: the adapters.
//! - `node`: one node, from its start to the end of its drain. `ports`: what the API asks of the engine.
//! - `stuck_webhook`: whom the business has decide about what is stuck.
//! - `dev_net`: a dev chain and its server. `null_net`: the same for the null chain. `telemetry`: logs and metrics. `stop`: signals.
//!   `faults`: for tests of crashes.
//!
//! Architecture invariant: this is the only place that knows every room, and it knows them only to introduce them.

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

pub(crate) use accounts::{Account, accounts};
pub(crate) use dev_net::{DevNet, DevNetOptions};
pub(crate) use error::{ComposeError, is_refusal};
pub(crate) use gapless_devchain::rpc::Mining;
pub(crate) use node::{Node, NodeParts, listen};
pub(crate) use null_net::NullNet;
pub(crate) use stop::Stop;
pub(crate) use store::open_store;
pub(crate) use telemetry::{Metrics, start_logging};

use uuid::Uuid;

/// The random part of a process's name: never the same twice (N22).
#[expect(clippy::disallowed_methods, reason = "the composition root gives every process its own identity")]
pub(crate) fn unique() -> u128 {
    Uuid::new_v4().as_u128()
}
