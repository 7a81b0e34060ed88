//! The temporary folder that holds everything of one server.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;
use crate::account::Account;

/// File with the server's process id, written by the supervisor.
const LOG_FILE: &str = "server.log";
const LOG_TAIL_BYTES: usize = 4_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A temporary folder that is removed when this value is dropped.
///
/// The supervisor removes the folder too, because a killed process drops no values. This type covers the time before
/// the supervisor runs, and errors during the start.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates a new, empty folder that only the account can enter.
    pub(crate) fn create(label: &str, account: Account) -> Result<Self, Error> {
        let parent = std::env::temp_dir();
        loop {
            // A killed process with the same pid may have left a folder, so existing names are skipped.
            let name = format!("gapless-{label}-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = parent.join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let folder = Self(path);
                    account.give(&folder.0)?;
                    return Ok(folder);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io(format!("creating {}", path.display()))(error)),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The server's whole log.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.0.join(LOG_FILE)).unwrap_or_default()).into_owned()
    }

    /// The end of the log, for an error message.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.log();
        let from = log.ceil_char_boundary(log.len().saturating_sub(LOG_TAIL_BYTES));
        log.get(from..).unwrap_or_default().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failure cannot be reported here, and usually the supervisor was faster.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Copies a folder with its content, keeps symbolic links, and makes the account the owner of the copy.
pub(crate) fn copy_tree(from: &Path, to: &Path, account: Account) -> Result<(), Error> {
    let failed = || Error::io(format!("copying {} to {}", from.display(), to.display()));
    fs::create_dir_all(to).map_err(failed())?;
    account.give(to)?;
    for entry in fs::read_dir(from).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let kind = entry.file_type().map_err(failed())?;
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            copy_tree(&entry.path(), &target, account)?;
        } else if kind.is_symlink() {
            let points_to = fs::read_link(entry.path()).map_err(failed())?;
            symlink(points_to, &target).map_err(failed())?;
            account.give_link(&target)?;
        } else {
            fs::copy(entry.path(), &target).map_err(failed())?;
            account.give(&target)?;
        }
    }
    Ok(())
}
