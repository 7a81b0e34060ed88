//! The files that the rules check: files under version control, and new files that git does not ignore, so that a rule
//! finds a problem before the commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// A text file of the workspace; its path is relative to the root.
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|found| found == extension)
    }
}

pub(crate) fn read_all(root: &Path) -> Result<Vec<SourceFile>> {
    let mut paths = match listed_by_git(root) {
        Some(paths) => paths,
        // An unpacked archive has no repository: take all files outside of build folders.
        None => walk(root, root)?,
    };
    paths.sort();
    paths.dedup();
    // Deleted files and binary files are skipped.
    let read = |path: PathBuf| fs::read_to_string(root.join(&path)).ok().map(|text| SourceFile { path, text });
    Ok(paths.into_iter().filter_map(read).collect())
}

fn listed_by_git(root: &Path) -> Option<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let list = String::from_utf8(output.stdout).ok()?;
    Some(list.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from).collect())
}

fn walk(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" && entry.file_name() != ".git" {
                paths.extend(walk(root, &path)?);
            }
        } else {
            paths.push(path.strip_prefix(root)?.to_owned());
        }
    }
    Ok(paths)
}
