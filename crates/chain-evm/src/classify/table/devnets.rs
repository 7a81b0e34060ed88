//! Development chains: anvil, hardhat, ganache.

use super::Table;
use gapless_chain::Reason::*;

pub(crate) const ANVIL: &Table = &Table {
    name: "anvil",
    rows: &[
        // The transaction was pooled and not mined in time. The text is no acknowledgement; the hash decides.
        (NoVerdict, &["transaction confirmation timeout", "wasnt confirmed within"]),
        (AlreadyKnown, &["already imported"]),
        (ReplacementUnderpriced, &["insufficient gas price to replace existing transaction"]),
        (FeeTooLow, &["is greater than tx specified", "blob_gas_price is greater than"]),
        (
            GasTooHigh,
            &["intrinsic gas too high", "gas limit is greater than", "gas required exceeds the block gas limit"],
        ),
        (WrongChain, &["signed for another chain", "incompatible eip 155"]),
        (
            ForkNotActive,
            &[
                "not supported by the current hardfork",
                "not supported before the",
                "is not supported for blocks before",
            ],
        ),
        (
            TypeUnsupported,
            &["deposit tx received", "tempo transaction received", "unknown transaction type not supported"],
        ),
        (BadFees, &["max_priority_fee_per_gas greater than max_fee_per_gas"]),
        (
            BadBlobs,
            &[
                "blob_hashes are required",
                "blob transaction cant be a create",
                "versioned hash with an incorrect version",
                "at least one blob",
                "too many blobs",
            ],
        ),
        (BytesExpired, &["valid_before"]),
        (
            Malformed,
            &[
                "failed to decode transaction",
                "failed to decode signed transaction",
                "empty transaction data",
                "transaction data is empty",
                "missing enveloped transaction",
            ],
        ),
        (MethodMissing, &["method not found", "rpc endpoint not implemented"]),
        (Malformed, &["cyclic dependent"]),
    ],
};

pub(crate) const HARDHAT: &Table = &Table {
    name: "hardhat",
    rows: &[
        (AlreadyKnown, &["known transaction"]),
        (
            ReplacementUnderpriced,
            &["replacement transaction underpriced", "necessary to replace the existing transaction"],
        ),
        (NonceUsed, &["nonce too low"]),
        (NonceGap, &["nonce too high"]),
        (
            FeeTooLow,
            &[
                "is too low for the next block",
                "which is below the minimum",
                "is lower than the block's base fee",
                "less than the block's basefee",
            ],
        ),
        (InsufficientFunds, &["doesnt have enough funds", "sender doesnt have enough funds"]),
        (GasTooLow, &["requires at least # gas", "requires at least # gas but got", "intrinsic gas"]),
        (
            GasTooHigh,
            &[
                "exceeds block gas limit",
                "exceeds transaction gas cap",
                "exceeds the transaction gas cap",
                "gas limit is # and exceeds",
            ],
        ),
        (InitcodeTooLarge, &["init code length", "initcode larger"]),
        (
            WrongChain,
            &[
                "signed for another chain",
                "invalid chainid",
                "invalid chain id",
                "chain id ... expected",
                "incompatible eip 155",
            ],
        ),
        (BadSignature, &["invalid signature", "invalid sender", "signature recovery"]),
        (BadFees, &["is bigger than maxfeepergas", "maxpriorityfeepergas ... bigger than"]),
        (BadAuthorizations, &["authorization list is empty", "invalid eip 7702 transaction"]),
        (BadBlobs, &["invalid eip 4844 transaction", "eip 4844 transaction", "blob transaction"]),
        (
            ForkNotActive,
            &[
                "is not supported by the current hardfork",
                "is not enabled in the current hardfork",
                "not supported by hardfork",
            ],
        ),
        (BadRecipient, &["contract creation without any data"]),
        (TypeUnsupported, &["unsupported transaction type", "unknown transaction type", "invalid transaction type"]),
        (Malformed, &["invalid rlp", "failed to decode", "invalid transaction rlp"]),
        (MethodMissing, &["method ... is not supported", "method ... not found"]),
    ],
};

pub(crate) const GANACHE: &Table = &Table {
    name: "ganache",
    rows: &[
        (NonceMismatch, &["account has nonce of {account} tx has nonce of {tx}"]),
        (InsufficientFunds, &["doesnt have enough funds", "sender doesnt have enough funds", "insufficient funds"]),
        (GasTooLow, &["base fee exceeds gas limit", "intrinsic gas too low"]),
        (GasTooHigh, &["exceeds block gas limit"]),
        (FeeTooLow, &["less than the blocks basefeepergas", "is too low for the next block"]),
        (WrongChain, &["incompatible eip155", "incompatible eip 155", "invalid chain id"]),
        (BadSignature, &["invalid signature"]),
    ],
};
