//! Operations on the chain, as they are recorded and replayed.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::{RlpDecodable, RlpEncodable};

/// One change of the chain. The same operations in the same order on the same genesis lead to the same chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A transaction was accepted into the pool.
    Send(SentTx),
    /// A transaction was accepted, and reaches the pool with a later block.
    Delay {
        until: u64,
        tx: SentTx,
    },
    /// The delay of a transaction ended. If the pool accepted it, a `Send` follows.
    Release(B256),
    /// A transaction was removed from the pool.
    Drop(B256),
    /// The pool was emptied.
    DropAll,
    Mine(MinedBlock),
    /// Blocks were removed.
    Rewind {
        depth: u64,
        to_pool: bool,
    },
    Edit(Edit),
    SetGasLimit(u64),
    SetCoinbase(Address),
    Reset,
}

/// A transaction with its sender. The sender is recorded because its recovery is slow.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(crate) struct SentTx {
    pub(crate) from: Address,
    pub(crate) raw: Bytes,
}

/// The inputs of a block, and its hash for a check on replay.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(crate) struct MinedBlock {
    pub(crate) timestamp: u64,
    pub(crate) base_fee: u64,
    pub(crate) txs: Vec<B256>,
    pub(crate) hash: B256,
}

/// An edit of the state outside of any transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    Balance { account: Address, balance: U256 },
    Nonce { account: Address, nonce: u64 },
    Code { account: Address, code: Bytes },
    Storage { account: Address, slot: U256, value: U256 },
}
