//! Events for consumers.

use std::fmt;

use async_trait::async_trait;
use gapless_domain::{Event, EventPosition};

use crate::error::StoreError;

/// Delivers events to consumers: each event at least once, in the order of commits.
#[async_trait]
pub trait Outbox: Send + Sync + fmt::Debug {
    /// Events after `after`, in the order of commits. An event whose transaction commits late is never skipped.
    async fn read_events(&self, after: EventPosition, limit: u32) -> Result<Vec<Event>, StoreError>;

    /// Claims the named consumer for this node and returns its next events, or `None` while another node has the claim.
    /// A claim lasts as long as a lease. Claiming again renews it.
    async fn claim_events(&self, consumer: &str, limit: u32) -> Result<Option<Vec<Event>>, StoreError>;

    /// Records that the consumer has handled all events up to `upto`. False if this node lost the claim; the consumer
    /// then gets these events again.
    async fn ack_events(&self, consumer: &str, upto: EventPosition) -> Result<bool, StoreError>;
}
