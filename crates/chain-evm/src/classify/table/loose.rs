//! Texts that libraries and gateways derive from texts of nodes. Used only if the family is unknown, before the tables
//! of the families: the text of a library quotes or replaces the text of the node.

use super::Table;
use gapless_chain::Reason::*;

pub(crate) const LOOSE: &Table = &Table {
    name: "loose",
    rows: &[
        // Ethers and viem replace the text of the node by their own.
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
