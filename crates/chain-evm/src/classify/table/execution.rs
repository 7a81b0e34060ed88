//! Texts of the EVM, common to all clients.

use super::Table;
use gapless_chain::Reason::*;

/// Matched before all other tables and on every method. A text of a contract follows these words, and it may be
/// anything, even "already known".
pub(crate) const REVERTS: &Table = &Table {
    name: "evm reverts",
    rows: &[(
        Reverted,
        &[
            "execution reverted",
            "reverted with reason string",
            "reverted with panic code",
            "reverted with custom error",
            "reverted with an unrecognized custom error",
            "reverted with a custom error",
            "reverted with an unknown reason",
            "transaction reverted without a reason",
            "transaction reverted",
            "vm exception while processing transaction revert",
            "vm execution error reverted",
            "transaction execution reverted",
            "evm revert",
        ],
    )],
};

/// Matched for calls and estimates only. In the answer to a send these words have another meaning.
pub(crate) const EXECUTION: &Table = &Table {
    name: "evm execution",
    rows: &[
        (InsufficientFunds, &["gas required exceeds allowance 0 $", "gas required exceeds allowance 0"]),
        (
            ExecutionFailed,
            &[
                "out of gas",
                "outofgas",
                "gas required exceeds",
                "always failing transaction",
                "transaction execution fails",
                "vm execution error",
                "vm exception while processing transaction",
                "evm error",
                "invalid opcode",
                "opcode ... not defined",
                "bad instruction",
                "invalid jump",
                "bad jump destination",
                "stack underflow",
                "stack overflow",
                "stack limit reached",
                "write protection",
                "max code size exceeded",
                "max call depth exceeded",
                "contract address collision",
                "contract creation code storage out of gas",
                "return data out of bounds",
                "invalid code must not begin with 0xef",
                "could not be completed due to an exception",
                "execution halted",
                "reverted",
                "^revert",
            ],
        ),
    ],
};
