//! The question to the webhook that decides about a stuck transaction, and its answer.

use gapless_domain::{Decision, StuckCase};
use serde::{Deserialize, Serialize};

use crate::moment::moment_to_text;
use crate::names::{AttemptKindName, MempoolSignalName};
use crate::payload::FeesPayload;

/// The facts for a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StuckCaseView {
    /// CAIP-10 id.
    pub submitter: String,
    pub tx_id: String,
    pub request_id: String,
    #[serde(with = "crate::nonce")]
    pub nonce: u64,
    /// Stable word.
    pub reason: String,
    /// Number of resends and bumps.
    pub tries: u16,
    /// Signal of the endpoints' pools, if they are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<MempoolSignalName>,
    /// Time at which the first attempt was signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Attempts, oldest first.
    pub attempts: Vec<StuckAttemptView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StuckAttemptView {
    pub kind: AttemptKindName,
    pub hash: String,
    pub fees: FeesPayload,
}

/// The webhook's answer. Other fields are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckAnswer {
    /// One of `wait`, `resend`, `bump`, `cancel`, `escalate`.
    pub decision: String,
}

impl StuckAnswer {
    /// The decision; `None` for an unknown word.
    pub fn decision(&self) -> Option<Decision> {
        Decision::parse(&self.decision)
    }
}

impl From<&StuckCase> for StuckCaseView {
    fn from(case: &StuckCase) -> Self {
        let attempt = |attempt: &gapless_domain::StuckAttempt| StuckAttemptView {
            kind: attempt.kind.into(),
            hash: attempt.hash.to_string(),
            fees: attempt.fees.into(),
        };
        StuckCaseView {
            submitter: case.submitter.to_string(),
            tx_id: case.tx_id.to_string(),
            request_id: case.request_id.to_string(),
            nonce: case.nonce.get(),
            reason: case.reason.as_str().to_owned(),
            tries: case.tries,
            signal: case.signal.map(MempoolSignalName::from),
            since: case.since.map(moment_to_text),
            attempts: case.attempts.iter().map(attempt).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_has_one_word() {
        for decision in Decision::ALL {
            let json = format!(r#"{{"decision":"{}","note":"anything"}}"#, decision.as_str());
            assert_eq!(serde_json::from_str::<StuckAnswer>(&json).unwrap().decision(), Some(*decision));
        }
        for word in ["Cancel", "", "replace"] {
            assert_eq!(StuckAnswer { decision: word.to_owned() }.decision(), None);
        }
    }
}
