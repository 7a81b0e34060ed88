//! The one room that prints. Results go to standard output, as text or as JSON; whatever accompanies them goes to standard
//! error. With `--json` standard output is JSON and nothing else, errors included.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
}

/// Nobody listens any more, or the disk is full.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("the output cannot be written: {0}")]
    Write(#[from] io::Error),
    #[error("the result cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl OutputError {
    /// Whoever read the output has gone: `gapless tx list | head -1`. That is their good right, and no failure.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, OutputError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Output { json }
    }

    /// One result: a line of JSON, or text for people.
    pub(crate) fn result(&self, value: &impl Serialize, text: impl fmt::Display) -> Result<(), OutputError> {
        let mut shown = if self.json { serde_json::to_string(value)? } else { text.to_string() };
        if !shown.is_empty() && !shown.ends_with('\n') {
            shown.push('\n');
        }
        let mut out = io::stdout().lock();
        out.write_all(shown.as_bytes())?;
        out.flush()?;
        Ok(())
    }

    /// Something to know beside the result, for people only.
    pub(crate) fn note(&self, text: impl fmt::Display) {
        if !self.json {
            // What accompanies a result is not worth failing for.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// What went wrong: to people on standard error, to machines where they look for the result.
    pub(crate) fn error(&self, value: &impl Serialize, text: impl fmt::Display) {
        let json = if self.json { serde_json::to_string(value).ok() } else { None };
        let _ = match json {
            Some(json) => writeln!(io::stdout().lock(), "{json}"),
            None => writeln!(io::stderr().lock(), "error: {text}"),
        };
    }

    /// A line that the next one replaces, where there is somebody to see it; plain lines elsewhere.
    pub(crate) fn progress(&self) -> Progress {
        Progress { shown: !self.json, terminal: io::stderr().is_terminal(), open: false }
    }
}

/// How something goes on.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    terminal: bool,
    /// A line that is not ended yet.
    open: bool,
}

impl Progress {
    pub(crate) fn say(&mut self, text: impl fmt::Display) {
        if !self.shown {
            return;
        }
        let mut out = io::stderr().lock();
        let _ = if self.terminal {
            self.open = true;
            // Back to the beginning of the line, and clear it.
            write!(out, "\r\x1b[2K{text}").and_then(|()| out.flush())
        } else {
            writeln!(out, "{text}")
        };
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.open {
            let _ = writeln!(io::stderr().lock());
        }
    }
}
