//! One private chain node of any program: a process in a folder of its own, on a loopback port that the system chose.

use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Error;
use crate::account::Account;
use crate::clock::wait_for;
use crate::folder::Folder;
use crate::supervisor::{Crash, Supervisor};

const READY_LIMIT: Duration = Duration::from_secs(60);

/// The rule by which a node makes blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mining {
    /// One block at once for every transaction that can be included.
    #[default]
    PerTransaction,
    /// One block per interval, with or without transactions.
    Every(Duration),
    /// Blocks only on request (`evm_mine`).
    OnDemand,
}

#[derive(Debug)]
pub(crate) struct Node {
    // Field order: the process ends before its folder is removed.
    supervisor: Mutex<Supervisor>,
    folder: Folder,
    name: &'static str,
    port: u16,
}

impl Node {
    /// Creates the node's folder, in which its command can be assembled.
    pub(crate) fn folder(name: &'static str) -> Result<Folder, Error> {
        Folder::create(name, Account::Own)
    }

    /// Starts the node in its folder and waits until it listens. The command must take a `--port`, and the node must
    /// write `127.0.0.1:PORT` to its output when it listens.
    ///
    /// The folder is also the node's home, so that the machine's configuration does not affect tests, and tests leave
    /// no files on the machine.
    pub(crate) fn start(name: &'static str, folder: Folder, command: &mut Command) -> Result<Self, Error> {
        command.current_dir(folder.path()).env("HOME", folder.path());
        let supervisor = Supervisor::spawn(Account::Own, folder.path(), Crash::Kill, command)?;
        let mut node = Self { supervisor: Mutex::new(supervisor), folder, name, port: 0 };
        node.port = node.launch(0)?;
        Ok(node)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.supervisor().server_pid()
    }

    pub(crate) fn stop(&self) -> Result<(), Error> {
        self.supervisor().stop_server()
    }

    pub(crate) fn start_again(&self) -> Result<(), Error> {
        self.launch(self.port).map(|_| ())
    }

    fn supervisor(&self) -> MutexGuard<'_, Supervisor> {
        self.supervisor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(&self, port: u16) -> Result<u16, Error> {
        let mut supervisor = self.supervisor();
        supervisor.stop_server()?;
        // The log continues that of the run before, which also names a port.
        let old = self.folder.log().len();
        supervisor.start_server(Some(port))?;
        let answer = wait_for(READY_LIMIT, || {
            if supervisor.server_pid().is_none() {
                return Some(Err(Error::StoppedWhileStarting { server: self.name, log: self.folder.log_tail() }));
            }
            let port = announced_port(self.folder.log().get(old..)?)?;
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(Ok(port))
        });
        answer.unwrap_or_else(|| {
            let seconds = READY_LIMIT.as_secs();
            Err(Error::NotReady { server: self.name, seconds, log: self.folder.log_tail() })
        })
    }
}

/// The port that the node announces. A number at the very end of the log may be incomplete.
fn announced_port(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once("127.0.0.1:")?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
    rest.get(..end)?.parse().ok().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_port_is_read_once_it_is_complete() {
        assert_eq!(announced_port("0\n\nListening on 127.0.0.1:45789\n"), Some(45789));
        assert_eq!(announced_port("server at http://127.0.0.1:41519/\n\nAccounts\n"), Some(41519));
        assert_eq!(announced_port("Listening on 127.0.0.1:4578"), None);
        assert_eq!(announced_port("Listening on 127.0.0.1:0\n"), None);
    }
}
