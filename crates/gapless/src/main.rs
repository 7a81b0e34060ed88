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

/// With glibc's, a transaction costs more the more others are open (ADR 10).
#[cfg(all(feature = "jemalloc", not(target_env = "msvc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cli::run()
}
