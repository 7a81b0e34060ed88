//! Runs other programs to their end.

use std::process::{Command, Stdio};

use crate::Error;

/// Runs a command to its end without stdin. The error of a failed command contains its output.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(format!("running {name}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(Error::Command {
        command: format!("{command:?}"),
        status: output.status.to_string(),
        output: String::from_utf8_lossy(&text).into_owned(),
    })
}
