//! Folders that are fetched once and kept in the workspace's target folder.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process;

use crate::Error;

/// The folder `label-version`, out of the cache when an earlier run has fetched it. `needed` is what must be in it, as a
/// path below; `fetch` puts everything into the folder it is given.
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
    // Threads and processes start servers at once; one of them fetches, the others wait and find it done.
    let _alone = lock(&tools.join(format!("{label}.lock")))?;
    if is_there(&kept) {
        return Ok(kept);
    }
    // Fetched beside its place and then moved there: an interrupted run must not leave half of it behind.
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
