//! What operators and callers tell a lane, and what became of it.

use gapless_domain::{CommandId, CommandResult, CommandStatus};
use serde::{Deserialize, Serialize};

use crate::names::{LostRuleName, SubStateName, TxStateName, words};

words! {
    CommandState {
        /// Written down; the lane will come to it.
        Open = "open",
        Done = "done",
        /// The lane did not do it, and nothing has changed; `result` says why.
        Refused = "refused",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandView {
    /// The command's own id, for asking later.
    pub command_id: String,
    pub state: CommandState,
    /// What came of it, once it is over: text of one or more lines, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// How a lane is reconciled with its chain. An empty body means the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResyncRequest {
    /// What becomes of transactions whose nonce was finally used by something else; `requeue` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostRuleName>,
    /// Change nothing, only say what would be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}

/// What came of the wish to cancel a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelView {
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: String,
    /// CAIP-10.
    pub submitter: String,
    pub request_id: String,
    /// The transaction's own state. Only CANCELED means that it will not happen.
    pub state: TxStateName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_state: Option<SubStateName>,
    /// The command to its lane, if it was too late to cancel it in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
    /// How far the lane is with the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_state: Option<CommandState>,
    /// What the lane said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// What this means, for people.
    pub note: String,
}

/// What came of the wish to cancel all that a submitter has under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelPendingView {
    /// The command to the lane, for those that have left the queue.
    pub command_id: String,
    pub state: CommandState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// How many were canceled in the queue, at once and for good.
    pub canceled_queued: u32,
    /// One call cancels a bounded number of queued ones: there may be more, and the same call again goes on.
    pub more_queued: bool,
}

impl CommandView {
    pub fn new(id: CommandId, status: &CommandStatus) -> Self {
        let (state, result) = match status {
            CommandStatus::Open => (CommandState::Open, None),
            CommandStatus::Over(result) => (CommandState::of(result), Some(result.report().as_str().to_owned())),
        };
        CommandView { command_id: id.0.to_string(), state, result }
    }
}

impl CommandState {
    fn of(result: &CommandResult) -> Self {
        match result {
            CommandResult::Done(_) => CommandState::Done,
            CommandResult::Refused(_) => CommandState::Refused,
        }
    }
}
