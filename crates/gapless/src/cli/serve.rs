//! `gapless serve`: runs one node.

use std::net::SocketAddr;

use clap::Args;
use serde_json::json;

use super::{CliError, ConfigArgs, Exit, block_on};
use crate::compose::{ComposeError, Metrics, Node, NodeParts, StopSignals, accounts, listen, start_logging};
use crate::config::{AuthMode, Config};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

impl ServeArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let mut config = Config::load(self.config.config.as_deref())?;
        if config.auth == AuthMode::ApiKey {
            return Err(ComposeError::NoApiKeys.into());
        }
        start_logging(&config.log)?;
        block_on(async {
            let accounts = accounts(std::mem::take(&mut config.submitters)).await?;
            let mut stop = StopSignals::listen()?;
            let listener = listen(config.node.listen).await?;
            let api = url_of(&listener)?;
            let metrics = Metrics::start()?;
            let names: Vec<String> = accounts.iter().map(|account| account.id.to_string()).collect();
            let node = Node::start(NodeParts { config, accounts, listener, metrics }).await?;
            // The caller may have closed standard output; the node runs all the same.
            let _ = output.result(&json!({ "api": api, "submitters": names }), format_args!("listening on {api}"));
            node.run(&mut stop).await?;
            Ok(Exit::Success)
        })
    }
}

/// The URL that the listener is really bound to, because port 0 in the config means any free port.
pub(crate) fn url_of(listener: &tokio::net::TcpListener) -> Result<String, CliError> {
    let wrong = |source| ComposeError::Listen { at: SocketAddr::from(([0, 0, 0, 0], 0)), source };
    Ok(format!("http://{}", listener.local_addr().map_err(wrong)?))
}
