//! Runs the real binary in its own folder, without the GAPLESS variables of the environment.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]
#![allow(dead_code, reason = "not every test file uses all helpers")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const FAILURE: i32 = 1;
pub(crate) const USAGE: i32 = 2;
pub(crate) const REFUSED: i32 = 3;

/// The second well-known account.
pub(crate) const RECIPIENT: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
/// An account without a key, whose balance is the sum of all transfers to it.
pub(crate) const EMPTY_ACCOUNT: &str = "0x00000000000000000000000000000000000a11ce";

/// A temporary folder, which is removed when the value is dropped.
pub(crate) struct TempFolder(PathBuf);

impl TempFolder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("gapless-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        TempFolder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The output and the exit code of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    /// The only JSON value on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// The JSON values on standard output, one per line.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub(crate) fn command(folder: &TempFolder, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gapless"));
    command.args(arguments).current_dir(folder.path());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GAPLESS")) {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied());
    command
}

pub(crate) fn run_with(folder: &TempFolder, arguments: &[&str], environment: &[(&str, &str)]) -> CommandOutput {
    command(folder, arguments, environment).stdin(Stdio::null()).output().unwrap().into()
}

pub(crate) fn run(folder: &TempFolder, arguments: &[&str]) -> CommandOutput {
    run_with(folder, arguments, &[])
}

pub(crate) fn run_with_input(folder: &TempFolder, arguments: &[&str], input: &str) -> CommandOutput {
    let mut child = command(folder, arguments, &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

/// A command that runs until it is stopped. Dropping it kills the process.
pub(crate) struct RunningCommand {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    /// The JSON line that the command printed when it was ready.
    pub(crate) ready: Value,
}

impl RunningCommand {
    /// Starts a command and waits for its ready line. `Err` is the output of a command that ended instead.
    pub(crate) fn start(
        folder: &TempFolder,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self, CommandOutput> {
        let mut child = command(folder, arguments, environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        match serde_json::from_str::<Value>(&line) {
            Ok(ready) if ready.get("error").is_none() => Ok(RunningCommand { child, out, ready }),
            _ => {
                out.read_to_string(&mut line).unwrap();
                let output = child.wait_with_output().unwrap();
                Err(CommandOutput { out: line, ..CommandOutput::from(output) })
            }
        }
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.ready[key].as_str().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process, as a power cut does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM, waits for the end, and returns the exit status and the log.
    pub(crate) fn stop(mut self) -> (ExitStatus, String) {
        self.send_sigterm();
        self.wait()
    }

    /// Sends SIGTERM without waiting for the end.
    pub(crate) fn send_sigterm(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// Waits for the end, and returns the exit status and the log.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap(), log)
    }

    /// The output after the ready line. Waits for the end of the process.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `gapless dev` with fast blocks and its data in the folder.
pub(crate) fn dev(folder: &TempFolder, environment: &[(&str, &str)]) -> RunningCommand {
    let arguments = ["dev", "--json", "--listen", "127.0.0.1:0", "--data-dir", "data", "--block-time", "100ms"];
    RunningCommand::start(folder, &arguments, environment).unwrap_or_else(|output| panic!("{output:#?}"))
}
