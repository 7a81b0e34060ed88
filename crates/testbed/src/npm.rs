//! Fetches npm packages: an exact version, into the workspace's target folder, without install scripts and without
//! changes outside of that folder.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::command::run;
use crate::kept::kept;

/// A package at one exact version, so that test results do not depend on the day.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    /// The folder's name, together with the version.
    pub(crate) label: &'static str,
    pub(crate) name: String,
    pub(crate) version: &'static str,
}

impl Package {
    /// The folder with the package's `node_modules`, from the cache if an earlier run has fetched it.
    ///
    /// `needed` is a path below `node_modules` that must exist; `finish` does the work of the package's install script.
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

/// The name of this operating system in npm packages.
pub(crate) fn system() -> &'static str {
    match env::consts::OS {
        "macos" => "darwin",
        other => other,
    }
}
