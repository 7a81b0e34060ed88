//! `cargo xtask with-postgres -- COMMAND`: runs one command, such as a single test or
//! psql, with a private PostgreSQL server.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use gapless_testbed::Options;

use crate::process::{exit_code, start_postgres, status, with_server};

pub(crate) fn run(durable: bool, command: &[String]) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context("no command given")?;
    let server = start_postgres(Options { durable, ..Options::default() })?;
    let mut command = Command::new(program);
    let status = status(with_server(command.args(arguments), &server))?;
    Ok(exit_code(status))
}
