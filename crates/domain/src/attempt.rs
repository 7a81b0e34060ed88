//! Attempts: the signed transactions of a slot.

use alloy_primitives::{B256, Bytes};

use crate::action::Fees;
use crate::names::names;
use crate::nonce::Nonce;
use crate::text::NodeText;
use crate::time::Timestamp;

names! {
    /// Purpose of a signed transaction. A bumped cancel is still a cancel: the kind names the effect of the
    /// transaction, so the mined hash alone decides how the intent ended.
    AttemptKind {
        Original = "original",
        Bump = "bump",
        Replace = "replace",
        Cancel = "cancel",
        Fill = "fill",
    }
}

impl AttemptKind {
    /// True if the transaction carries the intent's payload, and false if it is a filler.
    pub fn carries_payload(self) -> bool {
        match self {
            AttemptKind::Original | AttemptKind::Bump | AttemptKind::Replace => true,
            AttemptKind::Cancel | AttemptKind::Fill => false,
        }
    }
}

impl SendOutcome {
    /// True if the node rejected the transaction itself, or for lack of funds. The transaction is then not in the pools
    /// of the nodes that answered.
    pub fn is_refusal(self) -> bool {
        matches!(self, SendOutcome::Rejected | SendOutcome::InsufficientFunds)
    }

    /// True if a node has the transaction, from this send or an earlier one.
    pub fn is_accepted(self) -> bool {
        matches!(self, SendOutcome::Accepted | SendOutcome::AlreadyKnown)
    }
}

/// A signed transaction that is about to be made durable. Its bytes are sent only after that (P3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAttempt {
    pub nonce: Nonce,
    /// Number of the attempt within its slot, from 0.
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
    /// Number of sends in the ledger. A send whose report was lost in a crash is not counted.
    pub sends: u32,
    pub last_sent_at: Option<Timestamp>,
    pub last_outcome: Option<(SendOutcome, NodeText)>,
    /// The newest sends, oldest first, at most [`Attempt::HISTORY`] of them. For display; a lane is loaded without
    /// them.
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
        let SendReport { outcome, text, answers, .. } = report.clone();
        self.sends = self.sends.saturating_add(1);
        self.last_sent_at = Some(at);
        self.last_outcome = Some((outcome, text.clone()));
        self.history.push(SendRecord { at, outcome, text, answers });
        let surplus = self.history.len().saturating_sub(Attempt::HISTORY);
        self.history.drain(..surplus);
    }
}

/// One send of an attempt, as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRecord {
    pub at: Timestamp,
    pub outcome: SendOutcome,
    pub text: NodeText,
    pub answers: Vec<EndpointAnswer>,
}

/// Answer of one endpoint to one send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointAnswer {
    /// Name of the endpoint, without secrets.
    pub endpoint: NodeText,
    pub outcome: SendOutcome,
    pub text: NodeText,
}

/// Result of one send, to be stored with its attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendReport {
    pub nonce: Nonce,
    pub hash: B256,
    pub outcome: SendOutcome,
    pub text: NodeText,
    pub answers: Vec<EndpointAnswer>,
}

names! {
    /// State of a slot in the mempools of the nodes. A signal is a hint and proves nothing (P9).
    MempoolSignal {
        /// Some node has one of the slot's attempts.
        InMempool = "in_mempool",
        /// Every node answered. No node has an attempt of the slot or counts the nonce as used.
        LikelyDropped = "likely_dropped",
        /// No node has an attempt of the slot, and some node counts the nonce as used.
        LikelyReplaced = "likely_replaced",
        /// Not every node answered.
        Unknown = "unknown",
    }
}

names! {
    /// Meaning of a node's answer to a send. The outcome decides the next try; only a mined hash decides the intent
    /// (P9).
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
