//! What people type. One file a command; the exit codes are in `exit`.

mod attempts;
mod audit;
mod bench;
mod chain;
mod completions;
mod config;
mod dev;
mod devchain;
mod error;
mod keys;
mod migrate;
mod serve;
mod server;
mod sim;
mod store;
mod submitter;
mod table;
mod tx;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

use crate::output::Output;

pub(crate) use error::{CliError, Exit};

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  failed: it could not be done now (network, disk, a server that is away); trying again may help
  2  usage: the command line is wrong
  3  refused: it was understood and the answer is no (a wrong config, a 4xx of the server, an intent
     that did not end CONFIRMED); trying again will not help

With --json, standard output is JSON and nothing else: one object a line, errors as {\"error\":{…}}.";

#[derive(Debug, Parser)]
#[command(name = "gapless", version, about = "A transaction manager for blockchains with account nonces.")]
#[command(after_help = AFTER_HELP, propagate_version = true, disable_help_subcommand = false, max_term_width = 100)]
struct Cli {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything here: a node, its ledger in a file, a dev chain, funded submitters
    Dev(dev::DevArgs),
    /// Run a node
    Serve(serve::ServeArgs),
    /// Send and look at transactions
    #[command(subcommand)]
    Tx(tx::TxCommand),
    /// Look at submitters, pause and resume them, lead them out of PROTECT
    #[command(subcommand)]
    Submitter(submitter::SubmitterCommand),
    /// Read the audit log: what operators and policies changed
    Audit(audit::AuditArgs),
    /// Look at the config
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Bring the store's schema up to date
    Migrate(migrate::MigrateArgs),
    /// Make, import and list keystore files
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Ask about chains
    #[command(subcommand)]
    Chain(chain::ChainCommand),
    /// Say what only an operator knows of the database: that it lost commits, that this was looked into
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Run the dev chain alone
    Devchain(devchain::DevchainArgs),
    /// Prove it: seeded worlds in which everything goes wrong, and whether every promise holds
    Sim(sim::SimArgs),
    /// Measure what it does on this machine: throughput, latencies, CPU and memory
    Bench(bench::BenchArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}

/// Where the config is.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The config file; without it, gapless.toml in the current folder if there is one
    #[arg(long, env = "GAPLESS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Reads the command line, runs the command, and tells how it went.
pub(crate) fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(asked) => {
            let _ = asked.print();
            let is_help = matches!(asked.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if is_help { Exit::Success } else { Exit::Usage }.into();
        }
    };
    let output = Output::new(cli.json);
    match cli.command.run(&output) {
        Ok(exit) => exit.into(),
        Err(CliError::Output(error)) if error.is_closed_pipe() => Exit::Success.into(),
        Err(error) => {
            output.error(&error.to_json(), &error);
            error.exit().into()
        }
    }
}

impl Command {
    fn run(self, output: &Output) -> Result<Exit, CliError> {
        match self {
            Command::Dev(args) => args.run(output),
            Command::Serve(args) => args.run(output),
            Command::Devchain(args) => args.run(output),
            Command::Tx(command) => command.run(output),
            Command::Submitter(command) => command.run(output),
            Command::Audit(args) => args.run(output),
            Command::Config(command) => command.run(output),
            Command::Migrate(args) => args.run(output),
            Command::Keys(command) => command.run(output),
            Command::Chain(command) => command.run(output),
            Command::Store(command) => command.run(output),
            Command::Sim(args) => args.run(output),
            Command::Bench(args) => args.run(output),
            Command::Completions(args) => args.run(output),
        }
    }
}

/// Runs what is async to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::Runtime)?;
    runtime.block_on(future)
}

pub(crate) fn block_on_one_thread<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    runtime.block_on(future)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    const DOCS: &str = include_str!("../../../../docs/cli.md");

    /// `gapless tx send` and all the others.
    fn commands(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        let path = format!("{path}{}", command.get_name());
        if !command.has_subcommands() {
            found.push(path);
            return;
        }
        command.get_subcommands().for_each(|command| commands(command, &format!("{path} "), found));
    }

    #[test]
    fn every_command_is_documented_and_every_documented_one_exists() {
        Cli::command().debug_assert();
        let mut found = Vec::new();
        commands(&Cli::command(), "", &mut found);
        let rows = DOCS.lines().filter_map(|line| line.strip_prefix("| `gapless ")?.split_once('`'));
        let mut documented: Vec<String> = rows.map(|(name, _)| format!("gapless {name}")).collect();
        found.sort();
        documented.sort();
        assert_eq!(found, documented);
    }
}
