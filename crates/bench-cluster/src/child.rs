//! A measured process. Its output goes to files, and it ends with this process.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::LoadError;

/// A node with ten thousand keys takes some seconds to start.
const READY_SECONDS: u64 = 120;
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
const LOG_LINES: usize = 25;

#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    child: process::Child,
    /// The child ends when this pipe is closed, also when this process is killed.
    guard: Option<(process::Child, ChildStdin)>,
    folder: PathBuf,
}

impl Child {
    /// Starts the child in a folder of its own, with the files `stdout` and `log`.
    pub(crate) fn start(name: &str, command: &mut Command, folder: &Path) -> Result<Self, LoadError> {
        let create = |file: &str| {
            let path = folder.join(file);
            File::create(&path).map_err(LoadError::file(path))
        };
        let failed = |source| LoadError::Start { what: name.to_owned(), source };
        let command = command.current_dir(folder).stdin(Stdio::null()).stdout(create("stdout")?).stderr(create("log")?);
        // Ctrl-C goes to this process only, which then ends its children.
        let child = command.process_group(0).spawn().map_err(failed)?;
        let mut child = Child { name: name.to_owned(), child, guard: None, folder: folder.to_owned() };
        let mut guard = Command::new("sh")
            .args(["-c", "read -r ended || kill -KILL \"$0\"", &child.pid().to_string()])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        child.guard = guard.stdin.take().map(|pipe| (guard, pipe));
        Ok(child)
    }

    /// Waits for the line of JSON that announces readiness.
    pub(crate) async fn ready(&mut self) -> Result<Value, LoadError> {
        let began = Instant::now();
        loop {
            self.check()?;
            let said = fs::read_to_string(self.folder.join("stdout")).unwrap_or_default();
            if let Some(line) = said.strip_suffix('\n') {
                let unreadable = |_| LoadError::Unreadable { what: self.name.clone(), text: line.to_owned() };
                return serde_json::from_str(line).map_err(unreadable);
            }
            if began.elapsed().as_secs() >= READY_SECONDS {
                let (what, log) = (self.name.clone(), self.log());
                return Err(LoadError::NotReady { what, seconds: READY_SECONDS, log });
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Fails if the child has ended.
    pub(crate) fn check(&mut self) -> Result<(), LoadError> {
        match self.child.try_wait() {
            Ok(Some(_)) => Err(LoadError::Ended { what: self.name.clone(), log: self.log() }),
            _ => Ok(()),
        }
    }

    /// Waits until the child ends by itself.
    pub(crate) async fn ended(&mut self) -> Result<(), LoadError> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(_)) => return Err(LoadError::Ended { what: self.name.clone(), log: self.log() }),
                _ => tokio::time::sleep(LOOK_INTERVAL).await,
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The end of the child's log.
    pub(crate) fn log(&self) -> String {
        let read = |file| fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        let lines = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n")
        };
        // A command that fails during its start reports the reason as its result.
        let said = read("stdout");
        let failed = if said.starts_with("{\"error\"") { said.as_str() } else { "" };
        lines(&(read("log") + failed))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The child may have ended already; its ledger is discarded in any case.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some((mut guard, mut pipe)) = self.guard.take() {
            let _ = writeln!(pipe, "ended");
            drop(pipe);
            let _ = guard.wait();
        }
    }
}
