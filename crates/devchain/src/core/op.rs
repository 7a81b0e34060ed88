//! What the chain can be told, as it is written down and told again.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::{RlpDecodable, RlpEncodable};

/// One thing that changed the chain. Told in the same order to the same genesis, they lead to the same chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A transaction was accepted into the pool.
    Send(SentTx),
    /// A transaction was taken, and reaches the pool with a later block.
    Delay {
        until: u64,
        tx: SentTx,
    },
    /// A transaction that was held back is so no longer. If the pool took it, its send follows.
    Release(B256),
    /// A transaction was taken out of the pool.
    Drop(B256),
    /// The pool was emptied.
    DropAll,
    Mine(MinedBlock),
    /// Blocks were taken back.
    Rewind {
        depth: u64,
        to_pool: bool,
    },
    Edit(Edit),
    SetGasLimit(u64),
    SetCoinbase(Address),
    Reset,
}

/// A transaction with its sender, which took longest to find out.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(crate) struct SentTx {
    pub(crate) from: Address,
    pub(crate) raw: Bytes,
}

/// What a block was made of, and what came out.
#[derive(Clone, Debug, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(crate) struct MinedBlock {
    pub(crate) timestamp: u64,
    pub(crate) base_fee: u64,
    pub(crate) txs: Vec<B256>,
    pub(crate) hash: B256,
}

/// A change of the state that no transaction made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    Balance { account: Address, balance: U256 },
    Nonce { account: Address, nonce: u64 },
    Code { account: Address, code: Bytes },
    Storage { account: Address, slot: U256, value: U256 },
}
