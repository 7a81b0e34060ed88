//! What operators and callers tell a lane, and what became of it.

use gapless_domain::{CommandId, CommandResult, CommandStatus, Fees, IntentRecord, Payload};
use serde::{Deserialize, Serialize};

use crate::names::{LostRuleName, SubStateName, TxStateName, words};
use crate::payload::{CallPayload, FeesPayload, Reader};
use crate::problem::FieldFault;

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

/// Another payload in the place of the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplaceRequest {
    pub payload: CallPayload,
}

/// At what price a transaction is sent again. An empty body leaves that to the config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResubmitRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fees: Option<FeesPayload>,
}

words! {
    /// What a lane was told to do with a transaction.
    TxCommandName {
        Replace = "replace",
        Resubmit = "resubmit",
    }
}

/// What came of the goal for another transaction in the place of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TxCommandView {
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: String,
    /// CAIP-10.
    pub submitter: String,
    pub request_id: String,
    /// The transaction's own state.
    pub state: TxStateName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_state: Option<SubStateName>,
    pub command: TxCommandName,
    /// The command to its lane, for asking later.
    pub command_id: String,
    /// How far the lane is with the command.
    pub command_state: CommandState,
    /// What the lane said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// What this means, for people.
    pub note: String,
}

/// What came of the goal to cancel a transaction.
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

/// What came of the goal to cancel all that a submitter has under way.
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

impl ReplaceRequest {
    /// The payload that is meant. Limits are asked later, as with a new request.
    pub fn read(&self) -> Result<Payload, Vec<FieldFault>> {
        let mut faults = Vec::new();
        let payload = Payload::Evm(self.payload.read("/payload", &mut faults));
        if faults.is_empty() { Ok(payload) } else { Err(faults) }
    }
}

impl ResubmitRequest {
    pub fn read(&self) -> Result<Option<Fees>, Vec<FieldFault>> {
        let mut faults = Vec::new();
        let fees = self.fees.as_ref().and_then(|fees| Reader { faults: &mut faults }.fees("/fees", fees));
        if faults.is_empty() { Ok(fees) } else { Err(faults) }
    }
}

impl TxCommandName {
    const fn note(self) -> &'static str {
        match self {
            TxCommandName::Replace => {
                "what waits in line asks for the new payload in the same place; what has a nonce gets another transaction at it, \
                 and the chain decides which of them counts: `receipt.minedPayload` tells"
            }
            TxCommandName::Resubmit => "which of its transactions counts, the chain decides; the nonce stays the same",
        }
    }
}

impl TxCommandView {
    pub fn new(tx: &IntentRecord, command: TxCommandName, id: CommandId, status: &CommandStatus) -> Self {
        let CommandView { command_id, state, result } = CommandView::new(id, status);
        TxCommandView {
            tx_id: tx.id.to_string(),
            submitter: tx.intent.submitter().to_string(),
            request_id: tx.intent.request_id().to_string(),
            state: tx.state.name().into(),
            sub_state: tx.state.sub_state().map(SubStateName::from),
            command,
            command_id,
            command_state: state,
            result,
            note: command.note().to_owned(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::from_json;
    use gapless_domain::EvmCall;
    use serde_json::json;

    #[test]
    fn orders_survive_the_wire_and_tell_what_is_wrong_with_them() {
        let call = EvmCall { data: vec![1].into(), fees: Some(Fees::Legacy { gas_price: 7 }), ..EvmCall::default() };
        let replace = ReplaceRequest { payload: CallPayload::from(&call) };
        let read: ReplaceRequest = from_json(&serde_json::to_vec(&replace).unwrap()).unwrap();
        assert_eq!(read.read(), Ok(Payload::Evm(call)));
        let bad: ReplaceRequest = from_json(br#"{"payload":{"to":"0x","value":"x"}}"#).unwrap();
        let pointers: Vec<String> = bad.read().unwrap_err().into_iter().map(|fault| fault.pointer).collect();
        assert_eq!(pointers, ["/payload/to", "/payload/value"]);

        assert_eq!(serde_json::to_value(ResubmitRequest::default()).unwrap(), json!({}));
        for fees in [None, Some(Fees::Eip1559 { max_fee: 9, max_priority_fee: 1 })] {
            let resubmit = ResubmitRequest { fees: fees.map(FeesPayload::from) };
            let read: ResubmitRequest = from_json(&serde_json::to_vec(&resubmit).unwrap()).unwrap();
            assert_eq!(read.read(), Ok(fees));
        }
    }
}
