//! The interface between the suite and a store under test.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::LeaseTerms;

use crate::roles::Store;

/// One fresh, empty, migrated database.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Opens a handle for one more node on the same database. Each handle has its own owner id: two calls with the same
    /// name are two nodes.
    async fn node(&self, name: &str) -> Arc<dyn Store>;

    /// Moves the database's clock forward. A database with a real clock waits.
    async fn pass(&self, span: Duration);

    /// Moves the database's clock back. A database with a real clock moves the times of its events forward instead.
    async fn jump_back(&self, span: Duration);

    /// The lease terms that every handle was opened with.
    fn terms(&self) -> LeaseTerms;
}
