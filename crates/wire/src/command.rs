//! Commands of operators and callers to a lane, and their results.

use gapless_domain::{CommandId, CommandResult, CommandStatus, Fees, IntentRecord, Payload};
use serde::{Deserialize, Serialize};

use crate::names::{LostRuleName, SubStateName, TxStateName, words};
use crate::payload::{CallPayload, FeesPayload, Reader};
use crate::problem::FieldFault;

words! {
    CommandState {
        /// Durable, and not executed yet.
        Open = "open",
        Done = "done",
        /// The lane refused it and changed nothing; `result` has the reason.
        Refused = "refused",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandView {
    /// Id of the command, for later reads.
    pub command_id: String,
    pub state: CommandState,
    /// Result of an ended command: one or more lines of text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// Options of a resync. An empty body means the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResyncRequest {
    /// Rule for transactions whose nonce was finally used by something else; `requeue` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostRuleName>,
    /// Only list what would be done; change nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}

/// A new payload for a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplaceRequest {
    pub payload: CallPayload,
}

/// Price of a resubmitted transaction. An empty body leaves the price to the config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResubmitRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fees: Option<FeesPayload>,
}

words! {
    /// The kind of a command to a transaction's lane.
    TxCommandName {
        Replace = "replace",
        Resubmit = "resubmit",
    }
}

/// Result of a replace or resubmit command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TxCommandView {
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: String,
    /// CAIP-10 id.
    pub submitter: String,
    pub request_id: String,
    /// State of the transaction.
    pub state: TxStateName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_state: Option<SubStateName>,
    pub command: TxCommandName,
    /// Id of the command, for later reads.
    pub command_id: String,
    /// State of the command.
    pub command_state: CommandState,
    /// Result text of the lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Explanation for people.
    pub note: String,
}

/// Result of a cancel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelView {
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: String,
    /// CAIP-10 id.
    pub submitter: String,
    pub request_id: String,
    /// State of the transaction. Only CANCELED means that it will not happen.
    pub state: TxStateName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_state: Option<SubStateName>,
    /// Id of the command to the lane, if the transaction had already left the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
    /// State of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_state: Option<CommandState>,
    /// Result text of the lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Explanation for people.
    pub note: String,
}

/// Result of canceling all open transactions of a submitter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelPendingView {
    /// Id of the command to the lane, for transactions that have left the queue.
    pub command_id: String,
    pub state: CommandState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Number of transactions that were canceled in the queue, at once and for good.
    pub canceled_queued: u32,
    /// True if queued transactions are left. One call cancels a bounded number; repeat the call for the rest.
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
    /// Parses the payload. Limits are checked later, as for a new request.
    pub fn read(&self) -> Result<Payload, Vec<FieldFault>> {
        let mut faults = Vec::new();
        let payload = Payload::from(self.payload.read("/payload", &mut faults));
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
                "a queued transaction keeps its place and gets the new payload; a bound one gets another attempt at \
                 its nonce, and the chain decides which one counts: see `receipt.minedPayload`"
            }
            TxCommandName::Resubmit => "the nonce stays the same, and the chain decides which attempt counts",
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
    fn commands_round_trip_and_report_faults() {
        let call = EvmCall { data: vec![1].into(), fees: Some(Fees::Legacy { gas_price: 7 }), ..EvmCall::default() };
        let replace = ReplaceRequest { payload: CallPayload::from(&call) };
        let read: ReplaceRequest = from_json(&serde_json::to_vec(&replace).unwrap()).unwrap();
        assert_eq!(read.read(), Ok(Payload::from(call)));
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
