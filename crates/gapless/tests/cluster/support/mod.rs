//! The parts that a cluster is made of, and how to wait for it.
//!
//! - `node`: one `gapless serve` process. `chain`: anvil or the dev chain, and what is really on it. `database`: PostgreSQL,
//!   and its rows. `process`: what the first two have in common.
//! - `roads`: how one node reaches its database and its chain, and how it does not.
//! - `load`: callers, and what they were told. `ledger`: what must be true of a submitter when all is over. `follower`: who
//!   reads nothing but events. `key`: who signs by itself.

mod chain;
mod database;
mod folder;
mod follower;
mod key;
mod ledger;
mod load;
mod node;
mod process;
mod roads;

pub(crate) use chain::Chain;
pub(crate) use database::Database;
pub(crate) use folder::Folder;
pub(crate) use follower::Follower;
pub(crate) use key::{Key, hex};
pub(crate) use ledger::{Ledger, wait_until_done};
pub(crate) use load::{Accepted, Doors, create, create_all, may_be_asked_again, transfer};
pub(crate) use node::{Node, NodeConfig, Secrets, owner, taken_over, three};
pub(crate) use process::Process;
pub(crate) use roads::{Roads, three_on_roads};

use std::time::{Duration, Instant};

/// For whatever has to happen: long, since a machine under load is slow, and a test that passes never waits for it.
pub(crate) const LONG: Duration = Duration::from_secs(180);

/// Looks again and again until there is an answer.
pub(crate) async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    within(LONG, look).await.unwrap_or_else(|| panic!("it never happened that {what}"))
}

/// The same with a limit of its own, and no answer is an answer too.
pub(crate) async fn within<T>(limit: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = look().await {
            return Some(answer);
        }
        if start.elapsed() >= limit {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A name that nobody else has.
pub(crate) fn unique() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Plain HTTP, for what our client does not tell of an answer.
pub(crate) fn http() -> reqwest::Client {
    // The first client of ours chooses what TLS is done with, and no client can be made before that.
    gapless_wire::Client::new("http://127.0.0.1").unwrap();
    reqwest::Client::new()
}
