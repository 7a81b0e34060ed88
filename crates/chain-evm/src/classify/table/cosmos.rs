//! Chains on the Cosmos SDK. Its registered errors are at the end, after the wrapped detail ("…: insufficient fee").

use super::Table;
use gapless_chain::Reason::*;

pub(crate) const COSMOS: &Table = &Table {
    name: "cosmos",
    rows: &[
        (AlreadyKnown, &["tx already in mempool", "tx already exists in cache", "already in mempool"]),
        (
            NonceMismatch,
            &[
                "invalid nonce got {tx} expected {account}",
                "sequence mismatch expected {account} got {tx}",
                "expected {account} got {tx} incorrect account sequence",
            ],
        ),
        // Without numbers the direction of the mismatch is unknown. A search for our hashes is the safe reaction.
        (NonceUsed, &["nonce # is too low", "incorrect account sequence", "invalid sequence", "wrong sequence"]),
        (GasTooHigh, &["exceeds block gas limit", "gas wanted # exceeds", "gas wanted ... exceeds"]),
        (InsufficientFunds, &["insufficient funds", "insufficient balance", "balance ... tx cost"]),
        (
            FeeTooLow,
            &[
                "insufficient fee",
                "insufficient fees",
                "minimum global fee",
                "gas prices too low",
                "lower than base fee",
                "less than base fee",
            ],
        ),
        (PoolFull, &["mempool is full", "priority not high enough for mempool"]),
        (TooLarge, &["tx too large"]),
        (WrongChain, &["invalid chain id"]),
        (
            BadSignature,
            &["signature verification failed", "couldnt retrieve sender", "does not match the given signer"],
        ),
        (TypeUnsupported, &["unsupported transaction type", "tx type not supported", "unknown request"]),
        (SenderNotEoa, &["the sender is not eoa", "sender is not eoa"]),
        (SenderBlocked, &["unauthorized account", "account ... is not allowed to"]),
        (Malformed, &["tx parse error", "error decoding transaction"]),
        (NotReady, &["missing broadcast response", "node is catching up", "catching up"]),
    ],
};

pub(crate) const SEI: &Table = &Table {
    name: "sei",
    rows: &[
        (GasTooLow, &["^out of gas"]),
        (NonceExhausted, &["nonce has max value"]),
        (ValidationFailed, &["invalid evm transaction"]),
    ],
};
