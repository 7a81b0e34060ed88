//! `gapless chain list`: lists the chains of a running node.

use clap::Args;

use super::show::summary;
use crate::cli::server::ServerArgs;
use crate::cli::table::columns;
use crate::cli::{CliError, Exit, block_on};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ListChainsArgs {
    #[command(flatten)]
    server: ServerArgs,
}

impl ListChainsArgs {
    pub(super) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let chains = block_on(async { Ok(self.server.client()?.chains().await?) })?;
        let rows: Vec<[String; 6]> = chains.iter().map(summary).collect();
        output.result(&chains, columns(&rows))?;
        Ok(Exit::Success)
    }
}
