//! `cargo xtask tidy`: the rules of the project that no compiler checks, one file for each rule. A rule returns its
//! findings and prints nothing, so that tests can check it.

mod arrows;
mod comments;
mod files;
mod guarantees;
mod links;
mod markers;
mod neutral_core;
mod port_verbs;
mod references;
mod sizes;
mod test_names;
mod width;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::workspace_root;

/// One violation of a rule, with its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: PathBuf,
    line: Option<usize>,
    text: String,
}

impl Finding {
    fn at(path: impl Into<PathBuf>, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.into(), line: Some(line), text: text.into() }
    }

    fn of(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { path: path.into(), line: None, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        write!(formatter, ": {}", self.text)
    }
}

pub(crate) fn run(fix: bool) -> Result<ExitCode> {
    let findings = check(fix)?;
    if findings == 0 {
        println!("tidy: no findings");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("tidy: {findings} findings");
    Ok(ExitCode::FAILURE)
}

/// Prints all findings and returns their number.
pub(crate) fn check(fix: bool) -> Result<usize> {
    let root = workspace_root();
    let sources = files::read_all(&root)?;
    let mut findings = arrows::check_workspace()?;
    findings.extend(sizes::check(&sources));
    findings.extend(guarantees::check(&root, &sources, fix)?);
    findings.extend(markers::check(&sources));
    findings.extend(links::check(&root, &sources));
    findings.extend(width::check(&sources));
    findings.extend(comments::check(&sources));
    findings.extend(test_names::check(&sources));
    findings.extend(references::check(&sources));
    findings.extend(port_verbs::check(&sources));
    findings.extend(neutral_core::check(&sources));
    for finding in &findings {
        eprintln!("{finding}");
    }
    Ok(findings.len())
}
