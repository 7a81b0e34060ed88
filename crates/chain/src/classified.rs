//! The classifier's answer.

use alloy_primitives::{B256, Bytes};
use gapless_domain::{EndpointAnswer, NodeText, SendOutcome};

use crate::failure::NodeFailure;
use crate::reason::Reason;
use crate::verdict::Verdict;

/// What a failure (or an answer) means, why, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classified {
    pub verdict: Verdict,
    pub reason: Reason,
    pub source: Source,
    /// What was said, safe to keep with the attempt; of an unknown text, what has to be counted (C06).
    pub text: NodeText,
    /// What the call returned when it reverted, as far as the node told.
    pub revert_data: Option<Bytes>,
}

/// Who decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The operator's override of this position, counted from 0.
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
    Nobody,
}

impl Classified {
    /// What became of a send to which a node answered with a hash. Another hash than ours is a contradiction: it proves
    /// neither that ours was taken nor that it was not (S08).
    pub fn answered(ours: B256, returned: B256) -> Self {
        let reason = if ours == returned { Reason::Accepted } else { Reason::HashMismatch };
        let text = NodeText::new(&returned.to_string());
        Classified { verdict: reason.verdict(), reason, source: Source::Hash(returned), text, revert_data: None }
    }

    pub(crate) fn of(reason: Reason, source: Source, failure: &NodeFailure<'_>) -> Self {
        let text = NodeText::new(failure.text());
        Classified { verdict: reason.verdict(), reason, source, text, revert_data: None }
    }

    /// So much of one endpoint's words is kept for people. What decides is kept whole, once for all of them.
    pub const HEARD_CHARS: usize = 300;

    /// The answer to a send as one endpoint's word on it, to be kept with the attempt.
    pub fn heard_from(&self, endpoint: &str) -> EndpointAnswer {
        let outcome = self.send_outcome();
        let text = match outcome {
            // The hash that we sent: nothing that anybody has to read or keep.
            SendOutcome::Accepted => NodeText::default(),
            // The road's own failures come without words.
            _ if self.text.as_str().is_empty() => NodeText::new(self.reason.as_str()),
            _ => NodeText::new(&self.text.as_str().chars().take(Self::HEARD_CHARS).collect::<String>()),
        };
        EndpointAnswer { endpoint: NodeText::new(endpoint), outcome, text }
    }

    pub fn send_outcome(&self) -> SendOutcome {
        self.verdict.send_outcome()
    }
}
