//! What an answer means for what to do next.

use gapless_domain::SendOutcome;

use gapless_domain::names;

names! {
    /// What an answer to a send, an estimate or a call means. The outcomes of a send, and `Reverted`, which only the
    /// execution of a call can tell.
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
        /// Refused because of a state that can change without us.
        Wait = "wait",
        PoolFull = "pool_full",
        RateLimited = "rate_limited",
        Unavailable = "unavailable",
        Reverted = "reverted",
        Unknown = "unknown",
    }
}

impl Verdict {
    /// The same for a send. A node that executes before it pools and reverts has refused because of the state of its head,
    /// so a revert is a wait: the effect of an earlier transaction of ours may be missing there.
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
