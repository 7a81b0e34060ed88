//! What is stuck, and what may be done about it.

use alloy_primitives::B256;

use crate::attempt::{AttemptKind, MempoolSignal};
use crate::id::{RequestId, SubmitterId, TxId};
use crate::names::names;
use crate::nonce::Nonce;
use crate::payload::Fees;
use crate::state::StuckReason;
use crate::time::Timestamp;

/// Everything that somebody has to know who decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckCase {
    pub submitter: SubmitterId,
    pub tx_id: TxId,
    pub request_id: RequestId,
    pub nonce: Nonce,
    pub reason: StuckReason,
    pub tries: u16,
    pub signal: Option<MempoolSignal>,
    /// When its first attempt was made.
    pub since: Option<Timestamp>,
    pub attempts: Vec<StuckAttempt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StuckAttempt {
    pub kind: AttemptKind,
    pub hash: B256,
    pub fees: Fees,
}

names! {
    /// What is to be done about it. Whichever it is, the chain decides which attempt counts.
    Decision {
        /// Nothing: it is asked again later.
        Wait = "wait",
        /// The same bytes, now.
        Resend = "resend",
        /// The same for more.
        Bump = "bump",
        /// Its nonce is consumed without effect.
        Cancel = "cancel",
        /// People are told.
        Escalate = "escalate",
    }
}
