//! Calls to a running node: the arguments that the commands share, retries, and waiting for a transaction.

use std::time::Duration;

use clap::Args;
use gapless_wire::{Client, ClientError, TxAccepted, TxExpand, TxQuery, TxRequest, TxView};

use super::{CliError, Exit};
use crate::config::parse_duration;

/// The wait that one long-polling call asks for.
const ONE_WAIT: Duration = Duration::from_secs(30);
/// Failed calls in a row before a command gives the server up. A restarted server is back sooner.
const MAX_FAILED_CALLS: u32 = 30;
const PAUSE_BETWEEN_CALLS: Duration = Duration::from_secs(1);
/// Tries to create a transaction before the command fails for lack of an answer.
const MAX_CREATE_TRIES: u32 = 4;
/// The pause after the first try; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The `--api` argument of the commands that call a node.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// URL of a Gapless node
    #[arg(long, env = "GAPLESS_API", value_name = "URL", default_value = "http://127.0.0.1:8080")]
    api: String,
}

impl ServerArgs {
    pub(crate) fn client(&self) -> Result<Client, CliError> {
        Ok(Client::new(&self.api)?)
    }
}

/// The `--timeout` argument of the commands that wait for the end of a transaction.
#[derive(Debug, Args)]
pub(crate) struct TimeoutArgs {
    /// Stop waiting after this time, as in 90s or 5m; the transaction goes on. By default there is no limit
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "a time is a number and ms, s, m, h or d".to_owned())
}

/// Creates a transaction, and repeats the same request if no answer came. One request id means one transaction.
pub(crate) async fn create_with_retries(client: &Client, request: &TxRequest) -> Result<(TxAccepted, bool), CliError> {
    let mut pause_next = FIRST_PAUSE;
    let mut calls = 1;
    loop {
        let error = match client.create_tx(request).await {
            Ok(accepted) => return Ok(accepted),
            Err(error) => error,
        };
        // Without a request id the server would take a second request for another transaction.
        let Some(request_id) = request.request_id.as_ref().filter(|_| exit_of(&error) == Exit::Failure) else {
            return Err(error.into());
        };
        if calls == MAX_CREATE_TRIES {
            return Err(CliError::Unanswered { request_id: request_id.clone(), source: Box::new(error) });
        }
        calls += 1;
        pause(pause_next).await;
        pause_next *= 2;
    }
}

/// Follows a transaction to its end and passes each version, with the `expand` parts, to `on_change`. Returns the last
/// version, which is not terminal if the timeout came first.
pub(crate) async fn follow(
    client: &Client,
    first: TxView,
    timeout: &TimeoutArgs,
    expand: &[TxExpand],
    mut on_change: impl FnMut(&TxView) -> Result<(), CliError>,
) -> Result<TxView, CliError> {
    let mut last = first;
    on_change(&last)?;
    let until_terminal = async {
        let mut failed_calls = 0;
        while !last.state.is_terminal() {
            let query = TxQuery { wait: Some(ONE_WAIT), version: Some(last.version), expand: expand.to_vec() };
            match client.tx(&last.tx_id, &query).await {
                Ok(view) => {
                    failed_calls = 0;
                    let changed = view.version != last.version || view.confirmations != last.confirmations;
                    last = view;
                    if changed {
                        on_change(&last)?;
                    }
                }
                Err(error) if exit_of(&error) == Exit::Failure && failed_calls < MAX_FAILED_CALLS => {
                    failed_calls += 1;
                    pause(PAUSE_BETWEEN_CALLS).await;
                }
                Err(error) => return Err(CliError::Lost { tx_id: last.tx_id.clone(), source: Box::new(error) }),
            }
        }
        Ok(())
    };
    match timeout.timeout {
        None => until_terminal.await?,
        Some(limit) => within(limit, until_terminal).await.unwrap_or(Ok(()))?,
    }
    Ok(last)
}

/// The exit code of a command that waited for this transaction.
pub(crate) fn exit_of_tx(view: &TxView) -> Exit {
    match view.state {
        gapless_wire::TxStateName::Confirmed => Exit::Success,
        state if state.is_terminal() => Exit::Refused,
        _ => Exit::Failure,
    }
}

/// The exit code for a failed call: `Refused` if the server rejects the request for good.
pub(crate) fn exit_of(error: &ClientError) -> Exit {
    match error {
        ClientError::Problem(problem) => match problem.status {
            408 | 425 | 429 => Exit::Failure,
            400..=499 => Exit::Refused,
            _ => Exit::Failure,
        },
        ClientError::Address(_) => Exit::Usage,
        ClientError::Transport(_) | ClientError::Foreign { .. } => Exit::Failure,
    }
}

#[expect(clippy::disallowed_methods, reason = "a command reads the real clock")]
async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}

#[expect(clippy::disallowed_methods, reason = "a command reads the real clock")]
async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, future).await.ok()
}
