//! Gapless, the binary: where the rooms are put together, and what people type.
//!
//! - `config`: everything that can be set.
//! - `cli`: the commands, one file each, and what their exit codes mean.
//! - `output`: the one room that prints.
//!
//! Architecture invariant: nothing is decided here about lanes, chains or stores. A command reads its arguments, asks a room,
//! and shows the answer.

mod cli;
mod compose;
mod config;
mod output;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
