//! What forks of geth say beside geth's own words.

use super::Table;
use crate::reason::Reason::*;

/// Nitro's sequencer and forwarder, and what is left of classic Arbitrum's result codes.
pub(crate) const ARBITRUM: &Table = &Table {
    name: "arbitrum",
    rows: &[
        // Classic said only that the nonce is wrong. A look for our hashes is the safe answer to it.
        (NonceUsed, &["invalid transaction nonce"]),
        (FeeTooLow, &["gas price too low", "max fee per gas too low"]),
        (InsufficientFunds, &["not enough funds for gas", "not enough funds to pay"]),
        (TypeUnsupported, &["unsupported message type", "unsupported tx type"]),
        (Malformed, &["invalid message format"]),
        (
            SenderBlocked,
            &[
                "forbidden sender",
                "rejected by chain policy",
                "not on the whitelist",
                "not in the whitelist",
                "address is filtered",
            ],
        ),
        (ConditionUnmet, &["condition not met", "condition mismatch", "conditional options", "express lane"]),
        (PoolFull, &["queue full", "queue is full", "l2 congestion", "congestion"]),
        (
            NotReady,
            &[
                "sequencer temporarily not available",
                "sequencer not available",
                "sequencer internal error",
                "currently not accepting transactions",
                "not the sequencer",
                "sequencer paused",
                "no sequencer",
            ],
        ),
    ],
};

/// Op-geth's forwarding to the sequencer, op-reth's deposit rules, and proxyd, which stands before most of these chains.
pub(crate) const OPTIMISM: &Table = &Table {
    name: "optimism",
    rows: &[
        (
            TypeUnsupported,
            &["no system transactions allowed", "deposit transaction", "deposit transactions", "deposit failure"],
        ),
        (RateLimited, &["over rate limit", "backend is over capacity", "too many requests"]),
        (ConditionUnmet, &["conditional ... failed", "condition not met", "interop"]),
        (TooLarge, &["exceeds da limit", "da size"]),
        (
            NotReady,
            &[
                "backend offline",
                "no backends available",
                "no backend is currently healthy",
                "backend returned an invalid response",
                "backend is currently not healthy",
                "not healthy to serve traffic",
                "sequencer is not available",
                "failsafe",
            ],
        ),
        (MethodMissing, &["method is not whitelisted", "rpc method is not whitelisted"]),
    ],
};

/// Mantle quotes the sequencer's own error behind its forwarding error, so that geth's words decide where there are any.
pub(crate) const MANTLE: &Table = &Table {
    name: "mantle",
    rows: &[
        (InProgress, &["exist preconf transaction", "preconf transaction in process", "preconf"]),
        // The L1 cost is not state that recovers for a fixed gas limit soon, and a fill is estimated anew.
        (GasTooLow, &["insufficient gas for l1cost", "insufficient gas for l1 cost"]),
        (
            InsufficientFunds,
            &["sponsor doesnt have enough balance", "doesnt have enough balance", "sponsor ... insufficient"],
        ),
        (BytesExpired, &["expired meta transaction", "meta transaction expired", "meta transaction is expired"]),
        (BadSignature, &["invalid meta transaction", "invalid gas fee sponsor", "invalid sponsor"]),
    ],
};

/// The old optimism `l2geth`.
pub(crate) const METIS: &Table = &Table {
    name: "metis",
    rows: &[
        (FeeTooLow, &["gas price too low", "cannot accept 0 gas price", "fee too low"]),
        (FeeCap, &["gas price too high", "fee too large", "fee too high # use less"]),
        (TooLarge, &["calldata cannot be larger", "calldata too large"]),
        (NotReady, &["while syncing", "still syncing", "cannot accept transactions", "verifier mode", "replica mode"]),
    ],
};

pub(crate) const CELO: &Table = &Table {
    name: "celo",
    rows: &[
        (
            FeeTooLow,
            &["gas price minimum", "gasprice is less than", "gas price is less than", "fee currency ... underpriced"],
        ),
        // The registry of fee currencies is chain state: governance may add this one.
        (
            LocalPolicy,
            &[
                "unregistered fee currency",
                "fee currency ... is blocked",
                "fee currency not registered",
                "non whitelisted fee currency",
                "fee currency ... denied",
                "exchange rate ... fee currency",
            ],
        ),
        (FeeCap, &["tx fee ... exceeds the configured cap"]),
        (InsufficientFunds, &["insufficient funds", "cannot debit"]),
    ],
};

pub(crate) const SCROLL: &Table = &Table {
    name: "scroll",
    rows: &[
        (InsufficientFunds, &["insufficient funds for l1 fee"]),
        (ProverLimit, &["circuit capacity", "row consumption overflow", "too many logs", "exceeds max calldata"]),
        (TooLarge, &["calldata size exceeds", "reached tx payload"]),
    ],
};

pub(crate) const BSC: &Table = &Table {
    name: "bsc",
    rows: &[
        (SenderBlocked, &["black list", "blacklist", "blacklisted"]),
        (TypeUnsupported, &["legacy blob tx is not supported", "blob tx is not supported"]),
        (RateLimited, &["^limit exceeded"]),
    ],
};

pub(crate) const AVALANCHE: &Table = &Table {
    name: "avalanche",
    rows: &[
        (
            SenderBlocked,
            &["cannot issue transaction from non allow listed address", "non allow listed", "prohibited address"],
        ),
        (FeeTooLow, &["gas price ... less than minimum", "below the minimum fee"]),
        (GasTooHigh, &["exceeds block gas limit", "tx gas # current max gas"]),
        (ConditionUnmet, &["predicate"]),
    ],
};

/// Klaytn's pool: its own fee payer, unit price and account rules beside geth's.
pub(crate) const KAIA: &Table = &Table {
    name: "kaia",
    rows: &[
        (ReplacementUnderpriced, &["another tx which has the same nonce", "another tx has the same nonce"]),
        (
            FeeTooLow,
            &[
                "invalid gas price it must be set to value greater",
                "invalid unit price",
                "invalid gas fee cap",
                "invalid gas tip cap",
                "gas price ... basefee",
                "lower than ... unit price",
            ],
        ),
        (BadFees, &["max fee per gas higher than max priority fee per gas"]),
        (InsufficientFunds, &["insufficient funds", "insufficient balance"]),
        (BadSignature, &["invalid fee payer", "invalid fee payer signature", "failed to verify signature"]),
        (SenderBlocked, &["account creation is prevented", "fee delegation ... not allowed"]),
        (TypeUnsupported, &["undefined tx type", "not supported tx type"]),
        (Malformed, &["invalid raw transaction"]),
        (BadValue, &["value must be zero", "contract creation without data"]),
        (BadRecipient, &["to address is not", "not a program account", "recipient ... precompiled"]),
    ],
};

pub(crate) const HARMONY: &Table = &Table {
    name: "harmony",
    rows: &[
        // Finalized, by whom it does not say: look for our hashes.
        (NonceUsed, &["transaction already finalized", "already finalized"]),
        (SenderBlocked, &["blacklist", "in blacklist", "not in allowlist", "not in whitelist"]),
        (WrongChain, &["incorrect chain id", "invalid shard", "shard id", "shardid"]),
        (FeeTooLow, &["gas price ... below", "gas price too low"]),
    ],
};
