//! A child process that does not outlive the test.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use serde_json::Value;

use super::{TestFolder, eventually};

/// A running `gapless` whose output is in a folder. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    child: Child,
    ended: Option<ExitStatus>,
    /// A shell that kills the process if the test itself is killed.
    guard: Option<(Child, ChildStdin)>,
    folder: TestFolder,
}

impl ChildProcess {
    pub(crate) fn spawn(mut command: Command, folder: TestFolder) -> Self {
        let file = |name| File::create(folder.path().join(name)).unwrap();
        command.process_group(0).stdin(Stdio::null()).stdout(file("stdout")).stderr(file("log"));
        let child = command.spawn().unwrap();
        let mut guard = Command::new("sh")
            .args(["-c", "read -r ended || kill -KILL \"$0\"", &child.id().to_string()])
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pipe = guard.stdin.take().unwrap();
        ChildProcess { child, ended: None, guard: Some((guard, pipe)), folder }
    }

    /// The JSON line that the process prints when it is ready.
    pub(crate) async fn ready(&mut self) -> Value {
        let ready = self.try_ready().await;
        ready.unwrap_or_else(|log| panic!("the process ended during its start: {log}"))
    }

    /// The ready line, or the log of a process that ended before it.
    pub(crate) async fn try_ready(&mut self) -> Result<Value, String> {
        eventually("a process prints its ready line", async || {
            if self.has_ended().is_some() {
                return Some(Err(self.log()));
            }
            let line = fs::read_to_string(self.folder.path().join("stdout")).unwrap_or_default();
            Some(Ok(serde_json::from_str(line.strip_suffix('\n')?).unwrap()))
        })
        .await
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal: `STOP`, `CONT`, `TERM` or `KILL`.
    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(format!("-{signal}")).arg(self.id().to_string()).status();
        assert!(status.unwrap().success());
    }

    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait().unwrap()
        {
            self.ended = Some(status);
            self.dismiss_guard();
        }
        self.ended
    }

    /// The whole log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn dismiss_guard(&mut self) {
        if let Some((mut guard, mut pipe)) = self.guard.take() {
            let _ = writeln!(pipe, "ended");
            drop(pipe);
            let _ = guard.wait();
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.dismiss_guard();
        }
    }
}
