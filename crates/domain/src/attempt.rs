//! Attempts: the signed transactions of a slot.

use alloy_primitives::{B256, Bytes};

use crate::names::names;
use crate::nonce::Nonce;
use crate::payload::Fees;
use crate::text::NodeText;
use crate::time::Timestamp;

names! {
    /// What a signed transaction does for its slot. A cancel that is bumped is still a cancel: the kind says whose effect
    /// it carries, so that the mined hash alone tells how the intent ended.
    AttemptKind {
        Original = "original",
        Bump = "bump",
        Replace = "replace",
        Cancel = "cancel",
        Fill = "fill",
    }
}

impl AttemptKind {
    /// Does mining it bring about what the intent asked for?
    pub fn carries_payload(self) -> bool {
        match self {
            AttemptKind::Original | AttemptKind::Bump | AttemptKind::Replace => true,
            AttemptKind::Cancel | AttemptKind::Fill => false,
        }
    }
}

impl SendOutcome {
    /// Is it refused for what it is, or for want of funds? Then it is in no pool of those who were asked.
    pub fn is_refusal(self) -> bool {
        matches!(self, SendOutcome::Rejected | SendOutcome::InsufficientFunds)
    }

    /// Did a node take it, now or before?
    pub fn is_taken(self) -> bool {
        matches!(self, SendOutcome::Accepted | SendOutcome::AlreadyKnown)
    }
}

/// A signed transaction that is about to be made durable. Its bytes may go to a node only after that (P3).
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
    /// How often it was given to a node, as far as we know.
    pub sends: u32,
    pub last_sent_at: Option<Timestamp>,
    pub last_outcome: Option<(SendOutcome, NodeText)>,
    /// The newest sends, oldest first, at most [`Attempt::HISTORY`] of them. For people: a lane is loaded without it.
    pub history: Vec<SendRecord>,
}

impl Attempt {
    /// How many sends are kept in the history.
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

/// One time that an attempt was given to nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRecord {
    pub at: Timestamp,
    pub outcome: SendOutcome,
    pub text: NodeText,
    pub heard: Vec<EndpointAnswer>,
}

/// What one endpoint said to one send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointAnswer {
    /// Its name, which holds no secret.
    pub endpoint: NodeText,
    pub outcome: SendOutcome,
    pub text: NodeText,
}

/// What came of one send, to be kept with its attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendReport {
    pub nonce: Nonce,
    pub hash: B256,
    pub outcome: SendOutcome,
    pub text: NodeText,
    pub heard: Vec<EndpointAnswer>,
}

names! {
    /// What nodes' pools show of a slot. It guides; it proves nothing (P9).
    MempoolSignal {
        /// Some node has one of ours.
        InMempool = "in_mempool",
        /// Every node was heard, and none has one, nor counts its nonce as taken.
        LikelyDropped = "likely_dropped",
        /// None has one, and some node counts its nonce as taken.
        LikelyReplaced = "likely_replaced",
        Unknown = "unknown",
    }
}

names! {
    /// What a node's answer to a send means. Only a mined hash decides anything (P9); this decides what to try next.
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
