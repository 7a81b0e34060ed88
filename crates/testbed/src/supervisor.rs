//! The process between us and the server, which makes sure that the server does not outlive us.
//!
//! A test process can be killed with SIGKILL, and then nothing of ours runs any more. So the server is the child of a
//! few lines of shell that read orders from a pipe whose other end only we hold. When we are gone, however that came
//! about, the kernel closes the pipe; the shell reads the end of it, stops the server and removes the folder.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Error;
use crate::account::Account;

/// Arguments: the folder, the signal that ends the server, then the server's command line. The order `start` may
/// carry a port, which is then added to the command line.
///
/// - Signals to the terminal's process group (Ctrl-C) are not for the shell: it ends when the pipe ends. SIGPIPE is
///   ignored since an answer to a dead parent must not keep the shell from cleaning up.
/// - The server's pid is written by the process that becomes the server, and `start` waits for it, so that `stop`
///   always knows whom to stop.
const SCRIPT: &str = r#"
trap '' HUP INT TERM PIPE
folder=$1
signal=$2
shift 2
watcher=
stop() {
    if [ -n "$watcher" ]; then
        # A server that a test has stopped (SIGSTOP) hears of it only when it goes on.
        [ -e "$folder/exited" ] || { kill -"$signal" "$(cat "$folder/server.pid")"; kill -CONT "$(cat "$folder/server.pid")"; } 2>/dev/null
        wait "$watcher"
        watcher=
    fi
}
while read -r order port; do
    case $order in
    start)
        stop
        rm -f "$folder/server.pid" "$folder/exited"
        {
            sh -c 'echo $$ >"$0" && exec "$@"' "$folder/server.pid" "$@" ${port:+--port "$port"} </dev/null >>"$folder/server.log" 2>&1
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

/// The signal that ends a server like a crash: nothing is flushed, nothing is told to anybody.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Crash {
    /// PostgreSQL's immediate shutdown. It ends the server's other processes too, which SIGKILL would leave behind.
    Quit,
    /// For servers that are one process.
    Kill,
}

#[derive(Debug)]
pub(crate) struct Supervisor {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl Supervisor {
    /// Starts the shell, with the command's folder and environment. From here on the folder is removed when we end; the
    /// server is not yet started.
    pub(crate) fn spawn(account: Account, folder: &Path, crash: Crash, server: &Command) -> Result<Self, Error> {
        let signal = match crash {
            Crash::Quit => "QUIT",
            Crash::Kill => "KILL",
        };
        let mut shell = account.command("sh");
        if let Some(home) = server.get_current_dir() {
            shell.current_dir(home);
        }
        shell.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut shell = shell
            .args(["-c", SCRIPT, "gapless-server"])
            .arg(folder)
            .arg(signal)
            .arg(server.get_program())
            .args(server.get_args())
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
    /// With a port, the server gets `--port` and it as its last arguments.
    pub(crate) fn start_server(&mut self, port: Option<u16>) -> Result<(), Error> {
        match port {
            Some(port) => self.order("start", &port.to_string()),
            None => self.order("start", ""),
        }
    }

    /// Stops the server as if it had crashed. When this returns none of its processes is left.
    pub(crate) fn stop_server(&mut self) -> Result<(), Error> {
        self.order("stop", "")
    }

    /// The server's process id, while it runs.
    pub(crate) fn server_pid(&self) -> Option<u32> {
        if self.folder.join("exited").exists() {
            return None;
        }
        std::fs::read_to_string(self.folder.join("server.pid")).ok()?.trim().parse().ok()
    }

    fn order(&mut self, order: &str, argument: &str) -> Result<(), Error> {
        let orders = self.orders.as_mut().ok_or(Error::SupervisorGone)?;
        writeln!(orders, "{order} {argument}").map_err(|_| Error::SupervisorGone)?;
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
