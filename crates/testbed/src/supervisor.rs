//! The process between us and the server, which makes sure that the server does not outlive us.
//!
//! A test process can be killed with SIGKILL, and then nothing of ours runs any more. So the server is the child of a
//! few lines of shell that read orders from a pipe whose other end only we hold. When we are gone, however that came
//! about, the kernel closes the pipe; the shell reads the end of it, stops the server and removes the folder.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::Error;
use crate::account::Account;

/// Arguments: the folder, then the server's command line.
///
/// - Signals to the terminal's process group (Ctrl-C) are not for the shell: it ends when the pipe ends. SIGPIPE is
///   ignored since an answer to a dead parent must not keep the shell from cleaning up.
/// - The server's pid is written by the process that becomes the server, and `start` waits for it, so that `stop`
///   always knows whom to stop.
/// - SIGQUIT is PostgreSQL's immediate shutdown, the same as a crash: nothing is flushed, recovery follows.
const SCRIPT: &str = r#"
trap '' HUP INT TERM PIPE
folder=$1
shift
watcher=
stop() {
    if [ -n "$watcher" ]; then
        # A server that a test has stopped (SIGSTOP) hears of it only when it goes on.
        [ -e "$folder/exited" ] || { kill -QUIT "$(cat "$folder/server.pid")"; kill -CONT "$(cat "$folder/server.pid")"; } 2>/dev/null
        wait "$watcher"
        watcher=
    fi
}
while read -r order; do
    case $order in
    start)
        stop
        rm -f "$folder/server.pid" "$folder/exited"
        {
            sh -c 'echo $$ >"$0" && exec "$@"' "$folder/server.pid" "$@" </dev/null >>"$folder/server.log" 2>&1
            echo $? >"$folder/exited"
        } >/dev/null 2>&1 &
        watcher=$!
        until [ -s "$folder/server.pid" ] || [ -e "$folder/exited" ]; do sleep 0.01; done
        ;;
    stop) stop ;;
    esac
    echo "$order"
done
stop
rm -rf "$folder"
"#;

#[derive(Debug)]
pub(crate) struct Supervisor {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl Supervisor {
    /// Starts the shell. From here on the folder is removed when we end; the server is not yet started.
    pub(crate) fn spawn(account: Account, folder: &Path, postgres: &Path, data_dir: &Path) -> Result<Self, Error> {
        let mut shell = account
            .command("sh")
            .args(["-c", SCRIPT, "gapless-postgres"])
            .arg(folder)
            .arg(postgres)
            .arg("-D")
            .arg(data_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(Error::io("starting sh"))?;
        let orders = shell.stdin.take();
        let answers = BufReader::new(shell.stdout.take().ok_or(Error::SupervisorGone)?);
        Ok(Self { shell, orders, answers, folder: folder.to_owned() })
    }

    /// Starts the server (and stops the one that runs, if any). It is not ready yet when this returns.
    pub(crate) fn start_server(&mut self) -> Result<(), Error> {
        self.order("start")
    }

    /// Stops the server as if it had crashed. When this returns none of its processes is left.
    pub(crate) fn stop_server(&mut self) -> Result<(), Error> {
        self.order("stop")
    }

    /// The server's process id, while it runs.
    pub(crate) fn server_pid(&self) -> Option<u32> {
        if self.folder.join("exited").exists() {
            return None;
        }
        std::fs::read_to_string(self.folder.join("server.pid")).ok()?.trim().parse().ok()
    }

    fn order(&mut self, order: &str) -> Result<(), Error> {
        let orders = self.orders.as_mut().ok_or(Error::SupervisorGone)?;
        writeln!(orders, "{order}").map_err(|_| Error::SupervisorGone)?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer) {
            Ok(_) if answer.trim() == order => Ok(()),
            _ => Err(Error::SupervisorGone),
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Closing the pipe is the order to end.
        self.orders = None;
        let _ = self.shell.wait();
    }
}
