//! The supervisor process between a test and its server. The server never outlives the test process.
//!
//! A test process can be killed with SIGKILL and cannot clean up then. So the server is the child of a few lines of
//! shell that read orders from a pipe. Only the test process holds the other end. When the test process ends, for
//! whatever reason, the kernel closes the pipe; the shell reads the end of file, stops the server and removes the
//! folder.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Error;
use crate::account::Account;

/// Arguments: the folder, the signal that ends the server, then the server's command line. The order `start` may
/// carry a port, which is then added to the command line.
///
/// - The shell ignores signals to the terminal's process group (Ctrl-C): it ends when the pipe ends. It ignores
///   SIGPIPE, because an answer to a dead parent must not keep it from cleaning up.
/// - The server's pid is written by the process that becomes the server, and `start` waits for it, so that `stop`
///   always knows the process to stop.
const SCRIPT: &str = r#"
trap '' HUP INT TERM PIPE
folder=$1
signal=$2
shift 2
watcher=
stop() {
    if [ -n "$watcher" ]; then
        # A server that a test has stopped (SIGSTOP) gets the signal only when it continues.
        pid=$(cat "$folder/server.pid")
        [ -e "$folder/exited" ] || { kill -"$signal" "$pid"; kill -CONT "$pid"; } 2>/dev/null
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
            sh -c 'echo $$ >"$0" && exec "$@"' "$folder/server.pid" "$@" ${port:+--port "$port"} \
                </dev/null >>"$folder/server.log" 2>&1
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

/// The signal that ends a server like a crash: without a flush and without goodbyes to clients.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Crash {
    /// PostgreSQL's immediate shutdown. Unlike SIGKILL it also ends the server's child processes.
    Quit,
    /// SIGKILL, for servers that are one process.
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
    /// Starts the shell with the command's folder and environment. From now on the folder is removed when this process
    /// ends. The server is not started yet.
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

    /// Starts the server, and stops the running one first. The server is not ready yet when this returns.
    /// A port is passed as the last argument, `--port PORT`.
    pub(crate) fn start_server(&mut self, port: Option<u16>) -> Result<(), Error> {
        match port {
            Some(port) => self.order("start", &port.to_string()),
            None => self.order("start", ""),
        }
    }

    /// Stops the server as if it had crashed. None of its processes is left when this returns.
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
        // Closing the pipe tells the shell to end.
        self.orders = None;
        let _ = self.shell.wait();
    }
}
