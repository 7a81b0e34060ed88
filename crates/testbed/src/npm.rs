//! The one way to fetch an npm package: an exact version, into a folder of the workspace's target folder, with nobody's
//! install scripts run and nothing outside that folder changed.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::command::run;
use crate::kept::kept;

/// A package at the one version that we use, so that a test which fails today did not pass yesterday on another one.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    /// The folder's name, together with the version.
    pub(crate) label: &'static str,
    pub(crate) name: String,
    pub(crate) version: &'static str,
}

impl Package {
    /// The folder that holds the package's `node_modules`, out of the cache when an earlier run has fetched it.
    ///
    /// `needed` is what must be there, as a path below `node_modules`; `finish` does what the package's install script
    /// would have done.
    pub(crate) fn fetched(
        &self,
        needed: &Path,
        finish: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<PathBuf, Error> {
        kept(self.label, self.version, &Path::new("node_modules").join(needed), |folder| {
            self.install(folder)?;
            finish(&folder.join("node_modules").join(&self.name))
        })
    }

    fn install(&self, prefix: &Path) -> Result<(), Error> {
        run(Command::new("npm")
            .arg("install")
            .arg("--prefix")
            .arg(prefix)
            .args(["--ignore-scripts", "--no-audit", "--no-fund", "--no-save"])
            .arg(format!("{}@{}", self.name, self.version)))
    }
}

/// What npm packages call this operating system.
pub(crate) fn system() -> &'static str {
    match env::consts::OS {
        "macos" => "darwin",
        other => other,
    }
}
