//! The only module that prints. Results go to standard output, as text or as JSON. Notes and progress go to standard
//! error. With `--json`, standard output is JSON and nothing else, errors included.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
}

/// Standard output is closed, or its device is full.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("cannot write to standard output: {0}")]
    Write(#[from] io::Error),
    #[error("cannot format the result as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl OutputError {
    /// True if the reader closed the pipe, as in `gapless tx list | head -1`. A closed pipe is not a failure.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, OutputError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Output { json }
    }

    /// Prints one result: a line of JSON, or text.
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

    /// Prints a note on standard error. With `--json` notes are left out.
    pub(crate) fn note(&self, text: impl fmt::Display) {
        if !self.json {
            // A note that cannot be written does not make the command fail.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Prints an error: as text on standard error, or with `--json` on standard output in place of the result.
    pub(crate) fn error(&self, value: &impl Serialize, text: impl fmt::Display) {
        let json = if self.json { serde_json::to_string(value).ok() } else { None };
        let _ = match json {
            Some(json) => writeln!(io::stdout().lock(), "{json}"),
            None => writeln!(io::stderr().lock(), "error: {text}"),
        };
    }

    /// The progress of a long command: on a terminal each line replaces the one before, elsewhere lines follow each
    /// other.
    pub(crate) fn progress(&self) -> ProgressLine {
        ProgressLine { shown: !self.json, terminal: io::stderr().is_terminal(), open: false }
    }
}

/// Prints the progress of a long command on standard error.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    shown: bool,
    terminal: bool,
    /// The terminal shows a line that has no line break yet.
    open: bool,
}

impl ProgressLine {
    pub(crate) fn say(&mut self, text: impl fmt::Display) {
        if !self.shown {
            return;
        }
        let mut out = io::stderr().lock();
        let _ = if self.terminal {
            self.open = true;
            // Return to the start of the line and clear it.
            write!(out, "\r\x1b[2K{text}").and_then(|()| out.flush())
        } else {
            writeln!(out, "{text}")
        };
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.open {
            let _ = writeln!(io::stderr().lock());
        }
    }
}
