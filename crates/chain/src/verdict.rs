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
    /// The one order of several answers to one send, the one that counts first (S10): taken by somebody; no verdict, since whoever gave none
    /// may have taken it; then the refusals, the least final first. What only has to wait is less final than what has to be paid
    /// better, that less than what says that the nonce is gone, and nothing is more final than bytes that no node will ever take.
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
