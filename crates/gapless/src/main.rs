//! The `gapless` binary: the composition root and the command line.
//!
//! - `config`: reads and checks the configuration.
//! - `compose`: builds a node from the library crates.
//! - `cli`: the commands, one file each, and their exit codes.
//! - `output`: the only module that prints.
//!
//! Architecture invariant: this crate decides nothing about lanes, chains or stores. A command reads its arguments,
//! calls a library crate or a server, and prints the result.

mod cli;
mod compose;
mod config;
mod output;

use std::process::ExitCode;

/// The glibc allocator makes each transaction dearer the more transactions are open (ADR 10).
#[cfg(all(feature = "jemalloc", not(target_env = "msvc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cli::run()
}
