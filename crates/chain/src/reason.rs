//! Why a node answered as it did, and what each reason means.

use crate::verdict::Verdict;
use gapless_domain::names;

names! {
    /// What a text tells, as a stable code. The tables name only reasons; [`Reason::verdict`] decides what they mean.
    Reason {
        Accepted = "accepted",
        /// The same transaction, by hash, is in the pool or was seen before.
        AlreadyKnown = "already_known",
        /// The account's nonce has passed this one; by whose transaction, the text does not prove (S06).
        NonceUsed = "nonce_used",
        NonceGap = "nonce_gap",
        /// A text with both nonces in it: the numbers decide.
        NonceMismatch = "nonce_mismatch",
        ReplacementUnderpriced = "replacement_underpriced",
        FeeTooLow = "fee_too_low",
        InsufficientFunds = "insufficient_funds",

        NonceExhausted = "nonce_exhausted",
        GasTooLow = "gas_too_low",
        GasTooHigh = "gas_too_high",
        TooLarge = "too_large",
        InitcodeTooLarge = "initcode_too_large",
        BadSignature = "bad_signature",
        WrongChain = "wrong_chain",
        BadFees = "bad_fees",
        BadValue = "bad_value",
        TypeUnsupported = "type_unsupported",
        BadBlobs = "bad_blobs",
        BadAuthorizations = "bad_authorizations",
        Malformed = "malformed",
        /// The chain's prover or virtual machine cannot take this transaction.
        ProverLimit = "prover_limit",
        /// The chain's account or paymaster code refused it.
        ValidationFailed = "validation_failed",
        BadRecipient = "bad_recipient",
        /// A time that the signed bytes themselves name has passed.
        BytesExpired = "bytes_expired",

        NonceTooFar = "nonce_too_far",
        DelegatedLimit = "delegated_limit",
        Reserved = "reserved",
        AccountLimit = "account_limit",
        FeeCap = "fee_cap",
        SenderNotEoa = "sender_not_eoa",
        /// A list of the node, the sequencer or the chain. A fill would come from the same sender and meet the same list, so
        /// that only an operator can help.
        SenderBlocked = "sender_blocked",
        ForkNotActive = "fork_not_active",
        /// The pool holds a transaction of another kind (blob or not) of this account.
        TypeConflict = "type_conflict",
        FutureReplacesPending = "future_replaces_pending",
        LowerNonceInvalid = "lower_nonce_invalid",
        InProgress = "in_progress",
        ConditionUnmet = "condition_unmet",
        /// A setting of this node; another node may take the bytes.
        LocalPolicy = "local_policy",

        PoolFull = "pool_full",

        RateLimited = "rate_limited",
        QuotaExhausted = "quota_exhausted",

        /// Nobody knows whether the node got the bytes.
        TimedOut = "timed_out",
        Unreachable = "unreachable",
        GatewayError = "gateway_error",
        Overloaded = "overloaded",
        NotReady = "not_ready",
        MethodMissing = "method_missing",
        Unauthorized = "unauthorized",

        Reverted = "reverted",
        /// The call ended without a revert: out of gas, a bad opcode.
        ExecutionFailed = "execution_failed",

        /// The operator's own pattern; it says its verdict itself.
        Override = "override",
        /// The node took it and then did not see it mined in time, or the like: it says too little to act on.
        NoVerdict = "no_verdict",
        /// Nobody has a pattern for it.
        Unrecognized = "unrecognized",
        /// Families disagree about the text, and nobody told which one this is.
        Ambiguous = "ambiguous",
        /// The node returned another hash than ours.
        HashMismatch = "hash_mismatch",
    }
}

impl Reason {
    /// What it means, the same for every family.
    pub const fn verdict(self) -> Verdict {
        match self {
            Reason::Accepted => Verdict::Accepted,
            Reason::AlreadyKnown => Verdict::AlreadyKnown,
            Reason::NonceUsed => Verdict::NonceTooLow,
            Reason::NonceGap => Verdict::NonceTooHigh,
            Reason::ReplacementUnderpriced => Verdict::ReplacementUnderpriced,
            Reason::FeeTooLow => Verdict::Underpriced,
            Reason::InsufficientFunds => Verdict::InsufficientFunds,
            Reason::NonceExhausted
            | Reason::GasTooLow
            | Reason::GasTooHigh
            | Reason::TooLarge
            | Reason::InitcodeTooLarge
            | Reason::BadSignature
            | Reason::WrongChain
            | Reason::BadFees
            | Reason::BadValue
            | Reason::TypeUnsupported
            | Reason::BadBlobs
            | Reason::BadAuthorizations
            | Reason::Malformed
            | Reason::ProverLimit
            | Reason::ValidationFailed
            | Reason::BadRecipient
            | Reason::BytesExpired => Verdict::Rejected,
            Reason::NonceTooFar
            | Reason::DelegatedLimit
            | Reason::Reserved
            | Reason::AccountLimit
            | Reason::FeeCap
            | Reason::SenderNotEoa
            | Reason::SenderBlocked
            | Reason::ForkNotActive
            | Reason::TypeConflict
            | Reason::FutureReplacesPending
            | Reason::LowerNonceInvalid
            | Reason::InProgress
            | Reason::ConditionUnmet
            | Reason::LocalPolicy => Verdict::Wait,
            Reason::PoolFull => Verdict::PoolFull,
            Reason::RateLimited | Reason::QuotaExhausted => Verdict::RateLimited,
            Reason::TimedOut
            | Reason::Unreachable
            | Reason::GatewayError
            | Reason::Overloaded
            | Reason::NotReady
            | Reason::MethodMissing
            | Reason::Unauthorized => Verdict::Unavailable,
            Reason::Reverted | Reason::ExecutionFailed => Verdict::Reverted,
            // A mismatch that is left over has numbers that decide nothing.
            Reason::NonceMismatch
            | Reason::Override
            | Reason::NoVerdict
            | Reason::Unrecognized
            | Reason::Ambiguous
            | Reason::HashMismatch => Verdict::Unknown,
        }
    }
}
