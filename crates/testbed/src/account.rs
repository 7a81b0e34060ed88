//! The account that runs PostgreSQL. PostgreSQL refuses to run as root, the usual account of a container; then an
//! unprivileged account runs it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{chown, lchown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Error;

/// The account that runs the server's processes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Account {
    /// The test does not run as root: the server runs as the same account.
    Own,
    /// The test runs as root: the server runs as this account.
    Other { uid: u32, gid: u32 },
}

impl Account {
    pub(crate) fn choose() -> Result<Self, Error> {
        if !we_are_root()? {
            return Ok(Self::Own);
        }
        let passwd = fs::read_to_string("/etc/passwd").map_err(Error::io("reading /etc/passwd"))?;
        ["postgres", "nobody"].into_iter().find_map(|name| look_up(&passwd, name)).ok_or(Error::NoUnprivilegedAccount)
    }

    /// A command that runs as this account, in a folder that it can enter, without stdin.
    pub(crate) fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").stdin(Stdio::null());
        if let Self::Other { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Makes the account the owner of a file or folder, without the folder's content.
    pub(crate) fn give(self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Own => Ok(()),
            Self::Other { uid, gid } => chown(path, Some(uid), Some(gid))
                .map_err(Error::io(format!("handing {} to the server's account", path.display()))),
        }
    }

    /// Like [`Account::give`], for a symbolic link itself and not its target.
    pub(crate) fn give_link(self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Own => Ok(()),
            Self::Other { uid, gid } => lchown(path, Some(uid), Some(gid))
                .map_err(Error::io(format!("handing {} to the server's account", path.display()))),
        }
    }
}

/// The standard library has no `geteuid`; the program `id` is everywhere.
pub(crate) fn we_are_root() -> Result<bool, Error> {
    let output = Command::new("id").arg("-u").output().map_err(Error::io("running `id -u`"))?;
    Ok(output.stdout.trim_ascii() == b"0")
}

fn look_up(passwd: &str, name: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Account::Other { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwd_lookup_matches_the_exact_account_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres2:x:7:8::/:/bin/sh\npostgres:x:101:104:a,b:/:/bin/sh\n";
        assert!(matches!(look_up(passwd, "postgres"), Some(Account::Other { uid: 101, gid: 104 })));
        assert!(look_up(passwd, "nobody").is_none());
    }
}
