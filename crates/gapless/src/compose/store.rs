//! Opens the store that the config names.

use std::sync::Arc;

use gapless_domain::OwnerId;
use gapless_store::{Store, StoreError};
use gapless_store_postgres::{PgOptions, PgStore};
use gapless_store_sqlite::{Location, SqliteOptions, SqliteStore};

use crate::config::{Config, StoreUrl};

/// Opens the store of the config. A SQLite file is opened on the calling thread, which may wait for the disk at the
/// start.
pub(crate) async fn open_store(config: &Config, owner: OwnerId, migrate: bool) -> Result<Arc<dyn Store>, StoreError> {
    match &config.store.url {
        StoreUrl::Sqlite(path) => {
            let checkpoint_pages = config.store.sqlite.checkpoint_pages;
            let options = SqliteOptions { lease: config.lease, migrate, checkpoint_pages, ..SqliteOptions::default() };
            Ok(Arc::new(SqliteStore::open(Location::File(path.clone()), owner, options)?))
        }
        StoreUrl::Postgres(url) => {
            let options = PgOptions { migrate, ..config.store.postgres.clone() };
            Ok(Arc::new(PgStore::open(url.expose(), owner, options).await?))
        }
    }
}
