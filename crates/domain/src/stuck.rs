//! Stuck intents and the decisions about them.

use alloy_primitives::B256;

use crate::action::Fees;
use crate::attempt::{AttemptKind, MempoolSignal};
use crate::id::{RequestId, SubmitterId, TxId};
use crate::names::names;
use crate::nonce::Nonce;
use crate::state::StuckReason;
use crate::time::Timestamp;

/// Facts for a decision about a stuck intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckCase {
    pub submitter: SubmitterId,
    pub tx_id: TxId,
    pub request_id: RequestId,
    pub nonce: Nonce,
    pub reason: StuckReason,
    pub tries: u16,
    pub signal: Option<MempoolSignal>,
    /// Time of the first attempt.
    pub since: Option<Timestamp>,
    pub attempts: Vec<StuckAttempt>,
}

/// One attempt of a stuck intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StuckAttempt {
    pub kind: AttemptKind,
    pub hash: B256,
    pub fees: Fees,
}

names! {
    /// Decision about a stuck intent. The chain still decides which attempt counts.
    Decision {
        /// Do nothing; a decision is requested again later.
        Wait = "wait",
        /// Send the same bytes again now.
        Resend = "resend",
        /// Send a dearer attempt.
        Bump = "bump",
        /// Consume the nonce without effect.
        Cancel = "cancel",
        /// Notify people.
        Escalate = "escalate",
    }
}
