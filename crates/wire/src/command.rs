//! What became of a command to a lane.

use gapless_domain::{CommandId, CommandStatus};
use serde::{Deserialize, Serialize};

use crate::names::words;

words! {
    CommandState {
        /// Written down; the lane will come to it.
        Open = "open",
        Done = "done",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandView {
    /// The command's own id, for asking later.
    pub command_id: String,
    pub state: CommandState,
    /// What came of it, once it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

impl CommandView {
    pub fn new(id: CommandId, status: &CommandStatus) -> Self {
        let (state, result) = match status {
            CommandStatus::Open => (CommandState::Open, None),
            CommandStatus::Done(text) => (CommandState::Done, Some(text.as_str().to_owned())),
        };
        CommandView { command_id: id.0.to_string(), state, result }
    }
}
