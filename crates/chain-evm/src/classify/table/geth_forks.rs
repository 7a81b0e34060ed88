//! Texts of geth forks, besides those of geth.

use super::Table;
use gapless_chain::Reason::*;

/// The sequencer and forwarder of Nitro, and the remaining result codes of classic Arbitrum.
pub(crate) const ARBITRUM: &Table = &Table {
    name: "arbitrum",
    rows: &[
        // Classic Arbitrum reports only a wrong nonce. A search for our hashes is the safe reaction.
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

/// The forwarding of op-geth to the sequencer, the deposit rules of op-reth, and proxyd, which most of these chains
/// use.
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

/// Mantle appends the error of the sequencer to its forwarding error, so that texts of geth decide if there are any.
pub(crate) const MANTLE: &Table = &Table {
    name: "mantle",
    rows: &[
        (InProgress, &["exist preconf transaction", "preconf transaction in process", "preconf"]),
        // The L1 cost will not fit a fixed gas limit soon, and a filler is estimated again.
        (GasTooLow, &["insufficient gas for l1cost", "insufficient gas for l1 cost"]),
        (
            InsufficientFunds,
            &["sponsor doesnt have enough balance", "doesnt have enough balance", "sponsor ... insufficient"],
        ),
        (BytesExpired, &["expired meta transaction", "meta transaction expired", "meta transaction is expired"]),
        (BadSignature, &["invalid meta transaction", "invalid gas fee sponsor", "invalid sponsor"]),
    ],
};

/// `l2geth` of the old Optimism.
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
        // The registry of fee currencies is chain state. Governance may add this currency.
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

/// The pool of Klaytn: rules for fee payer, unit price and accounts besides those of geth.
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
        // The nonce is finalized by an unnamed transaction. A search for our hashes is the safe reaction.
        (NonceUsed, &["transaction already finalized", "already finalized"]),
        (SenderBlocked, &["blacklist", "in blacklist", "not in allowlist", "not in whitelist"]),
        (WrongChain, &["incorrect chain id", "invalid shard", "shard id", "shardid"]),
        (FeeTooLow, &["gas price ... below", "gas price too low"]),
    ],
};
