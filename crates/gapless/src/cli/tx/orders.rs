//! `gapless tx replace` and `gapless tx resubmit`: another transaction in the place of one.

use std::time::Duration;

use clap::Args;
use gapless_wire::{CommandState, ReplaceRequest, ResubmitRequest, TxCommandView};

use super::payload::{FeeArgs, PayloadArgs};
use crate::cli::server::{ServerArgs, duration};
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    #[command(flatten)]
    of: OrderArgs,
    #[command(flatten)]
    payload: PayloadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResubmitArgs {
    #[command(flatten)]
    of: OrderArgs,
    #[command(flatten)]
    fees: FeeArgs,
}

#[derive(Debug, Args)]
struct OrderArgs {
    /// The id that `tx send` gave
    #[arg(value_name = "TX_ID")]
    tx_id: String,
    /// How long to wait until the lane has done it
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    wait: Duration,
    #[command(flatten)]
    server: ServerArgs,
}

impl ReplaceArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let request = ReplaceRequest { payload: self.payload.payload() };
        let view = self.of.server.client()?.replace_tx(&self.of.tx_id, &request, Some(self.of.wait)).await?;
        told(&view, output)
    }
}

impl ResubmitArgs {
    pub(super) async fn run(self, output: &Output) -> Result<Exit, CliError> {
        let request = ResubmitRequest { fees: self.fees.fees() };
        let view = self.of.server.client()?.resubmit_tx(&self.of.tx_id, &request, Some(self.of.wait)).await?;
        told(&view, output)
    }
}

/// That the chain has still to decide is no failure. That the lane has not come to it is one to be looked at: it may still refuse.
fn told(view: &TxCommandView, output: &Output) -> Result<Exit, CliError> {
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
        (CommandState::Open, _) => {
            format!(
                "written down as command {command_id}; the lane has not come to it yet (GET /api/v1/commands/{command_id})"
            )
        }
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
    fn what_came_of_it_is_told_with_what_it_means() {
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
        assert!(text(&view(CommandState::Open, None)).contains("replace written down as command 7"));
    }
}
