//! Besu and linea, erigon, openethereum, gnosis.

use super::Table;
use gapless_chain::Reason::*;

/// `RpcErrorType`, and the details of `TransactionInvalidReason` that newer versions and plugins print.
pub(crate) const BESU: &Table = &Table {
    name: "besu",
    rows: &[
        (AlreadyKnown, &["known transaction", "transaction already known"]),
        (ReplacementUnderpriced, &["replacement transaction underpriced"]),
        (NonceUsed, &["nonce too low", "nonce # below sender account nonce", "below account nonce"]),
        (NonceMismatch, &["nonce {tx} does not match sender account nonce {account}"]),
        (NonceGap, &["nonce too high"]),
        (NonceTooFar, &["too distant from current sender nonce", "too far in future for sender"]),
        (LowerNonceInvalid, &["invalid transaction with a lower nonce exists", "lower nonce ... exists"]),
        (
            FeeTooLow,
            &[
                "gas price below configured minimum",
                "gas price below current base fee",
                "blob gas price below current blob base fee",
                "gas price too low",
                "gasprice is less than the current basefee",
                "less than the current basefee",
                "below minimum",
                "max fee per blob gas less than",
                "priority fee ... below",
            ],
        ),
        (
            InsufficientFunds,
            &[
                "upfront cost exceeds",
                "up front cost ... exceeds",
                "upfront cost ... exceeds",
                "exceeds account balance",
            ],
        ),
        (FeeCap, &["fee cap exceeded", "fee cap of"]),
        (SenderNotEoa, &["has deployed code", "sender has deployed code"]),
        (SenderBlocked, &["account not authorized", "not authorized to send transactions"]),
        (
            GasTooLow,
            &["intrinsic gas exceeds gas limit", "intrinsic gas cost # exceeds gas limit", "intrinsic gas cost"],
        ),
        (GasTooHigh, &["exceeds block gas limit", "gas limit cap exceeded", "gas limit ... exceeds ... cap"]),
        (BadSignature, &["invalid signature", "invalid transaction signature"]),
        (
            WrongChain,
            &[
                "wrong chainid",
                "wrong chain id",
                "chainid not supported",
                "chainid is required",
                "meant for chain id",
                "replay protected signatures",
            ],
        ),
        (
            BadFees,
            &[
                "max priority fee per gas exceeds max fee",
                "max priority fee per gas cannot be greater",
                "max priority fee ... exceeds max fee",
            ],
        ),
        (
            TypeUnsupported,
            &["invalid transaction type", "transaction type ... not supported", "transaction type ... is invalid"],
        ),
        (InitcodeTooLarge, &["initcode of size", "initcode too large", "initcode size"]),
        (
            BadBlobs,
            &[
                "total blob gas too high",
                "blobs failed kzg",
                "kzg validation",
                "kzg proof",
                "kzg commitment",
                "invalid blob count",
                "at least one blob",
                "blob count",
                "missing blobs",
                "invalid blobs",
            ],
        ),
        (BadAuthorizations, &["empty code delegation", "code delegation", "empty authorization"]),
        (PoolFull, &["transaction pool is full", "pool is full"]),
        (
            NotReady,
            &[
                "transaction pool not enabled",
                "sync is still in progress",
                "initial sync",
                "not yet in sync",
                "world state unavailable",
            ],
        ),
        (TimedOut, &["timeout expired"]),
        (MethodMissing, &["method not enabled", "method not found"]),
    ],
};

/// The plugins of the sequencer, besides the texts of besu.
pub(crate) const LINEA: &Table = &Table {
    name: "linea",
    rows: &[
        (FeeTooLow, &["gas price too low", "below minimum profitability", "not profitable", "unprofitable"]),
        (ProverLimit, &["line count", "module limit", "is above the limit"]),
        (BadRecipient, &["is a precompile address", "precompile address and cannot receive"]),
        (SenderBlocked, &["is blocked as appearing", "sdn or other legally prohibited", "is denied", "deny list"]),
        (
            TooLarge,
            &["calldata of transaction is greater", "calldata ... greater than the allowed max", "compressed size"],
        ),
        (GasTooHigh, &["gas limit of transaction is greater", "gas limit ... greater than the allowed max"]),
    ],
};

