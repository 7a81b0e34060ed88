//! `gapless migrate`: migrates the database schema.

use clap::Args;
use gapless_domain::OwnerId;
use gapless_store::StoreError;
use serde_json::json;

use super::{CliError, ConfigArgs, Exit, block_on};
use crate::compose::{open_store, unique};
use crate::config::Config;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

impl MigrateArgs {
    /// Opens the store without migration first, so that the result can name both schema versions.
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let config = Config::load(self.config.config.as_deref())?;
        let applied = block_on(async {
            let owner = || OwnerId::new("migrate", unique());
            match open_store(&config, owner(), false).await {
                Ok(_) => Ok(None),
                Err(StoreError::SchemaIsOlder { found, known }) => {
                    open_store(&config, owner(), true).await?;
                    Ok(Some((found, known)))
                }
                Err(error) => Err(error.into()),
            }
        })?;
        let url = config.store.url.to_string();
        match applied {
            None => {
                let value = json!({ "store": url, "migrated": false });
                output.result(&value, format_args!("{url}: the schema is up to date"))?;
            }
            Some((from, to)) => {
                let value = json!({ "store": url, "migrated": true, "from": from, "to": to });
                output.result(&value, format_args!("{url}: schema migrated from version {from} to {to}"))?;
            }
        }
        Ok(Exit::Success)
    }
}
