//! A process of ours that does not outlive us.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use serde_json::Value;

use super::{Folder, eventually};

/// A running `gapless`, with what it prints in a folder. Dropping it ends it as a crash would.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    ended: Option<ExitStatus>,
    /// Ends the process should we be ended ourselves before we could.
    guard: Option<(Child, ChildStdin)>,
    folder: Folder,
}

impl Process {
    pub(crate) fn spawn(mut command: Command, folder: Folder) -> Self {
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
        Process { child, ended: None, guard: Some((guard, pipe)), folder }
    }

    /// The line of JSON in which it says that it is there.
    pub(crate) async fn ready(&mut self) -> Value {
        let ready = self.try_ready().await;
        ready.unwrap_or_else(|log| panic!("it ended while it started: {log}"))
    }

    /// The same, or its log if it ended before that.
    pub(crate) async fn try_ready(&mut self) -> Result<Value, String> {
        eventually("a process says where it listens", async || {
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

    /// `STOP`, `CONT`, `TERM`, `KILL`.
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

    /// Everything it has logged.
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

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.dismiss_guard();
        }
    }
}
