//! `cargo xtask`: what a developer or a CI machine runs. One file a command.
//!
//! What must not be in here: anything that another crate needs. Nothing depends on this one.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks by printing")]

mod bench;
mod chaos;
mod process;
mod test;
mod tidy;
mod with_postgres;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks, tests and measures this workspace")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// All that has to pass: formatting, lints, tidy, and every test, with a private PostgreSQL
    Test {
        /// Arguments for `cargo test`
        #[arg(last = true)]
        cargo_test: Vec<String>,
    },
    /// Run a command with a private PostgreSQL, whose URL is in GAPLESS_TEST_POSTGRES_URL
    WithPostgres {
        /// Commits survive a power cut; slower
        #[arg(long)]
        durable: bool,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Check the rules that no compiler checks: arrows, sizes, proofs, markers, links
    Tidy {
        /// Write what is generated (docs/guarantees.md) instead of complaining about it
        #[arg(long)]
        fix: bool,
    },
    /// Three nodes, and everything that can go wrong: kill -9, SIGSTOP, cut networks, database crashes, reorganisations
    Chaos(chaos::ChaosArguments),
    /// Measure, with a durable private PostgreSQL
    Bench {
        #[command(subcommand)]
        what: bench::What,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Test { cargo_test } => test::run(&cargo_test),
        Command::WithPostgres { durable, command } => with_postgres::run(durable, &command),
        Command::Tidy { fix } => tidy::run(fix),
        Command::Chaos(arguments) => chaos::run(&arguments),
        Command::Bench { what } => bench::run(&what),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace, wherever `cargo xtask` was called.
fn workspace_root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}
