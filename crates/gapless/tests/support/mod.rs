//! Runs the real binary, in a folder of its own and without the environment of whoever runs the tests.
#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test fail like the test itself")]
#![allow(dead_code, reason = "not every test file asks for all of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

pub(crate) const DONE: i32 = 0;
pub(crate) const FAILED: i32 = 1;
pub(crate) const USAGE: i32 = 2;
pub(crate) const REFUSED: i32 = 3;

/// The second of the well-known accounts.
pub(crate) const SOMEBODY: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
/// Nobody's: its balance is what was sent to it.
pub(crate) const PURSE: &str = "0x00000000000000000000000000000000000a11ce";

/// A folder that is gone when this is.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("gapless-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// The one JSON value that it said.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// One JSON value for each line.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub(crate) fn command(folder: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gapless"));
    command.args(arguments).current_dir(folder.path());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GAPLESS")) {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied());
    command
}

pub(crate) fn run_with(folder: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> Said {
    command(folder, arguments, environment).stdin(Stdio::null()).output().unwrap().into()
}

pub(crate) fn run(folder: &Folder, arguments: &[&str]) -> Said {
    run_with(folder, arguments, &[])
}

pub(crate) fn run_with_input(folder: &Folder, arguments: &[&str], input: &str) -> Said {
    let mut child = command(folder, arguments, &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

/// A command that goes on until it is stopped; ended when dropped.
pub(crate) struct Running {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    /// The line that says that it is ready.
    pub(crate) ready: Value,
}

impl Running {
    /// Waits for its ready line, which is what says that it is there. `Err` is all that it said instead.
    pub(crate) fn start(folder: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Self, Said> {
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
            Ok(ready) if ready.get("error").is_none() => Ok(Running { child, out, ready }),
            _ => {
                out.read_to_string(&mut line).unwrap();
                let output = child.wait_with_output().unwrap();
                Err(Said { out: line, ..Said::from(output) })
            }
        }
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.ready[key].as_str().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop, and waits until it has. Its log comes back with how it ended.
    pub(crate) fn stop(mut self) -> (ExitStatus, String) {
        self.ask_to_stop();
        self.wait()
    }

    /// Asks it to stop, and does not wait.
    pub(crate) fn ask_to_stop(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap(), log)
    }

    /// Everything that it printed after the ready line; ends when it has.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `gapless dev` with quick blocks, kept in the folder.
pub(crate) fn dev(folder: &Folder, environment: &[(&str, &str)]) -> Running {
    let arguments = ["dev", "--json", "--listen", "127.0.0.1:0", "--data-dir", "data", "--block-time", "100ms"];
    Running::start(folder, &arguments, environment).unwrap_or_else(|said| panic!("{said:#?}"))
}
