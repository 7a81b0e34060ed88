//! What the suite needs of a store under test.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::LeaseTerms;

use crate::roles::Store;

/// One fresh, empty, migrated database.
#[async_trait]
pub trait Harness: Send + Sync {
    /// A handle for one more process on the same database, with an owner id of its own: two calls with the same name are
    /// two processes.
    async fn node(&self, name: &str) -> Arc<dyn Store>;

    /// Lets the database's clock go on. A database with a real clock waits.
    async fn pass(&self, span: Duration);

    /// The lease terms that every handle was opened with.
    fn terms(&self) -> LeaseTerms;
}
