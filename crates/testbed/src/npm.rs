//! The one way to fetch an npm package: an exact version, into a folder of the workspace's target folder, with nobody's
//! install scripts run and nothing outside that folder changed.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use crate::Error;
use crate::command::run;

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
        let tools = target_dir().join("tools");
        fs::create_dir_all(&tools).map_err(Error::io(format!("creating {}", tools.display())))?;
        let kept = tools.join(format!("{}-{}", self.label, self.version));
        let is_there = |folder: &Path| folder.join("node_modules").join(needed).exists();
        if is_there(&kept) {
            return Ok(kept);
        }
        // Threads and processes start servers at once; one of them fetches, the others wait and find it done.
        let _alone = lock(&tools.join(format!("{}.lock", self.label)))?;
        if is_there(&kept) {
            return Ok(kept);
        }
        // Fetched beside its place and then moved there: an interrupted run must not leave half a server behind.
        let fresh = tools.join(format!("{}-{}.{}", self.label, self.version, process::id()));
        let fetched = self.install(&fresh).and_then(|()| finish(&fresh.join("node_modules").join(&self.name)));
        let moved = fetched.and_then(|()| {
            if !is_there(&fresh) {
                return Err(Error::MissingTool { tool: fresh.join("node_modules").join(needed) });
            }
            fs::rename(&fresh, &kept).map_err(Error::io(format!("moving the package to {}", kept.display())))
        });
        let _ = fs::remove_dir_all(&fresh);
        moved.map(|()| kept)
    }

    fn install(&self, prefix: &Path) -> Result<(), Error> {
        fs::create_dir_all(prefix).map_err(Error::io(format!("creating {}", prefix.display())))?;
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

/// Holds until the file is dropped, also against other processes; the kernel lets go when we die.
fn lock(path: &Path) -> Result<File, Error> {
    let failed = || Error::io(format!("locking {}", path.display()));
    let file = File::options().create(true).append(true).open(path).map_err(failed())?;
    file.lock().map_err(failed())?;
    Ok(file)
}

/// The workspace's target folder, which git ignores and `cargo clean` empties.
fn target_dir() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace.join(folder),
        None => workspace.join("target"),
    }
}
