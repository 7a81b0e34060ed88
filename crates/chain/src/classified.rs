//! The meaning of a failure or an answer of a node.

use alloy_primitives::{B256, Bytes};
use gapless_domain::{EndpointAnswer, NodeText, SendOutcome};

use crate::reason::Reason;
use crate::verdict::Verdict;

/// The meaning of a failure or an answer, its reason, and the rule that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classified {
    pub verdict: Verdict,
    pub reason: Reason,
    pub source: Source,
    /// The text of the node, safe to store with the attempt. Unknown texts are counted by it (C06).
    pub text: NodeText,
    /// The return value of a reverted call, if the node returned it.
    pub revert_data: Option<Bytes>,
}

/// The rule that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The operator's override at this position, from 0.
    Override(usize),
    Table {
        table: &'static str,
        pattern: &'static str,
    },
    HttpStatus(u16),
    Code(i64),
    /// The transport itself: a time-out, no connection.
    Transport,
    /// The hash that the node returned.
    Hash(B256),
    /// No rule matched.
    NoRule,
}

impl Classified {
    /// The meaning of a hash that a node returned for a send. A different hash is a contradiction: it proves neither
    /// that our transaction was accepted nor that it was refused (S08).
    pub fn answered(ours: B256, returned: B256) -> Self {
        let reason = if ours == returned { Reason::Accepted } else { Reason::HashMismatch };
        let text = NodeText::new(&returned.to_string());
        Classified { verdict: reason.verdict(), reason, source: Source::Hash(returned), text, revert_data: None }
    }

    /// The meaning of a failure whose reason is known, with the text of the node.
    pub fn new(reason: Reason, source: Source, text: &str) -> Self {
        let text = NodeText::new(text);
        Classified { verdict: reason.verdict(), reason, source, text, revert_data: None }
    }

    /// The length to which the text of one endpoint is cut. The combined answer keeps its whole text.
    pub const HEARD_CHARS: usize = 300;

    /// The answer of one endpoint to a send, for the record of the attempt.
    pub fn heard_from(&self, endpoint: &str) -> EndpointAnswer {
        let outcome = self.send_outcome();
        let text = match outcome {
            // The text is our own hash and needs no record.
            SendOutcome::Accepted => NodeText::default(),
            // Transport failures have no text.
            _ if self.text.as_str().is_empty() => NodeText::new(self.reason.as_str()),
            _ => NodeText::new(&self.text.as_str().chars().take(Self::HEARD_CHARS).collect::<String>()),
        };
        EndpointAnswer { endpoint: NodeText::new(endpoint), outcome, text }
    }

    pub fn send_outcome(&self) -> SendOutcome {
        self.verdict.send_outcome()
    }
}