/// `txpoolcfg.DiscardReason`, behind the name of the import result ("INTERNAL_ERROR: …").
pub(crate) const ERIGON: &Table = &Table {
    name: "erigon",
    rows: &[
        (AlreadyKnown, &["existing txn with same hash", "existing tx with same hash", "already known"]),
        // The node believes that the transaction is mined. The receipts decide.
        (NonceUsed, &["^mined"]),
        (
            ReplacementUnderpriced,
            &[
                "replacement underpriced",
                "replacement transaction underpriced",
                "could not replace existing",
                "replaced by transaction with higher tip",
            ],
        ),
        (TypeConflict, &["cant replace blob txn", "replace blob tx"]),
        (NonceTooFar, &["nonce gap too large", "nonce is too far ahead", "nonce too distant"]),
        (FeeTooLow, &["underpriced", "fee too low"]),
        (InsufficientFunds, &["insufficient funds"]),
        (AccountLimit, &["spammer"]),
        (PoolFull, &["sub pool is full", "in txpool is full", "pool is full", "pool overflow"]),
        (ForkNotActive, &["fork supporting this transaction type is not activated", "not activated yet"]),
        (GasTooLow, &["intrinsicgas", "intrinsic gas"]),
        (GasTooHigh, &["gasuintoverflow", "gas limit is too high"]),
        (TooLarge, &["rlptoolong", "rlp too long"]),
        (InitcodeTooLarge, &["initcode too large"]),
        (
            BadBlobs,
            &[
                "at least one blob",
                "max number of blobs exceeded",
                "versioned hash has to be equal",
                "must match the corresponding blobs",
                "must have equal number",
                "blob transactions cannot",
            ],
        ),
        (BadAuthorizations, &["empty authorization list", "form of a create transaction"]),
        (ValidationFailed, &["rip 7560 transaction failed validation"]),
        (WrongChain, &["invalid chain id"]),
        (NotReady, &["error getting"]),
    ],
};

/// `transaction_queue` and `miner` of parity, still in use on old networks.
pub(crate) const OPENETHEREUM: &Table = &Table {
    name: "openethereum",
    rows: &[
        (AlreadyKnown, &["same hash was already imported", "already imported"]),
        (ReplacementUnderpriced, &["another transaction with same nonce", "too cheap to replace"]),
        (NonceUsed, &["nonce is too low", "nonce too low"]),
        (PoolFull, &["too many transactions in the queue", "dropped due to limit"]),
        (
            FeeTooLow,
            &[
                "gas price is too low",
                "gas price supplied is too low",
                "gas price # wei is too low",
                "gas price ... too low",
                "does not satisfy your nodes minimal gas price",
                "lower then the required base fee",
                "lower than the required base fee",
                "below current base fee",
            ],
        ),
        (InsufficientFunds, &["insufficient funds", "insufficient balance", "does not have enough funds"]),
        (
            SenderBlocked,
            &["is banned", "banned in local queue", "not permissioned", "not permitted", "not allowed", "permission"],
        ),
        (SenderNotEoa, &["is not an eoa"]),
        (GasTooLow, &["gas is too low", "not enough gas to cover minimal cost"]),
        (GasTooHigh, &["exceeds current gas limit", "gas is beyond limit", "exceeds block gas limit"]),
        (WrongChain, &["invalid chain id"]),
        (TooLarge, &["transaction is too big"]),
        (InitcodeTooLarge, &["initcode"]),
        (BadSignature, &["invalid signature", "invalid ec signature"]),
        (TypeUnsupported, &["transaction type is not enabled", "transaction type ... not supported"]),
        (Malformed, &["invalid rlp", "rlp error", "rlp is"]),
    ],
};

/// Nethermind with a permission contract and an auction-like minimum of its own.
pub(crate) const GNOSIS: &Table = &Table {
    name: "gnosis",
    rows: &[
        (SenderBlocked, &["permissiondenied", "permission denied for tx"]),
        (FeeTooLow, &["effectivepriorityfeepergas too low"]),
    ],
};
