//! Rollups with nodes of their own: zksync, polygon zkevm.

use super::Table;
use gapless_chain::Reason::*;

/// `SubmitTxError` and `SerializationTransactionError`.
pub(crate) const ZKSYNC: &Table = &Table {
    name: "zksync",
    rows: &[
        (AlreadyKnown, &["known transaction", "is already in the system", "already in the mempool"]),
        (InProgress, &["another transaction with the same nonce is in progress", "insertion of another transaction"]),
        (NonceUsed, &["nonce too low"]),
        (NonceGap, &["nonce too high"]),
        (
            FeeTooLow,
            &[
                "max fee per gas less than",
                "unacceptable gas price",
                "pubdata price too high",
                "unacceptable pubdata price",
                "base fee too low",
                "gas per pubdata ... too low",
            ],
        ),
        (
            InsufficientFunds,
            &[
                "insufficient funds",
                "insufficient balance",
                "not enough balance",
                "failed to pay the fee",
                "failed to pay for the transaction",
            ],
        ),
        (SenderBlocked, &["is not in the allow list", "not in the allow list"]),
        (SenderNotEoa, &["cant start a transaction from a non account"]),
        (GasTooHigh, &["exceeds block gas limit", "gas limit ... too big", "gas limit is too big"]),
        (GasTooLow, &["intrinsic gas too low", "not enough gas to publish"]),
        (
            BadFees,
            &["max priority fee per gas higher", "max fee per gas higher than", "max fee per pubdata byte higher than"],
        ),
        (NonceExhausted, &["nonce has max value"]),
        (
            TypeUnsupported,
            &["transaction type # not supported", "unsupported transaction type", "unknown transaction type"],
        ),
        (WrongChain, &["invalid chain id", "wrong chain id"]),
        (BadSignature, &["incorrect signature", "invalid signature", "signature ... incorrect"]),
        (
            TooLarge,
            &["oversized data", "transaction is too large", "too many factory dependencies", "bytecode ... too large"],
        ),
        (ConditionUnmet, &["block timestamp assertion"]),
        (ValidationFailed, &["failed to validate the transaction", "account validation error"]),
        // The funds and rules of a paymaster are chain state.
        (LocalPolicy, &["failed paymaster validation", "failed pre paymaster preparation"]),
        // A failure of the bootloader may come from the block.
        (NoVerdict, &["failed to include transaction in the system", "virtual machine entered unexpected state"]),
        // The estimate of zksync for a contract that it cannot publish.
        (
            ProverLimit,
            &[
                "out of circuits",
                "too many circuits",
                "exceeds the maximum ... circuits",
                "transaction is unexecutable",
            ],
        ),
        (
            Malformed,
            &["failed to serialize transaction", "failed to decode transaction", "rlp decoding error", "invalid rlp"],
        ),
        (Overloaded, &["server being overloaded", "overloaded"]),
        (NotReady, &["shutting down"]),
    ],
};

/// `pool/errors.go`, and the counters of the executor.
pub(crate) const POLYGON_ZKEVM: &Table = &Table {
    name: "polygon-zkevm",
    rows: &[
        // The cdk-erigon nodes of the network use the texts of erigon.
        (ReplacementUnderpriced, &["could not replace existing"]),
        (FeeTooLow, &["gas price too low", "underpriced ... gas price"]),
        (AccountLimit, &["account has reached the tx limit"]),
        (SenderBlocked, &["blocked sender"]),
        (TooLarge, &["data size bigger than allowed"]),
        (GasTooLow, &["not enough gas supplied for intrinsic"]),
        (
            ProverLimit,
            &[
                "counters to continue the execution",
                "out of counters",
                "not enough ... counters",
                "cumulative gas exceeds",
            ],
        ),
        (GatewayError, &["failed to relay tx", "failed to add tx to the pool timeout"]),
        (NotReady, &["received l1 gas price 0"]),
        (TypeUnsupported, &["unsupported transaction type", "tx type is not supported"]),
    ],
};
