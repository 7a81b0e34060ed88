//! A cache of fetched folders in the workspace's target folder.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process;

use crate::Error;

/// The folder `label-version`, from the cache if an earlier run has fetched it. `needed` is a path that must exist in
/// the folder; `fetch` fills the folder.
pub(crate) fn kept(
    label: &str,
    version: &str,
    needed: &Path,
    fetch: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    let tools = target_dir().join("tools");
    fs::create_dir_all(&tools).map_err(Error::io(format!("creating {}", tools.display())))?;
    let kept = tools.join(format!("{label}-{version}"));
    let is_there = |folder: &Path| folder.join(needed).exists();
    if is_there(&kept) {
        return Ok(kept);
    }
    // Several threads and processes may start servers at once: one fetches, the others wait.
    let _alone = lock(&tools.join(format!("{label}.lock")))?;
    if is_there(&kept) {
        return Ok(kept);
    }
    // Fetch into a temporary place and rename, so that an interrupted run leaves no half-filled folder.
    let fresh = tools.join(format!("{label}-{version}.{}", process::id()));
    let made = fs::create_dir_all(&fresh).map_err(Error::io(format!("creating {}", fresh.display())));
    let moved = made.and_then(|()| fetch(&fresh)).and_then(|()| {
        if !is_there(&fresh) {
            return Err(Error::MissingTool { tool: fresh.join(needed) });
        }
        fs::rename(&fresh, &kept).map_err(Error::io(format!("moving the package to {}", kept.display())))
    });
    let _ = fs::remove_dir_all(&fresh);
    moved.map(|()| kept)
}

/// Locks a file against threads and processes until the value is dropped or the process dies.
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
