//! `cargo xtask`: the commands of developers and CI machines, one file for each command.
//!
//! No other crate depends on this one, so code that another crate needs does not belong here.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks by printing")]

mod bench;
mod chaos;
mod dist;
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
    /// Run all checks: formatting, lints, tidy and every test, with a private PostgreSQL server
    Test {
        /// Arguments for `cargo test`
        #[arg(last = true)]
        cargo_test: Vec<String>,
    },
    /// Run a command with a private PostgreSQL server, whose URL is in GAPLESS_TEST_POSTGRES_URL
    WithPostgres {
        /// Sync every commit to disk; slower
        #[arg(long)]
        durable: bool,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Check the project's rules: dependencies, sizes, width, comments, test names, references, proofs, links
    Tidy {
        /// Write docs/guarantees.md instead of reporting that it is out of date
        #[arg(long)]
        fix: bool,
    },
    /// Run three nodes under faults: kill -9, SIGSTOP, network cuts, database crashes, reorgs
    Chaos(chaos::ChaosArguments),
    /// Build the release binary, and put its debug info into a file of its own: target/dist
    Dist(dist::DistArguments),
    /// Run benchmarks, with a durable private PostgreSQL server
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
        Command::Dist(arguments) => dist::run(&arguments),
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

/// The root folder of the workspace, whatever the current folder is.
fn workspace_root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}
