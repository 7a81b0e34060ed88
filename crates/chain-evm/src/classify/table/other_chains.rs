//! The relay of Hedera, frontier (Polkadot), monad, filecoin.

use super::Table;
use gapless_chain::Reason::*;

/// The JSON-RPC relay of the Hedera consensus nodes.
pub(crate) const HEDERA: &Table = &Table {
    name: "hedera",
    rows: &[
        (NonceUsed, &["nonce too low"]),
        (NonceGap, &["nonce too high"]),
        (NoVerdict, &["wrong_nonce", "incorrect nonce"]),
        (FeeTooLow, &["is below configured minimum gas price", "gas price ... below", "insufficient_tx_fee"]),
        (
            InsufficientFunds,
            &[
                "insufficient funds",
                "insufficient_payer_balance",
                "insufficient_account_balance",
                "insufficient account balance",
            ],
        ),
        (GasTooLow, &["insufficient of intrinsic gas", "intrinsic gas"]),
        (GasTooHigh, &["exceeds max gas per sec", "exceeds block gas limit", "gas limit ... exceeds"]),
        (BadValue, &["value cant be non zero and less than", "value below", "1 tinybar"]),
        (RateLimited, &["hbar rate limit", "ip rate limit", "rate limit exceeded"]),
        (TooLarge, &["oversized data", "call data size", "calldata ... exceeds", "transaction size ... exceeds"]),
        (WrongChain, &["chainid ... not supported", "chain id ... not supported", "unsupported chain id"]),
        (TypeUnsupported, &["unsupported transaction type"]),
        // The receiver can switch the setting off.
        (LocalPolicy, &["receivers signature is enabled", "receiver signature"]),
        (SenderBlocked, &["not authorized to send"]),
        (BadSignature, &["invalid signature", "invalid_ethereum_transaction"]),
        (Malformed, &["failed to parse transaction", "invalid rlp"]),
        (
            Overloaded,
            &["returns a null value", "platform_transaction_not_created", "mirror node upstream failure", "busy"],
        ),
        // The sender has no account yet. Hedera creates one when the address is funded.
        (InsufficientFunds, &["resource not found address", "account ... not found", "payer_account_not_found"]),
        (MethodMissing, &["unsupported json rpc method", "method ... not found"]),
        (TimedOut, &["request timeout", "sdk timeout", "timeout exceeded"]),
    ],
};

/// The pool errors of Substrate, and their Ethereum texts in frontier.
pub(crate) const FRONTIER: &Table = &Table {
    name: "frontier",
    rows: &[
        (AlreadyKnown, &["alreadyimported", "already imported"]),
        (ReplacementUnderpriced, &["toolowpriority", "too low priority", "priority is too low"]),
        (
            NonceUsed,
            &[
                "pool stale",
                "invalidtransaction stale",
                "invalid stale",
                "invalidtransaction invalidtransaction stale",
                "transaction is outdated",
            ],
        ),
        (NonceGap, &["pool future", "invalidtransaction future", "invalid future", "will be valid in the future"]),
        (
            InsufficientFunds,
            &[
                "pool payment",
                "invalidtransaction payment",
                "invalid payment",
                "balance too low",
                "inability to pay some fees",
            ],
        ),
        (FeeTooLow, &["gas price less than block base fee", "gas price too low", "max fee per gas less than"]),
        (PoolFull, &["immediatelydropped", "immediately dropped", "exhaustsresources", "pool limit"]),
        (InProgress, &["temporarilybanned", "temporarily banned"]),
        (GasTooHigh, &["exceeds block gas limit", "exceeds transaction gas limit", "gas limit too high"]),
        (GasTooLow, &["gas limit too low", "gas limit reached"]),
        (BadFees, &["invalid fee input", "priority fee ... higher"]),
        (WrongChain, &["invalid chain id"]),
        (BadSignature, &["badproof", "bad proof", "invalid signature", "invalid transaction signature"]),
        (Malformed, &["decode transaction failed", "invalid rlp"]),
    ],
};

/// `EthTxPoolDropReason::as_user_string`.
pub(crate) const MONAD: &Table = &Table {
    name: "monad",
    rows: &[
        (
            ReplacementUnderpriced,
            &[
                "existing transaction had higher priority",
                "newer transaction had higher priority",
                "replacement transaction underpriced",
            ],
        ),
        (AlreadyKnown, &["already in pool", "already known"]),
        (NonceUsed, &["nonce too low"]),
        (FeeTooLow, &["fee too low"]),
        (InsufficientFunds, &["insufficient balance", "insufficient funds"]),
        (BadFees, &["max priority fee too high"]),
        (GasTooLow, &["gas limit too low"]),
        (GasTooHigh, &["exceeds transaction gas limit", "exceeds block gas limit", "gas limit too high"]),
        (WrongChain, &["invalid chain id"]),
        (InitcodeTooLarge, &["init code size limit exceeded"]),
        (TooLarge, &["encoded length limit exceeded"]),
        (TypeUnsupported, &["unsupported transaction type"]),
        (BadSignature, &["invalid transaction signature", "signature is invalid", "invalid signature"]),
        (BadAuthorizations, &["authorization list empty", "authorization list length limit exceeded"]),
        (Malformed, &["transaction decoding error", "invalid tinyvm"]),
        (PoolFull, &["pool is full", "pool full"]),
        (NotReady, &["pool is not ready", "pool not ready"]),
        (Overloaded, &["overloaded"]),
    ],
};

/// The message pool of Lotus.
pub(crate) const FILECOIN: &Table = &Table {
    name: "filecoin",
    rows: &[
        // "To": another message has this nonce. "From": the same message (lotus compares the CIDs before).
        (
            ReplacementUnderpriced,
            &["message to * with nonce # already in mpool", "replace by fee has too low", "too low gaspremium"],
        ),
        (AlreadyKnown, &["already in mpool", "message with nonce already exists"]),
        (NonceTooFar, &["too big a gap from expected nonce", "unfulfilled nonce gap", "nonce gap"]),
        (NonceUsed, &["nonce too low", "minimum expected nonce"]),
        (NonceGap, &["nonce too high"]),
        (AccountLimit, &["too many pending messages"]),
        (
            FeeTooLow,
            &[
                "gas fee cap too low",
                "doesnt meet base fee lower bound",
                "gasfeecap ... too low",
                "gas price is lower than min",
                "gas fee cap ... below",
                "baseFee ... greater than",
            ],
        ),
        (InsufficientFunds, &["not enough funds", "insufficient funds", "insufficient balance"]),
        (TooLarge, &["message too big", "mpool message too large"]),
        (BadValue, &["more filecoin than will ever exist"]),
        (BadRecipient, &["invalid to address"]),
        (BadFees, &["gasfeecap less than gaspremium", "gaspremium ... greater than"]),
        (GasTooLow, &["gaslimit field cannot be less", "cannot be less than the cost of storing"]),
        (GasTooHigh, &["gaslimit field cannot be greater", "gaslimit ... greater than"]),
        (BadSignature, &["signature verification failed", "invalid signature", "failed to verify"]),
        (WrongChain, &["invalid chain id", "unexpected chain id"]),
        (SenderNotEoa, &["sender ... not an eoa", "not a valid sender", "cannot send from"]),
        (
            Malformed,
            &["not a valid eth transaction", "unsupported transaction", "rlp expected", "rlp decoding", "decoding rlp"],
        ),
    ],
};
