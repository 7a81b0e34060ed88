//! `gapless submitter cancel-pending`: cancels all open transactions of a submitter.

use clap::Args;
use gapless_wire::CancelPendingView;

use super::command::{LaneCommandArgs, command_exit, command_text};
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct CancelPendingArgs {
    #[command(flatten)]
    command: LaneCommandArgs,
}

impl CancelPendingArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let LaneCommandArgs { to, wait } = self.command;
        let view = to.server.client()?.cancel_pending(&to.name, Some(wait)).await?;
        output.result(&view, text(&view))?;
        if view.more_queued {
            output.note("more transactions are queued: run the same command again to cancel them");
        }
        Ok(command_exit(view.state, Exit::Failure))
    }
}

fn text(view: &CancelPendingView) -> String {
    let lane_result = command_text(view.state, view.result.as_deref(), &view.command_id);
    format!("{} canceled in the queue\n{lane_result}", view.canceled_queued)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_wire::CommandState;

    #[test]
    fn command_state_decides_text_and_exit_code() {
        let view = |state| CancelPendingView {
            command_id: "7".to_owned(),
            state,
            result: Some("3 are being canceled".to_owned()),
            canceled_queued: 2,
            more_queued: false,
        };
        assert_eq!(text(&view(CommandState::Done)), "2 canceled in the queue\n3 are being canceled");
        assert!(text(&view(CommandState::Open)).contains("command 7"));
        let exits = CommandState::ALL.iter().map(|state| command_exit(*state, Exit::Failure));
        assert_eq!(exits.collect::<Vec<_>>(), [Exit::Failure, Exit::Success, Exit::Refused]);
    }
}
