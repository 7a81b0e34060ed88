//! `gapless migrate`: the store's schema.

use clap::Args;
use gapless_domain::OwnerId;
use gapless_store::StoreError;
use gapless_store_postgres::{PgOptions, PgStore};
use gapless_store_sqlite::{Location, SqliteOptions, SqliteStore};
use serde_json::json;

use super::{CliError, ConfigArgs, Exit, block_on};
use crate::config::{Config, StoreUrl};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

impl MigrateArgs {
    /// Looks first, so that it can tell what it did.
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let config = Config::load(self.config.config.as_deref())?;
        let from = match open(&config, false) {
            Ok(()) => None,
            Err(CliError::Store(StoreError::SchemaIsOlder { found, known })) => {
                open(&config, true)?;
                Some((found, known))
            }
            Err(error) => return Err(error),
        };
        let url = config.store.url.to_string();
        match from {
            None => {
                output.result(&json!({ "store": url, "migrated": false }), format_args!("{url} is up to date"))?;
            }
            Some((from, to)) => {
                let value = json!({ "store": url, "migrated": true, "from": from, "to": to });
                output.result(&value, format_args!("{url}: schema version {from} is now {to}"))?;
            }
        }
        Ok(Exit::Success)
    }
}

fn open(config: &Config, migrate: bool) -> Result<(), CliError> {
    let owner = OwnerId::new("migrate", crate::compose::unique());
    match &config.store.url {
        StoreUrl::Sqlite(path) => {
            let options = SqliteOptions { lease: config.lease, migrate, ..SqliteOptions::default() };
            SqliteStore::open(Location::File(path.clone()), owner, options)?;
            Ok(())
        }
        StoreUrl::Postgres(url) => block_on(async {
            let options = PgOptions { migrate, ..config.store.postgres.clone() };
            PgStore::open(url.expose(), owner, options).await?;
            Ok(())
        }),
    }
}
