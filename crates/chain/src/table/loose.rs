//! What libraries and gateways make of a node's words. Only for callers who do not know the family, and before the families'
//! tables: a library's sentence quotes the node's behind it, or has taken its place.

use super::Table;
use crate::reason::Reason::*;

pub(crate) const LOOSE: &Table = &Table {
    name: "loose",
    rows: &[
        // Ethers and viem, which put their own sentence in place of the node's.
        (NonceUsed, &["nonce has already been used", "nonce expired", "lower than the current nonce of the account"]),
        (
            ReplacementUnderpriced,
            &["replacement fee too low", "replacement underpriced", "transaction underpriced replacement"],
        ),
        (InsufficientFunds, &["exceeds the balance of the account", "exceeds the balance of the sender"]),
        (NonceTooFar, &["nonce too far in the future"]),
        (
            NonceGap,
            &["higher than the next one expected", "exceeds next nonce", "tx nonce too high", "nonce is too high"],
        ),
        (NonceExhausted, &["exceeds the maximum allowed nonce"]),
        (FeeTooLow, &["cannot be lower than the block base fee"]),
        (BadFees, &["cannot be higher than the fee cap"]),
        (
            AlreadyKnown,
            &["transaction already in mempool", "transaction is already in mempool", "transaction already known"],
        ),
        (PoolFull, &["mempool is full", "mempool full", "pool is full", "pool full"]),
    ],
};
