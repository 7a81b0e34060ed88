//! Nethermind: `AcceptTxResult` as bare names until 1.31, `TxPoolErrorMessages` and `TxErrorMessages` since.

use super::Table;
use gapless_chain::Reason::*;

pub(crate) const NETHERMIND: &Table = &Table {
    name: "nethermind",
    rows: &[
        (AlreadyKnown, &["alreadyknown"]),
        // "Transaction invalid, …" quotes the validator. Its details come before rows that also match a state.
        (ForkNotActive, &["invalidtxtype transaction type in"]),
        (NonceExhausted, &["noncetoohigh nonce exceeds max nonce", "nonce exceeds max nonce"]),
        (DelegatedLimit, &["delegation nonce gap", "notcurrentnoncefordelegation", "futurenoncefordelegatedaccount"]),
        (Reserved, &["delegation authority has pending transaction", "delegatorhaspendingtx"]),
        // Our key has used this nonce for unnamed bytes. A search for our hashes is the safe reaction.
        (NonceUsed, &["oldnonce", "ownnoncealreadyused"]),
        (NonceTooFar, &["noncetoofarinfuture", "nonce too far in future", "nonce too far in the future"]),
        (NonceGap, &["noncegap", "future nonce expected nonce", "nonce too high"]),
        (
            ReplacementUnderpriced,
            &["replacementnotallowed", "replacement not allowed", "replacement transaction underpriced"],
        ),
        (
            FeeTooLow,
            &[
                "feetoolow",
                "feetoolowtocompete",
                "fee too low",
                "too low to compete",
                "maxfeepergas too low",
                "effectivepriorityfeepergas too low",
                "miner premium is negative",
                "affordable gas price",
            ],
        ),
        (
            InsufficientFunds,
            &["insufficientfunds", "less than sending value", "cumulative cost", "insufficient sender balance"],
        ),
        (TypeConflict, &["pendingtxsofconflictingtype", "pending transaction type conflict", "conflicting type"]),
        (SenderNotEoa, &["senderiscontract", "sender is contract", "sender has deployed code"]),
        (SenderBlocked, &["permissiondenied"]),
        (
            GasTooHigh,
            &[
                "gaslimitexceeded",
                "gas limit reached",
                "txgaslimitcapexceeded",
                "gas limit exceeded",
                "gas limit of rejected tx",
            ],
        ),
        (BadValue, &["int256overflow", "transaction cost overflow"]),
        (
            BadSignature,
            &["failedtoresolvesender", "failed to recover sender", "invalidtxsignature", "signature is invalid"],
        ),
        (WrongChain, &["invalidtxchainid"]),
        (TypeUnsupported, &["notsupportedtxtype", "unsupported transaction type"]),
        (TooLarge, &["maxtxsizeexceeded", "transaction too large", "max tx size exceeded"]),
        (InitcodeTooLarge, &["contractsizetoobig", "eofcontractsizeinvalid"]),
        (BadFees, &["invalidmaxpriorityfeepergas"]),
        (
            BadBlobs,
            &[
                "invalidblobproof",
                "invalidblobproofs",
                "invalidblobdatasize",
                "incompleteblobdata",
                "blob transaction must have at least",
                "blobtxgaslimitexceeded",
                "invalidtxproofversion",
                "missing its blob sidecar",
            ],
        ),
        (BadAuthorizations, &["missingauthorizationlist", "invalidauthoritysignature", "notallowedauthorizationlist"]),
        // The validator looks at the bytes only, so its refusals are permanent.
        (Malformed, &["transaction invalid", "^invalid$", "^invalid invalidtx", "^invalid invalidtransaction"]),
        (NotReady, &["^syncing", "node is syncing"]),
        (Overloaded, &["shutting down"]),
        (TimedOut, &["canceled due to enabled timeout", "^timeout"]),
        (RateLimited, &["too many requests"]),
        (InProgress, &["noncealreadyinprogress"]),
    ],
};
