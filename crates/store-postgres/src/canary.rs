//! What a process remembers of its own commits, and what it does when the server remembers less.

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
    /// A loss is declared once, whoever of this process notices it first.
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

/// The server has `found` (None: not even our row) where we had seen `remembered` acknowledged. Begins a new epoch, so that
/// every lane takes notice, and goes on from what the server has: the process must still be able to write its lanes' PROTECT.
pub(crate) async fn lost_commits(
    store: &PgStore,
    client: &Client,
    remembered: i64,
    found: Option<i64>,
) -> Result<StoreError, StoreError> {
    let owner = store.owner.as_str();
    let why = format!("process {owner} has seen its commit {remembered} acknowledged, the server knows {found:?}");
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

/// An operator says that commits were lost: a new epoch begins, with an entry in the audit log.
pub(crate) async fn declare_lost(client: &Client, by: &NodeText, why: &str) -> Result<(), StoreError> {
    // Before the transaction: a server that does not tell who it is would end it by refusing.
    let identity = Identity::of(client).await?;
    client.batch_execute("BEGIN").await.map_err(unavailable)?;
    begin_epoch(client, &identity, why).await?;
    audit::write(client, audit::WRITE, &AuditRow::declare_lost(by, why), &[]).await.map_err(unavailable)?;
    client.batch_execute("COMMIT").await.map_err(unavailable)
}

/// Begins a new epoch on the server that is there now: every lane has to take notice before it writes anything else.
async fn begin_epoch(client: &Client, identity: &Identity, why: &str) -> Result<(), StoreError> {
    tracing::error!("the database lost commits: {why}");
    let row = client.query_one("SELECT coalesce(max(epoch), 0) FROM store_epoch", &[]).await.map_err(unavailable)?;
    identity.begin_epoch(client, row.get::<_, i64>(0) + 1, why).await
}
