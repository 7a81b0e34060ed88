//! Revm, which reth, anvil, hardhat and op-reth run, and texts of reth and its forks besides those of geth.

use super::Table;
use gapless_chain::Reason::*;

/// The `Display` texts of `InvalidTransaction`.
pub(crate) const REVM: &Table = &Table {
    name: "revm",
    rows: &[
        (NonceUsed, &["nonce # too low"]),
        (NonceGap, &["nonce # too high"]),
        (NonceExhausted, &["nonce overflow"]),
        (InsufficientFunds, &["lack of funds"]),
        (FeeTooLow, &["gas price is less than basefee", "blob gas price ... is greater than max fee per blob gas"]),
        (BadFees, &["priority fee is greater than max fee"]),
        (
            GasTooLow,
            &[
                "call gas cost ... exceeds the gas limit",
                "gas floor ... exceeds the gas limit",
                "initial gas ... exceeds",
            ],
        ),
        (
            GasTooHigh,
            &["caller gas limit exceeds the block gas limit", "transaction gas limit ... is greater than the cap"],
        ),
        (InitcodeTooLarge, &["create initcode size limit", "initcode size limit"]),
        (SenderNotEoa, &["senders with deployed code"]),
        (BadValue, &["overflow payment"]),
        (
            BadBlobs,
            &[
                "empty blobs",
                "blob create transaction",
                "blob version not supported",
                "blob versioned hashes not supported",
            ],
        ),
        (BadAuthorizations, &["empty authorization list", "authorization list ... invalid"]),
    ],
};

/// `PoolErrorKind`, `InvalidPoolTransactionError`, `InvalidTransactionError`, `RpcInvalidTransactionError`.
pub(crate) const RETH: &Table = &Table {
    name: "reth",
    rows: &[
        (AlreadyKnown, &["already imported"]),
        (ReplacementUnderpriced, &["insufficient gas price to replace existing transaction"]),
        (
            NonceMismatch,
            &["nonce is not consistent next nonce {account} tx nonce {tx}", "next nonce {account} tx nonce {tx}"],
        ),
        (
            FeeTooLow,
            &[
                "priority fee below minimum",
                "feecap # below chain minimum",
                "below chain minimum",
                "gas price is less than",
                "effective ... below minimum",
            ],
        ),
        (
            InsufficientFunds,
            &["overdraws from account", "does not have enough funds", "insufficient funds", "not enough balance"],
        ),
        (AccountLimit, &["identified as a spammer", "sender ... exceeded ... capacity"]),
        (TypeConflict, &["conflicts with existing transaction"]),
        (PoolFull, &["discarded outright due to pool size", "txpool is full"]),
        (SenderNotEoa, &["sender is not an eoa", "signer has bytecode", "signer account has bytecode"]),
        (
            ForkNotActive,
            &["transactions are disabled", "is not active", "sidecar before osaka", "before spurious dragon"],
        ),
        (
            GasTooHigh,
            &[
                "intrinsic gas too high",
                "gas limit ... exceeds block",
                "gas limit ... exceeds blocks",
                "exceeds max transaction gas limit",
                "gas limit ... exceeds max",
                "gas limit ... exceeds the max",
                "gas overflow",
                "gas too high",
            ],
        ),
        (GasTooLow, &["gas too low"]),
        (InitcodeTooLarge, &["exceeds max init code size"]),
        (TooLarge, &["input data too large", "size # exceeds max", "size # exceeds"]),
        (WrongChain, &["chain id does not match"]),
        (BadSignature, &["invalid transaction signature", "failed to recover", "signer recovery"]),
        (BadFees, &["priority fee per gas higher", "tip above fee cap"]),
        (BadBlobs, &["sidecar after osaka", "blob sidecar", "unexpected eip 4844 sidecar", "blob transaction"]),
        (
            BadAuthorizations,
            &["no items in authorization list", "no items in the authorization list", "authorization list ... empty"],
        ),
        (Malformed, &["failed to decode signed transaction", "failed to decode", "empty transaction data"]),
        (LocalPolicy, &["transaction conditional", "rejected by conditional"]),
        (Overloaded, &["internal blocking task"]),
    ],
};

pub(crate) const MEGAETH: &Table = &Table {
    name: "megaeth",
    rows: &[
        (RateLimited, &["over network traffic limit", "over compute unit limit", "over ... limit retry in"]),
        (TimedOut, &["error forwarding request context deadline exceeded"]),
        (GatewayError, &["error forwarding request"]),
    ],
};
