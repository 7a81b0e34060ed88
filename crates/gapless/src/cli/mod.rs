//! The command line. One file per command; the exit codes are in `error`.

mod attempts;
mod audit;
mod chain;
mod completions;
mod config;
mod error;
mod keys;
mod migrate;
mod serve;
mod server;
mod store;
mod submitter;
mod table;
#[cfg(feature = "tools")]
mod tools;
mod tx;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

use crate::output::Output;

pub(crate) use error::{CliError, Exit};

const AFTER_HELP: &str = "\
Exit codes:
  0  success
  1  failure: the command could not be completed now (network, disk, server not reachable, timeout);
     retrying may help
  2  usage error: the command line is wrong
  3  refused: the request was understood and rejected (invalid config, 4xx answer of the server,
     a transaction that ended in another state than CONFIRMED); retrying will not help

With --json, standard output holds only JSON: one object per line, errors as {\"error\":{…}}.";

/// The part of the help that only the lean build prints.
#[cfg(feature = "tools")]
const LEAN_HELP: &str = "";
#[cfg(not(feature = "tools"))]
const LEAN_HELP: &str = "\n
This is the lean build, for servers. The commands dev, devchain, sim and bench need the feature `tools`.";

#[derive(Debug, Parser)]
#[command(name = "gapless", version, about = "A transaction manager for blockchains with account nonces.")]
#[command(after_help = format!("{AFTER_HELP}{LEAN_HELP}"), propagate_version = true)]
#[command(disable_help_subcommand = false, max_term_width = 100)]
struct Cli {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run a node with the settings of the config
    Serve(serve::ServeArgs),
    /// Send, show, cancel and replace transactions
    #[command(subcommand)]
    Tx(tx::TxCommand),
    /// Show, pause and resume submitters; lead a lane out of PROTECT, where it waits for an operator
    #[command(subcommand)]
    Submitter(submitter::SubmitterCommand),
    /// Show the audit log: the changes that operators and policies made
    Audit(audit::AuditArgs),
    /// Check the config, or print the default one
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Migrate the database schema to the version of this program
    Migrate(migrate::MigrateArgs),
    /// Create, import and list keystore files
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Show chains and their endpoints, accept a changed chain, explain error texts of endpoints
    #[command(subcommand)]
    Chain(chain::ChainCommand),
    /// Declare that the database lost commits, or that every loss is reconciled
    #[command(subcommand)]
    Store(store::StoreCommand),
    #[cfg(feature = "tools")]
    #[command(flatten)]
    Tool(tools::ToolCommand),
    /// Print a completion script for your shell
    Completions(completions::CompletionsArgs),
}

/// The `--config` argument of the commands that read the config.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Config file; by default gapless.toml in the current folder, if that file exists
    #[arg(long, env = "GAPLESS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Reads the command line, runs the command, and returns its exit code.
pub(crate) fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
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

impl CliCommand {
    fn run(self, output: &Output) -> Result<Exit, CliError> {
        match self {
            CliCommand::Serve(args) => args.run(output),
            CliCommand::Tx(command) => command.run(output),
            CliCommand::Submitter(command) => command.run(output),
            CliCommand::Audit(args) => args.run(output),
            CliCommand::Config(command) => command.run(output),
            CliCommand::Migrate(args) => args.run(output),
            CliCommand::Keys(command) => command.run(output),
            CliCommand::Chain(command) => command.run(output),
            CliCommand::Store(command) => command.run(output),
            #[cfg(feature = "tools")]
            CliCommand::Tool(command) => command.run(output),
            CliCommand::Completions(args) => args.run(output),
        }
    }
}

/// Runs a future to its end on a runtime with several threads.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::Runtime)?;
    runtime.block_on(future)
}

/// Runs a future to its end on the calling thread.
#[cfg(feature = "tools")]
pub(crate) fn block_on_one_thread<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    runtime.block_on(future)
}

#[cfg(all(test, feature = "tools"))]
mod tests {
    use super::*;
    use clap::CommandFactory;

    const DOCS: &str = include_str!("../../../../docs/cli.md");

    /// Collects the full names of all commands, as in `gapless tx send`.
    fn commands(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        let path = format!("{path}{}", command.get_name());
        if !command.has_subcommands() {
            found.push(path);
            return;
        }
        command.get_subcommands().for_each(|command| commands(command, &format!("{path} "), found));
    }

    #[test]
    fn commands_and_documented_commands_are_equal() {
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
