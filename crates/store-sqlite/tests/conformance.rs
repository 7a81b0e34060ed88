//! The conformance suite of the store contract, on databases in memory and on files.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail like the test itself")]

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{LeaseTerms, OwnerId, Timestamp};
use gapless_store::conformance::Harness;
use gapless_store::{DatabaseClock, ManualClock, Store};
use gapless_store_sqlite::{Location, SqliteOptions, SqliteStore};
use support::Folder;

/// One database with a clock that the suite moves.
struct Sqlite {
    // Dropped in this order: the store closes the file before its folder goes.
    store: SqliteStore,
    clock: Arc<ManualClock>,
    starts: AtomicU64,
    _folder: Option<Folder>,
}

impl Sqlite {
    fn in_memory() -> Self {
        Self::at(Location::Memory, None)
    }

    fn on_disk() -> Self {
        let folder = Folder::new();
        let path: PathBuf = folder.database();
        Self::at(Location::File(path), Some(folder))
    }

    fn at(location: Location, folder: Option<Folder>) -> Self {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(1_700_000_000_000_000)));
        let options = SqliteOptions { clock: Arc::clone(&clock) as _, ..SqliteOptions::default() };
        let store = SqliteStore::open(location, OwnerId::new("harness", 0), options).unwrap();
        Sqlite { store, clock, starts: AtomicU64::new(1), _folder: folder }
    }
}

#[async_trait]
impl Harness for Sqlite {
    async fn node(&self, name: &str) -> Arc<dyn Store> {
        let start = self.starts.fetch_add(1, Ordering::SeqCst);
        Arc::new(self.store.for_owner(OwnerId::new(name, u128::from(start))))
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    async fn jump_back(&self, span: Duration) {
        self.clock.set(self.clock.now().saturating_sub(span));
    }

    fn terms(&self) -> LeaseTerms {
        LeaseTerms::default()
    }
}

mod in_memory {
    use super::*;
    gapless_store::conformance_suite!(Sqlite::in_memory());
}

mod on_disk {
    use super::*;
    gapless_store::conformance_suite!(Sqlite::on_disk());
}
