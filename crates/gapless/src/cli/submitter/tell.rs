//! `gapless submitter pause`, `resume`, `unprotect`, `resync`, `cancel-pending`: what operators want of a lane.
//!
//! A refusal of the lane is an answer of the server (409), and with that exit code 3. A command is durable once it is written down;
//! where its effect is what the operator waits for, a lane that has not come to it in time is a failure to be looked at.

use std::time::Duration;

use clap::Args;
use gapless_wire::{CancelPendingView, CommandState, CommandView, LostRuleName, ResyncRequest};

use super::NameArgs;
use crate::cli::server::duration;
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct TellArgs {
    #[command(flatten)]
    to: NameArgs,
    /// How long to wait until the lane has taken notice
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    wait: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct ResyncArgs {
    #[command(flatten)]
    to: NameArgs,
    /// Change nothing, only list what would be done
    #[arg(long)]
    dry_run: bool,
    /// What becomes of transactions whose nonce was finally used by something else: requeue or fail
    #[arg(long, value_name = "RULE", value_parser = lost, default_value = "requeue")]
    lost: LostRuleName,
    /// How long to wait until the lane has done it; reading blocks may take a while
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    wait: Duration,
}

fn lost(text: &str) -> Result<LostRuleName, String> {
    LostRuleName::parse(text).ok_or_else(|| "there are requeue and fail".to_owned())
}

impl TellArgs {
    pub(super) async fn pause(self, output: &Output) -> Result<Exit, CliError> {
        told(&self.to.server.client()?.pause(&self.to.name, Some(self.wait)).await?, Exit::Success, output)
    }

    pub(super) async fn resume(self, output: &Output) -> Result<Exit, CliError> {
        told(&self.to.server.client()?.resume(&self.to.name, Some(self.wait)).await?, Exit::Success, output)
    }

    pub(super) async fn unprotect(self, output: &Output) -> Result<Exit, CliError> {
        told(&self.to.server.client()?.unprotect(&self.to.name, Some(self.wait)).await?, Exit::Failure, output)
    }

    pub(super) async fn cancel_pending(self, output: &Output) -> Result<Exit, CliError> {
        let view = self.to.server.client()?.cancel_pending(&self.to.name, Some(self.wait)).await?;
        output.result(&view, canceled(&view))?;
        if view.more_queued {
            output.note("there are more in the queue: the same command again goes on");
        }
        Ok(exit(view.state, Exit::Failure))
    }
}

impl ResyncArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let request = ResyncRequest { lost: Some(self.lost), dry_run: Some(self.dry_run) };
        let view = self.to.server.client()?.resync(&self.to.name, &request, Some(self.wait)).await?;
        told(&view, Exit::Failure, output)
    }
}

/// `late` is how it ends if the lane has not come to it in time.
fn told(view: &CommandView, late: Exit, output: &Output) -> Result<Exit, CliError> {
    output.result(view, text(view.state, view.result.as_deref(), &view.command_id))?;
    Ok(exit(view.state, late))
}

fn exit(state: CommandState, late: Exit) -> Exit {
    match state {
        CommandState::Done => Exit::Success,
        CommandState::Open => late,
        CommandState::Refused => Exit::Refused,
    }
}

fn text(state: CommandState, result: Option<&str>, id: &str) -> String {
    match state {
        CommandState::Done => result.unwrap_or("done").to_owned(),
        CommandState::Refused => format!("refused: {}", result.unwrap_or("the lane does not say why")),
        CommandState::Open => {
            format!("written down as command {id}; the lane has not come to it yet (GET /api/v1/commands/{id})")
        }
    }
}

fn canceled(view: &CancelPendingView) -> String {
    let of_lane = text(view.state, view.result.as_deref(), &view.command_id);
    format!("{} canceled in the queue\n{of_lane}", view.canceled_queued)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_it_is_told_and_decides_how_it_ends() {
        let view = |state| CancelPendingView {
            command_id: "7".to_owned(),
            state,
            result: Some("3 are being canceled".to_owned()),
            canceled_queued: 2,
            more_queued: false,
        };
        assert_eq!(canceled(&view(CommandState::Done)), "2 canceled in the queue\n3 are being canceled");
        assert!(canceled(&view(CommandState::Open)).contains("command 7"));
        let ends = CommandState::ALL.iter().map(|state| exit(*state, Exit::Failure));
        assert_eq!(ends.collect::<Vec<_>>(), [Exit::Failure, Exit::Success, Exit::Refused]);
    }
}
