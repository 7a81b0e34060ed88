//! A temporary folder that is removed at the end.

use std::fs;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::LoadError;

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new() -> Result<Self, LoadError> {
        let path = std::env::temp_dir().join(format!("gapless-bench-{}", Uuid::new_v4().simple()));
        fs::create_dir(&path).map_err(LoadError::file(&path))?;
        Ok(Folder { path })
    }

    /// Creates a folder inside of this one.
    pub(crate) fn within(&self, name: &str) -> Result<PathBuf, LoadError> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(LoadError::file(&path))?;
        Ok(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A file that cannot be removed stays in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.path);
    }
}
