//! Schemathesis, an API fuzzer that reads an OpenAPI document.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::command::run;
use crate::kept::kept;

const VERSION: &str = "4.32.5";

/// The fuzzer, at one exact version, as a Python package in a folder of its own.
#[derive(Debug)]
pub struct Schemathesis {
    folder: PathBuf,
}

impl Schemathesis {
    /// Fetches the package with pip unless it is cached. Needs Python 3 with pip.
    pub fn fetch() -> Result<Self, Error> {
        let folder = kept("schemathesis", VERSION, Path::new("schemathesis"), |folder| {
            run(Command::new("python3")
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-warn-script-location"])
                .arg("--target")
                .arg(folder)
                .arg(format!("schemathesis=={VERSION}")))
        })?;
        Ok(Schemathesis { folder })
    }

    /// The command `schemathesis`, without arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new("python3");
        command.args(["-m", "schemathesis.cli"]).env("PYTHONPATH", &self.folder);
        command
    }
}
