//! Geth: `core/error.go`, `core/txpool`, `core/types`, `internal/ethapi`. Much of the ecosystem uses these texts.

use super::Table;
use gapless_chain::Reason::*;

pub(crate) const GETH: &Table = &Table {
    name: "geth",
    rows: &[
        (ReplacementUnderpriced, &["replacement transaction underpriced", "replacement underpriced"]),
        (AlreadyKnown, &["already known", "known transaction"]),
        (NonceExhausted, &["nonce has max value", "nonce uint64 overflow"]),
        (NonceUsed, &["nonce too low", "nonce is too low"]),
        // Before the nonce gap: a gap of a delegated account breaks the pool rule for delegated accounts.
        (
            DelegatedLimit,
            &[
                "in flight transaction limit reached",
                "transaction limit reached for delegated accounts",
                "gapped nonce tx from delegated",
            ],
        ),
        (Reserved, &["address already reserved", "authority already reserved", "already reserved"]),
        (NonceGap, &["nonce too high", "nonce is too high"]),
        (AccountLimit, &["account limit exceeded"]),
        (FutureReplacesPending, &["future transaction tries to replace pending"]),
        (
            FeeTooLow,
            &[
                "transaction underpriced",
                "transaction gas price below minimum",
                "gas price below minimum",
                "max fee per gas less than",
                "max fee per blob gas less than",
                "fee cap less than",
                "gas tip cap # minimum needed",
                "blob fee cap # minimum needed",
                "tip needed # tip permitted",
            ],
        ),
        (
            InsufficientFunds,
            &["insufficient funds for", "insufficient balance for transfer", "transaction would cause overdraft"],
        ),
        (FeeCap, &["exceeds the configured cap"]),
        (SenderNotEoa, &["sender not an eoa"]),
        (ForkNotActive, &["pool not yet in", "not yet active"]),
        (
            TypeUnsupported,
            &[
                "transaction type not supported",
                "tx type # not supported",
                "transaction type not valid in this context",
                "unsupported transaction type",
            ],
        ),
        (
            BadFees,
            &[
                "max fee per gas higher than",
                "max priority fee per gas higher than",
                "tip higher than fee cap",
                "max fee per blob gas higher than",
            ],
        ),
        (GasTooLow, &["intrinsic gas too low", "insufficient gas for floor data gas", "floor data gas"]),
        (
            GasTooHigh,
            &["gas uint64 overflow", "exceeds block gas limit", "transaction gas limit too high", "gas limit too high"],
        ),
        (TooLarge, &["oversized data", "tx size too large", "transaction too large"]),
        (InitcodeTooLarge, &["max initcode size exceeded", "initcode size exceeded", "max init code size exceeded"]),
        (WrongChain, &["invalid chain id", "chain id mismatch", "wrong chain id"]),
        (
            BadSignature,
            &["invalid sender", "invalid transaction v r s values", "invalid signature", "unexpected protection"],
        ),
        (BadValue, &["negative value"]),
        (
            BadBlobs,
            &[
                "missing sidecar",
                "wrong sidecar",
                "sidecar version",
                "blob limit exceeded",
                "blobless blob transaction",
                "too many blobs",
                "invalid number of # blobs",
                "invalid number of # blob",
                "invalid blob proof",
                "kzg verification",
                "computed versioned hash",
                "blob # computed hash",
                "mismatches transaction one",
                "blob transaction missing blob hashes",
                "blob transaction of type create",
                "blob # hash",
                "blob proof",
                "blob transaction has too many",
                "has invalid hash version",
            ],
        ),
        (
            BadAuthorizations,
            &[
                "set code tx must have at least one authorization",
                "set code transaction must not be a create",
                "eip 7702 transaction with empty auth list",
                "eip 7702 transaction cannot be used to create contract",
                "empty auth list",
            ],
        ),
        // A setting of the node. Another node may accept unprotected bytes.
        (LocalPolicy, &["only replay protected"]),
        (
            Malformed,
            &[
                "rlp expected",
                "rlp input",
                "rlp element",
                "rlp value",
                "rlp too",
                "rlp non canonical",
                "rlp end of list",
                "unexpected end of rlp",
                "typed transaction too short",
                "short typed transaction",
                "transaction type byte",
            ],
        ),
        (PoolFull, &["txpool is full", "tx pool is full", "transaction pool is full", "txpool full", "tx pool full"]),
        (TimedOut, &["request timed out", "execution aborted timeout"]),
        (NotReady, &["pending state is not available", "txpool is disabled"]),
        (MethodMissing, &["does not exist is not available"]),
    ],
};
