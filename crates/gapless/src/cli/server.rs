//! Talking to a running Gapless.

use std::time::Duration;

use clap::Args;
use gapless_wire::{Client, ClientError, TxAccepted, TxExpand, TxQuery, TxRequest, TxView};

use super::{CliError, Exit};
use crate::config::parse_duration;

/// How long one call of a wait asks the server to wait.
const ONE_WAIT: Duration = Duration::from_secs(30);
/// A server that is restarted comes back; one that stays away for so many calls in a row does not.
const MAX_LOST_CALLS: u32 = 30;
const PAUSE_BETWEEN_CALLS: Duration = Duration::from_secs(1);
/// How often a request is handed in before somebody is told that there is no answer.
const MAX_HAND_INS: u32 = 4;
/// The pause after the first of them; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Which server.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The address of a Gapless node
    #[arg(long, env = "GAPLESS_API", value_name = "URL", default_value = "http://127.0.0.1:8080")]
    api: String,
}

impl ServerArgs {
    pub(crate) fn client(&self) -> Result<Client, CliError> {
        Ok(Client::new(&self.api)?)
    }
}

/// How long to wait for the end of something.
#[derive(Debug, Args)]
pub(crate) struct TimeoutArgs {
    /// Give up waiting after this long, as in 90s or 5m; the transaction goes on
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "a time is a number and ms, s, m, h or d".to_owned())
}

/// Hands in a request, and hands in the same one again where no answer came: under one request id that is one transaction.
pub(crate) async fn hand_in(client: &Client, request: &TxRequest) -> Result<(TxAccepted, bool), CliError> {
    let mut pause_next = FIRST_PAUSE;
    let mut calls = 1;
    loop {
        let error = match client.create_tx(request).await {
            Ok(accepted) => return Ok(accepted),
            Err(error) => error,
        };
        // Without an id nothing says that two requests are the same one.
        let Some(request_id) = request.request_id.as_ref().filter(|_| exit_of(&error) == Exit::Failure) else {
            return Err(error.into());
        };
        if calls == MAX_HAND_INS {
            return Err(CliError::Unanswered { request_id: request_id.clone(), source: Box::new(error) });
        }
        calls += 1;
        pause(pause_next).await;
        pause_next *= 2;
    }
}

/// Follows a transaction to its end, and hands every version of it to `seen`, each with what `expand` names. The last version
/// that was seen comes back, terminal or not.
pub(crate) async fn follow(
    client: &Client,
    first: TxView,
    timeout: &TimeoutArgs,
    expand: &[TxExpand],
    mut seen: impl FnMut(&TxView) -> Result<(), CliError>,
) -> Result<TxView, CliError> {
    let mut last = first;
    seen(&last)?;
    let to_the_end = async {
        let mut lost = 0;
        while !last.state.is_terminal() {
            let query = TxQuery { wait: Some(ONE_WAIT), version: Some(last.version), expand: expand.to_vec() };
            match client.tx(&last.tx_id, &query).await {
                Ok(view) => {
                    lost = 0;
                    let news = view.version != last.version || view.confirmations != last.confirmations;
                    last = view;
                    if news {
                        seen(&last)?;
                    }
                }
                Err(error) if exit_of(&error) == Exit::Failure && lost < MAX_LOST_CALLS => {
                    lost += 1;
                    pause(PAUSE_BETWEEN_CALLS).await;
                }
                Err(error) => return Err(CliError::Lost { tx_id: last.tx_id.clone(), source: Box::new(error) }),
            }
        }
        Ok(())
    };
    match timeout.timeout {
        None => to_the_end.await?,
        Some(limit) => within(limit, to_the_end).await.unwrap_or(Ok(()))?,
    }
    Ok(last)
}

/// How a command ends whose transaction ended so.
pub(crate) fn exit_of_tx(view: &TxView) -> Exit {
    match view.state {
        gapless_wire::TxStateName::Confirmed => Exit::Success,
        state if state.is_terminal() => Exit::Refused,
        _ => Exit::Failure,
    }
}

/// Whether a server's answer is a no for good.
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

#[expect(clippy::disallowed_methods, reason = "a command for people owns its own patience")]
async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}

#[expect(clippy::disallowed_methods, reason = "a command for people owns its own patience")]
async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, future).await.ok()
}
