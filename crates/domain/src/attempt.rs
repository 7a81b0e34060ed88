//! Attempts: the signed transactions of a slot.

use alloy_primitives::{B256, Bytes};

use crate::names::names;
use crate::nonce::Nonce;
use crate::payload::Fees;
use crate::text::NodeText;
use crate::time::Timestamp;

names! {
    /// The purpose of a signed transaction at its slot. A bumped cancel is still a cancel: the kind names the effect,
    /// so that the mined hash alone shows how the intent ended.
    AttemptKind {
        Original = "original",
        Bump = "bump",
        Replace = "replace",
        Cancel = "cancel",
        Fill = "fill",
    }
}

impl AttemptKind {
    /// True if the intent's request is fulfilled once the transaction is mined.
    pub fn carries_payload(self) -> bool {
        match self {
            AttemptKind::Original | AttemptKind::Bump | AttemptKind::Replace => true,
            AttemptKind::Cancel | AttemptKind::Fill => false,
        }
    }
}

impl SendOutcome {
    /// True if the node refused the transaction itself, or for lack of funds. Then none of the asked nodes has it in
    /// its pool.
    pub fn is_refusal(self) -> bool {
        matches!(self, SendOutcome::Rejected | SendOutcome::InsufficientFunds)
    }

    /// True if a node has the transaction, from this send or an earlier one.
    pub fn is_taken(self) -> bool {
        matches!(self, SendOutcome::Accepted | SendOutcome::AlreadyKnown)
    }
}

/// A signed transaction that is about to be made durable. Its bytes may be sent only after that (P3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAttempt {
    pub nonce: Nonce,
    /// Counts the attempts of a slot from 0.
    pub ordinal: u16,
    pub kind: AttemptKind,
    pub hash: B256,
    pub raw: Bytes,
    pub fees: Fees,
}

/// A durable attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub nonce: Nonce,
    pub ordinal: u16,
    pub kind: AttemptKind,
    pub hash: B256,
    pub raw: Bytes,
    pub fees: Fees,
    pub created_at: Timestamp,
    /// The number of sends that are known.
    pub sends: u32,
    pub last_sent_at: Option<Timestamp>,
    pub last_outcome: Option<(SendOutcome, NodeText)>,
    /// The newest sends, oldest first, at most [`Attempt::HISTORY`]. For operators: a lane is loaded without them.
    pub history: Vec<SendRecord>,
}

impl Attempt {
    /// The number of sends that the history keeps.
    pub const HISTORY: usize = 20;

    /// The highest ordinal that every store can hold.
    pub const MAX_ORDINAL: u16 = i16::MAX as u16;

    /// The attempt that was made durable at `at`, and was not sent yet.
    pub fn new(new: NewAttempt, at: Timestamp) -> Self {
        let NewAttempt { nonce, ordinal, kind, hash, raw, fees } = new;
        Attempt {
            nonce,
            ordinal,
            kind,
            hash,
            raw,
            fees,
            created_at: at,
            sends: 0,
            last_sent_at: None,
            last_outcome: None,
            history: Vec::new(),
        }
    }

    /// Adds one send. The history keeps the newest [`Attempt::HISTORY`] sends.
    pub fn record_send(&mut self, report: &SendReport, at: Timestamp) {
        let SendReport { outcome, text, heard, .. } = report.clone();
        self.sends = self.sends.saturating_add(1);
        self.last_sent_at = Some(at);
        self.last_outcome = Some((outcome, text.clone()));
        self.history.push(SendRecord { at, outcome, text, heard });
        let surplus = self.history.len().saturating_sub(Attempt::HISTORY);
        self.history.drain(..surplus);
    }
}

/// One send of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRecord {
    pub at: Timestamp,
    pub outcome: SendOutcome,
    pub text: NodeText,
    pub heard: Vec<EndpointAnswer>,
}

/// The answer of one endpoint to one send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointAnswer {
    /// The endpoint's name, which contains no secret.
    pub endpoint: NodeText,
    pub outcome: SendOutcome,
    pub text: NodeText,
}

/// The result of one send, which is kept with its attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendReport {
    pub nonce: Nonce,
    pub hash: B256,
    pub outcome: SendOutcome,
    pub text: NodeText,
    pub heard: Vec<EndpointAnswer>,
}

names! {
    /// The state of a slot in the pools of chain nodes. A signal guides the lane; it proves nothing (P9).
    MempoolSignal {
        /// A node has an attempt of the slot in its pool.
        InMempool = "in_mempool",
        /// Every node answered. None has an attempt, and none counts the nonce as taken.
        LikelyDropped = "likely_dropped",
        /// No node has an attempt, and a node counts the nonce as taken.
        LikelyReplaced = "likely_replaced",
        Unknown = "unknown",
    }
}

names! {
    /// The meaning of a node's answer to a send. The outcome decides what to try next; only a mined hash decides how
    /// the intent ends (P9).
    SendOutcome {
        Accepted = "accepted",
        AlreadyKnown = "already_known",
        NonceTooLow = "nonce_too_low",
        NonceTooHigh = "nonce_too_high",
        ReplacementUnderpriced = "replacement_underpriced",
        Underpriced = "underpriced",
        InsufficientFunds = "insufficient_funds",
        Rejected = "rejected",
        Wait = "wait",
        PoolFull = "pool_full",
        RateLimited = "rate_limited",
        Unavailable = "unavailable",
        Unknown = "unknown",
    }
}
