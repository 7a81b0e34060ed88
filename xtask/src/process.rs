//! Helpers to run other programs.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, Result, ensure};
use gapless_testbed::{Options, Postgres, SHARED_URL_ENV};

use crate::workspace_root;

/// The cargo that runs this tool, with the root of the workspace as its folder.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace_root());
    // The outer cargo sets variables about this package. Some build scripts depend on them and would run again,
    // and with them everything above, each time that cargo is called directly or through xtask.
    for (name, _) in env::vars_os().filter(|(name, _)| is_about_this_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

fn is_about_this_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Runs a command to its end and fails when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    ensure!(status.success(), "{} ended with {status}", shown(command));
    Ok(())
}

pub(crate) fn status(command: &mut Command) -> Result<ExitStatus> {
    command.status().with_context(|| format!("cannot run {}", shown(command)))
}

/// The exit code of a command; a command that was ended by a signal counts as failed.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

pub(crate) fn start_postgres(options: Options) -> Result<Postgres> {
    Postgres::start(options).context("cannot start a private PostgreSQL")
}

/// Points a command's tests to the server.
pub(crate) fn with_server<'a>(command: &'a mut Command, server: &Postgres) -> &'a mut Command {
    command.env(SHARED_URL_ENV, server.base_url())
}

/// The command as one would type it: the program by its name, not by its path.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    format!("`{}`", words.join(" "))
}
