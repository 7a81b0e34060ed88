//! Arguments and results that `gapless tx replace` and `gapless tx resubmit` share.

use std::time::Duration;

use clap::Args;
use gapless_wire::{CommandState, TxCommandView};

use crate::cli::server::{ServerArgs, duration};
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(super) struct TxCommandArgs {
    /// Transaction id, as `tx send` printed it
    #[arg(value_name = "TX_ID")]
    pub(super) tx_id: String,
    /// How long to wait until the lane has executed the command
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(super) wait: Duration,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Prints the state of a command. An executed command is a success, although the chain still decides which transaction
/// is mined. An open command is a failure, because the lane may still refuse it.
pub(super) fn print_command(view: &TxCommandView, output: &Output) -> Result<Exit, CliError> {
    output.result(view, text(view))?;
    Ok(match view.command_state {
        CommandState::Done => Exit::Success,
        CommandState::Open => Exit::Failure,
        CommandState::Refused => Exit::Refused,
    })
}

fn text(view: &TxCommandView) -> String {
    let TxCommandView { tx_id, state, command, command_id, note, .. } = view;
    let sub_state = view.sub_state.map(|sub_state| format!(" {sub_state}")).unwrap_or_default();
    let result = match (view.command_state, &view.result) {
        (CommandState::Open, _) => format!(
            "stored as command {command_id}; the lane has not executed it yet (see GET /api/v1/commands/{command_id})"
        ),
        (state, Some(result)) => format!("{state}: {result}"),
        (state, None) => state.to_string(),
    };
    format!("{tx_id}  {state}{sub_state}\n{command} {result}\n{note}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_wire::{SubStateName, TxCommandName, TxStateName};

    #[test]
    fn text_shows_command_state_result_and_note() {
        let view = |command_state, result: Option<&str>| TxCommandView {
            tx_id: "id".to_owned(),
            submitter: "eip155:1:0x1".to_owned(),
            request_id: "r".to_owned(),
            state: TxStateName::Tracking,
            sub_state: Some(SubStateName::Replacing),
            command: TxCommandName::Replace,
            command_id: "7".to_owned(),
            command_state,
            result: result.map(str::to_owned),
            note: "the chain decides".to_owned(),
        };
        let done = text(&view(CommandState::Done, Some("0xaa at nonce 3")));
        assert_eq!(done, "id  TRACKING REPLACING\nreplace done: 0xaa at nonce 3\nthe chain decides");
        assert!(text(&view(CommandState::Open, None)).contains("replace stored as command 7"));
    }
}
