//! The meaning of an answer for the next step.

use gapless_domain::{SendOutcome, names};

names! {
    /// The meaning of an answer to a send, an estimate or a call: the outcomes of a send, and `Reverted` for the
    /// execution of a call.
    Verdict {
        Accepted = "accepted",
        AlreadyKnown = "already_known",
        NonceTooLow = "nonce_too_low",
        NonceTooHigh = "nonce_too_high",
        ReplacementUnderpriced = "replacement_underpriced",
        Underpriced = "underpriced",
        InsufficientFunds = "insufficient_funds",
        /// Permanent for these bytes on every node.
        Rejected = "rejected",
        /// Refused because of a state that can change by itself.
        Wait = "wait",
        PoolFull = "pool_full",
        RateLimited = "rate_limited",
        Unavailable = "unavailable",
        Reverted = "reverted",
        Unknown = "unknown",
    }
}

impl Verdict {
    /// The order of several answers to one send; the lowest rank counts (S10). First acceptance, then no verdict (the
    /// endpoint may have accepted), then the refusals, the least final first: a wait, a price that is too low, a used
    /// nonce, and last bytes that no node will ever accept.
    pub const fn rank(self) -> u8 {
        match self {
            Verdict::Accepted => 0,
            Verdict::AlreadyKnown => 1,
            Verdict::Unknown => 2,
            Verdict::Unavailable => 3,
            Verdict::RateLimited => 4,
            Verdict::PoolFull => 5,
            Verdict::Wait => 6,
            Verdict::Reverted => 7,
            Verdict::NonceTooHigh => 8,
            Verdict::InsufficientFunds => 9,
            Verdict::Underpriced => 10,
            Verdict::ReplacementUnderpriced => 11,
            Verdict::NonceTooLow => 12,
            Verdict::Rejected => 13,
        }
    }

    /// The outcome of a send. Some nodes execute a transaction before they pool it. A revert there depends on the state
    /// at their head, where the effect of an earlier transaction may be missing, so it is a wait.
    pub const fn send_outcome(self) -> SendOutcome {
        match self {
            Verdict::Accepted => SendOutcome::Accepted,
            Verdict::AlreadyKnown => SendOutcome::AlreadyKnown,
            Verdict::NonceTooLow => SendOutcome::NonceTooLow,
            Verdict::NonceTooHigh => SendOutcome::NonceTooHigh,
            Verdict::ReplacementUnderpriced => SendOutcome::ReplacementUnderpriced,
            Verdict::Underpriced => SendOutcome::Underpriced,
            Verdict::InsufficientFunds => SendOutcome::InsufficientFunds,
            Verdict::Rejected => SendOutcome::Rejected,
            Verdict::Wait | Verdict::Reverted => SendOutcome::Wait,
            Verdict::PoolFull => SendOutcome::PoolFull,
            Verdict::RateLimited => SendOutcome::RateLimited,
            Verdict::Unavailable => SendOutcome::Unavailable,
            Verdict::Unknown => SendOutcome::Unknown,
        }
    }
}
