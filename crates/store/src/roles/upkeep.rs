//! Retention, and the operator's statements about a lost database.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::StoreError;

/// Maintenance of the database as a whole.
#[async_trait]
pub trait Upkeep: Send + Sync + fmt::Debug {
    /// Retention: moves up to `limit` terminal intents out of the working tables. An intent is moved if its last change
    /// is older than `age` and every consumer has handled its events. Request ids stay. Returns the number of moved
    /// intents.
    async fn archive(&self, age: Duration, limit: u32) -> Result<u32, StoreError>;

    /// An operator states that this database was restored or has lost commits. A new store epoch begins: every lane
    /// must acknowledge the loss before it writes anything else.
    async fn declare_regressed(&self, why: &str) -> Result<(), StoreError>;

    /// An operator states that the search for lost commits is complete. Lanes are reconciled one by one, by their own
    /// commits. Until this call a submitter that is registered for the first time must acknowledge the loss as well,
    /// because it may have been registered before and lost.
    async fn declare_reconciled(&self, why: &str) -> Result<(), StoreError>;
}
