//! The config of `gapless dev`.

use std::path::PathBuf;

use gapless_domain::ChainId;

use super::file::TextSource;
use super::{AuthMode, ChainConfig, Config, ConfigError, StoreUrl, from_sources};

/// The settings of `gapless dev` that differ from the default file.
pub(super) const DEV_FILE: &str = include_str!("../../config.dev.toml");

impl Config {
    /// The config of `gapless dev`: its own defaults and the environment. A `gapless.toml` in the folder is not read,
    /// because it may be a production config.
    pub(crate) fn for_dev() -> Result<Config, ConfigError> {
        let mut checked = from_sources(&[(TextSource::Default, DEV_FILE)], std::env::vars_os());
        // The dev node never asks for API keys, not even if the environment says so.
        checked.config.auth = AuthMode::None;
        if checked.problems.is_empty() {
            Ok(checked.config)
        } else {
            Err(ConfigError::Invalid { problems: checked.problems })
        }
    }

    /// Sets the store to a SQLite file.
    pub(crate) fn use_sqlite_file(&mut self, path: PathBuf) {
        self.store.url = StoreUrl::Sqlite(path);
    }

    /// Sets the chains to one chain with one endpoint, and removes all submitters.
    pub(crate) fn use_chain(&mut self, id: &ChainId, endpoint: &str) {
        self.chains = ChainConfig::at(id, endpoint, &self.chain_defaults).into_iter().collect();
        self.submitters.clear();
    }
}
