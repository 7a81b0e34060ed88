//! The reasons of node errors, and the verdict of each.

use crate::verdict::Verdict;
use gapless_domain::names;

names! {
    /// The meaning of a text, as a stable code. Adapters name reasons only; [`Reason::verdict`] has their verdicts.
    Reason {
        Accepted = "accepted",
        /// A transaction with this hash is in the pool or was seen before.
        AlreadyKnown = "already_known",
        /// The nonce of the account is past this one. The text does not prove by which transaction (S06).
        NonceUsed = "nonce_used",
        NonceGap = "nonce_gap",
        /// The text has both nonces, and their comparison decides.
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
        /// The prover or virtual machine of the chain cannot process this transaction.
        ProverLimit = "prover_limit",
        /// The account or paymaster code of the chain refused the transaction.
        ValidationFailed = "validation_failed",
        BadRecipient = "bad_recipient",
        /// A time limit inside the signed bytes has passed.
        BytesExpired = "bytes_expired",

        NonceTooFar = "nonce_too_far",
        DelegatedLimit = "delegated_limit",
        Reserved = "reserved",
        AccountLimit = "account_limit",
        FeeCap = "fee_cap",
        SenderNotEoa = "sender_not_eoa",
        /// The sender is on a block list of the node, the sequencer or the chain. A filler has the same sender, so only
        /// an operator can help.
        SenderBlocked = "sender_blocked",
        ForkNotActive = "fork_not_active",
        /// The pool has a transaction of another kind (blob or not) of this account.
        TypeConflict = "type_conflict",
        FutureReplacesPending = "future_replaces_pending",
        LowerNonceInvalid = "lower_nonce_invalid",
        InProgress = "in_progress",
        ConditionUnmet = "condition_unmet",
        /// A setting of this node. Another node may accept the bytes.
        LocalPolicy = "local_policy",

        PoolFull = "pool_full",

        RateLimited = "rate_limited",
        QuotaExhausted = "quota_exhausted",

        /// No answer in time. The node may have the bytes.
        TimedOut = "timed_out",
        Unreachable = "unreachable",
        GatewayError = "gateway_error",
        Overloaded = "overloaded",
        NotReady = "not_ready",
        MethodMissing = "method_missing",
        Unauthorized = "unauthorized",

        Reverted = "reverted",
        /// The call failed without a revert: out of gas, an invalid opcode.
        ExecutionFailed = "execution_failed",

        /// The operator's own pattern, with its own verdict.
        Override = "override",
        /// The text is known and proves nothing, for example that the node did not see the transaction mined in time.
        NoVerdict = "no_verdict",
        /// No pattern matches.
        Unrecognized = "unrecognized",
        /// The family is unknown, and the families disagree about the text.
        Ambiguous = "ambiguous",
        /// The node returned a different hash.
        HashMismatch = "hash_mismatch",
    }
}

impl Reason {
    /// The verdict of a reason, for all families.
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
            // The numbers of a remaining mismatch decide nothing.
            Reason::NonceMismatch
            | Reason::Override
            | Reason::NoVerdict
            | Reason::Unrecognized
            | Reason::Ambiguous
            | Reason::HashMismatch => Verdict::Unknown,
        }
    }
}
