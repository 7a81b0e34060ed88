//! The attempts of a nonce and the endpoints' answers, for operators.

use gapless_domain::{Attempt, EndpointAnswer, Outline, SendRecord};
use serde::{Deserialize, Serialize};

use crate::moment::moment_to_text;
use crate::names::AttemptKindName;
#[cfg(feature = "schema")]
use crate::nonce::JsonNonce;
use crate::payload::FeesPayload;

/// One signed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AttemptView {
    #[serde(with = "crate::nonce")]
    #[cfg_attr(feature = "schema", schema(value_type = JsonNonce))]
    pub nonce: u64,
    pub ordinal: u16,
    pub kind: AttemptKindName,
    pub hash: String,
    pub fees: FeesPayload,
    /// The most that the attempt can take from the account, value included: wei, a decimal string. Absent if the
    /// answering node does not know the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<String>,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    /// Number of known sends to endpoints.
    pub sends: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub last_sent_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome: Option<OutcomeView>,
    /// The newest sends, oldest first; `sends` counts all sends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<SendView>,
}

/// Outcome of the last send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OutcomeView {
    pub code: String,
    /// Text of the endpoint.
    pub text: String,
}

/// One send of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SendView {
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub at: String,
    /// Meaning of all answers together, a stable word.
    pub outcome: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Answer of each endpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<HeardView>,
}

/// Answer of one endpoint to one send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HeardView {
    /// Name of the endpoint: host and port, without secrets.
    pub endpoint: String,
    /// Meaning of the answer, a stable word.
    pub outcome: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl AttemptView {
    /// `outline` is the content of the signed bytes, if the chain adapter can read them.
    pub fn new(attempt: &Attempt, outline: Option<&Outline>) -> Self {
        AttemptView {
            nonce: attempt.nonce.get(),
            ordinal: attempt.ordinal,
            kind: attempt.kind.into(),
            hash: attempt.hash.to_string(),
            fees: attempt.fees.into(),
            max_cost: outline.map(|outline| outline.cost.to_string()),
            created_at: moment_to_text(attempt.created_at),
            sends: attempt.sends,
            last_sent_at: attempt.last_sent_at.map(moment_to_text),
            last_outcome: attempt.last_outcome.as_ref().map(|(outcome, text)| OutcomeView {
                code: outcome.as_str().to_owned(),
                text: text.as_str().to_owned(),
            }),
            history: attempt.history.iter().map(SendView::from).collect(),
        }
    }
}

impl From<&SendRecord> for SendView {
    fn from(record: &SendRecord) -> Self {
        SendView {
            at: moment_to_text(record.at),
            outcome: record.outcome.as_str().to_owned(),
            text: record.text.as_str().to_owned(),
            heard: record.answers.iter().map(HeardView::from).collect(),
        }
    }
}

impl From<&EndpointAnswer> for HeardView {
    fn from(heard: &EndpointAnswer) -> Self {
        HeardView {
            endpoint: heard.endpoint.as_str().to_owned(),
            outcome: heard.outcome.as_str().to_owned(),
            text: heard.text.as_str().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::{
        Amount, AttemptKind, B256, Bytes, EvmCall, Fees, NodeText, Nonce, Outline, SendOutcome, Timestamp, Work,
    };
    use serde_json::json;

    #[test]
    fn attempt_view_keeps_every_answer_and_round_trips() {
        let at = Timestamp::from_micros(1_767_225_600_000_000);
        let heard = |endpoint: &str, outcome, text: &str| EndpointAnswer {
            endpoint: NodeText::new(endpoint),
            outcome,
            text: NodeText::new(text),
        };
        let record = SendRecord {
            at,
            outcome: SendOutcome::Accepted,
            text: NodeText::new(""),
            answers: vec![
                heard("a:8545", SendOutcome::Accepted, ""),
                heard("b:8545", SendOutcome::ReplacementUnderpriced, "replacement transaction underpriced"),
            ],
        };
        let attempt = Attempt {
            nonce: Nonce::new(7).unwrap(),
            ordinal: 1,
            kind: AttemptKind::Bump,
            hash: B256::repeat_byte(1),
            raw: Bytes::from_static(&[2]),
            fees: Fees::Legacy { gas_price: 3 },
            created_at: at,
            sends: 1,
            last_sent_at: Some(at),
            last_outcome: Some((SendOutcome::Accepted, NodeText::new(""))),
            history: vec![record],
        };
        let outline =
            Outline { action: EvmCall::default().into(), work: Work::new(21_000), cost: Amount::from(63_000_u64) };
        let view = AttemptView::new(&attempt, Some(&outline));
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json["maxCost"], "63000");
        let said = json!([{"at": "2026-01-01T00:00:00Z", "outcome": "accepted", "heard": [
            {"endpoint": "a:8545", "outcome": "accepted"},
            {"endpoint": "b:8545", "outcome": "replacement_underpriced", "text": "replacement transaction underpriced"},
        ]}]);
        assert_eq!(json["history"], said);
        assert_eq!(serde_json::from_value::<AttemptView>(json).unwrap(), view);
        let unread = serde_json::to_value(AttemptView::new(&Attempt { history: Vec::new(), ..attempt }, None)).unwrap();
        assert!(unread.get("maxCost").is_none() && unread.get("history").is_none(), "{unread}");
    }
}
