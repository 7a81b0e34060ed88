//! What somebody is asked who decides about a transaction that is stuck, and what is answered.

use gapless_domain::{Decision, StuckCase};
use serde::{Deserialize, Serialize};

use crate::moment::moment_to_text;
use crate::names::{AttemptKindName, MempoolSignalName};
use crate::payload::FeesPayload;

/// Everything that there is to know for a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StuckCaseView {
    /// CAIP-10.
    pub submitter: String,
    pub tx_id: String,
    pub request_id: String,
    pub nonce: u64,
    /// A stable word.
    pub reason: String,
    /// How often it was sent again, or raised.
    pub tries: u16,
    /// What nodes' pools showed of it, if they were looked into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<MempoolSignalName>,
    /// When its first transaction was signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Oldest first.
    pub attempts: Vec<StuckAttemptView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StuckAttemptView {
    pub kind: AttemptKindName,
    pub hash: String,
    pub fees: FeesPayload,
}

/// The answer. What stands beside the decision is whoever answers' own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckAnswer {
    /// `wait`, `resend`, `bump`, `cancel` or `escalate`.
    pub decision: String,
}

impl StuckAnswer {
    /// `None` for a word that is none of them.
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
    fn every_decision_has_its_word_and_others_have_none() {
        for decision in Decision::ALL {
            let json = format!(r#"{{"decision":"{}","note":"anything"}}"#, decision.as_str());
            assert_eq!(serde_json::from_str::<StuckAnswer>(&json).unwrap().decision(), Some(*decision));
        }
        for word in ["Cancel", "", "replace"] {
            assert_eq!(StuckAnswer { decision: word.to_owned() }.decision(), None);
        }
    }
}
