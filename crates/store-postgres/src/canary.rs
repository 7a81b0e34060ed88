//! The canary: the count of commits that this process knows as acknowledged, and the reaction to a server that has
//! fewer.

use std::sync::atomic::{AtomicI64, Ordering};

use gapless_domain::NodeText;
use gapless_store::{AuditRow, StoreError};
use tokio::sync::Mutex;
use tokio_postgres::Client;

use crate::audit;
use crate::error::unavailable;
use crate::identity::Identity;
use crate::store::PgStore;

/// The newest canary that the server acknowledged to this process.
#[derive(Debug, Default)]
pub(crate) struct Canary {
    acknowledged: AtomicI64,
    /// Keeps two tasks of this process from declaring the same loss.
    declaring: Mutex<()>,
}

impl Canary {
    pub(crate) fn get(&self) -> i64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    pub(crate) fn acknowledge(&self, canary: i64) {
        self.acknowledged.fetch_max(canary, Ordering::SeqCst);
    }
}

/// The server acknowledged the canary `remembered`, and has `found` now (None: the row of this process is gone too).
/// Begins a new epoch, so that every lane takes notice. The process goes on from the canary of the server, because it
/// must still be able to write the PROTECT of its lanes.
pub(crate) async fn lost_commits(
    store: &PgStore,
    client: &Client,
    remembered: i64,
    found: Option<i64>,
) -> Result<StoreError, StoreError> {
    let owner = store.owner.as_str();
    let why = format!("the server acknowledged commit {remembered} of process {owner}, and has {found:?} now");
    let _declaring = store.canary.declaring.lock().await;
    if store.canary.get() == remembered {
        let identity = Identity::of(client).await?;
        begin_epoch(client, &identity, &why).await?;
        let insert = "INSERT INTO node (owner_node) VALUES ($1) ON CONFLICT (owner_node) DO NOTHING";
        client.execute(insert, &[&owner]).await.map_err(unavailable)?;
        store.canary.acknowledged.store(found.unwrap_or(0), Ordering::SeqCst);
    }
    Ok(StoreError::Regressed(why))
}

/// Begins a new epoch because an operator says that commits were lost, with an entry in the audit log.
pub(crate) async fn declare_lost(client: &Client, by: &NodeText, why: &str) -> Result<(), StoreError> {
    // Before the transaction: a server that refuses to tell its identity would abort it.
    let identity = Identity::of(client).await?;
    client.batch_execute("BEGIN").await.map_err(unavailable)?;
    begin_epoch(client, &identity, why).await?;
    audit::write(client, audit::WRITE, &AuditRow::declare_lost(by, why), &[]).await.map_err(unavailable)?;
    client.batch_execute("COMMIT").await.map_err(unavailable)
}

/// Begins a new epoch on the current server. Every lane has to take notice before it writes anything else.
async fn begin_epoch(client: &Client, identity: &Identity, why: &str) -> Result<(), StoreError> {
    tracing::error!(%why, "database lost commits; every lane enters PROTECT");
    let row = client.query_one("SELECT coalesce(max(epoch), 0) FROM store_epoch", &[]).await.map_err(unavailable)?;
    identity.begin_epoch(client, row.get::<_, i64>(0) + 1, why).await
}
