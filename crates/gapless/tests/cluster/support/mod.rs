//! The parts of a cluster, and the functions that wait for it.
//!
//! - `node`: one `gapless serve` process. `chain`: anvil, Hardhat or the dev chain. `database`: PostgreSQL and its
//!   rows. `process`: a child process. `folder`: a temporary folder.
//! - `proxies`: the connections of one node to its database and its chain, which can be cut.
//! - `load`: callers and their answers. `ledger`: the final check of a submitter. `follower`: a consumer of events.
//!   `key`: signatures without a node.

mod chain;
mod database;
mod folder;
mod follower;
mod key;
mod ledger;
mod load;
mod node;
mod process;
mod proxies;

pub(crate) use chain::{TestChain, repeat_while};
pub(crate) use database::TestDatabase;
pub(crate) use folder::TestFolder;
pub(crate) use follower::EventFollower;
pub(crate) use key::{AccountKey, hex};
pub(crate) use ledger::{SubmitterLedger, wait_until_done};
pub(crate) use load::{AcceptedRequest, NodeClients, create, create_all, is_retryable, transfer};
pub(crate) use node::{NodeProcess, Secrets, TestNodeConfig, owner, start_three_nodes, wait_for_takeover};
pub(crate) use process::ChildProcess;
pub(crate) use proxies::{NodeProxies, start_three_behind_proxies};

use std::time::{Duration, Instant};

/// The time limit for every wait. It is long, because a machine under load is slow; a test that passes never needs it.
pub(crate) const LONG: Duration = Duration::from_secs(180);

/// Polls until there is a value, and panics after [`LONG`].
pub(crate) async fn eventually<T>(condition: &str, poll: impl AsyncFnMut() -> Option<T>) -> T {
    within(LONG, poll).await.unwrap_or_else(|| panic!("timed out waiting until {condition}"))
}

/// Polls until there is a value, and returns `None` after `limit`.
pub(crate) async fn within<T>(limit: Duration, mut poll: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = poll().await {
            return Some(value);
        }
        if start.elapsed() >= limit {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A unique name.
pub(crate) fn unique() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// A plain HTTP client, for the parts of an answer that `gapless_wire::Client` does not return.
pub(crate) fn http() -> reqwest::Client {
    // The first `gapless_wire::Client` installs the TLS provider, which every client needs.
    gapless_wire::Client::new("http://127.0.0.1").unwrap();
    reqwest::Client::new()
}
