//! Retention, and the operator's statements about a lost database.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{NodeText, Timestamp};

use crate::error::StoreError;
use crate::retention::RetentionKind;

/// Maintenance of the database as a whole.
#[async_trait]
pub trait Upkeep: Send + Sync + fmt::Debug {
    /// Makes this node the one that applies retention, and returns the database's time. `None` while another node holds
    /// the claim. A claim lasts as long as a lease. Claiming again renews it. The claim only avoids double work:
    /// [`Upkeep::apply_retention`] is correct without it.
    async fn claim_retention(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Moves or deletes one batch of rows that are older than `age`, oldest first, in one transaction. A batch has at
    /// most `limit` intents for the kinds that belong to intents, and at most `limit` rows for the other kinds. Returns
    /// the number of intents or rows. A call whose outcome is unknown may be repeated.
    async fn apply_retention(&self, kind: RetentionKind, age: Duration, limit: u32) -> Result<u32, StoreError>;

    /// An operator states that this database was restored or has lost commits. A new store epoch begins: every lane
    /// must acknowledge the loss before it writes anything else. Every call declares a new loss, also if the earlier
    /// loss is not reconciled. The audit log names the call `declare_lost`.
    async fn declare_lost(&self, by: &NodeText, why: &str) -> Result<(), StoreError>;

    /// An operator states that the search for lost commits is complete, for every loss so far. Lanes are reconciled one
    /// by one, by their own commits. Until this call a submitter that is registered for the first time must acknowledge
    /// the loss as well, because it may have been registered before and lost. The audit log names the call
    /// `declare_reconciled`.
    async fn declare_reconciled(&self, by: &NodeText, why: &str) -> Result<(), StoreError>;
}
