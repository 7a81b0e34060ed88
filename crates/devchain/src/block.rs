//! Blocks and receipts as the chain stores them.

use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bloom, Log};

use crate::tx::Tx;

/// A block with its transactions and receipts.
///
/// `state_root` is not a trie root. It is a hash over the parent's root and the changes of the block, which
/// distinguishes states as well and costs almost nothing. All other header fields have the values that a verifier would
/// compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub hash: B256,
    pub header: Header,
    pub txs: Vec<Arc<Tx>>,
    /// One receipt per transaction, in the same order.
    pub receipts: Vec<Receipt>,
    /// The length of the RLP-encoded block in bytes.
    pub size: u64,
}

impl Block {
    pub fn number(&self) -> u64 {
        self.header.number
    }

    pub fn timestamp(&self) -> u64 {
        self.header.timestamp
    }

    pub fn base_fee(&self) -> u64 {
        self.header.base_fee_per_gas.unwrap_or_default()
    }

    /// The logs of this block, with the position of each.
    pub fn logs(&self, removed: bool) -> impl Iterator<Item = LogEntry> + '_ {
        self.txs.iter().zip(&self.receipts).enumerate().flat_map(move |(tx_index, (tx, receipt))| {
            receipt.logs.iter().enumerate().map(move |(offset, log)| LogEntry {
                log: log.clone(),
                block_hash: self.hash,
                block_number: self.header.number,
                block_timestamp: self.header.timestamp,
                tx_hash: tx.hash,
                tx_index: tx_index as u64,
                log_index: receipt.first_log_index + offset as u64,
                removed,
            })
        })
    }
}

/// The result of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub success: bool,
    pub gas_used: u64,
    pub cumulative_gas_used: u64,
    pub effective_gas_price: u128,
    /// The address of the created contract. Also set if the creation failed.
    pub contract_address: Option<Address>,
    pub logs: Vec<Log>,
    pub bloom: Bloom,
    /// The index of the first log within the block.
    pub first_log_index: u64,
}

/// A mined transaction: its block and its index in the block.
#[derive(Clone, Debug)]
pub struct MinedPosition {
    pub block: Arc<Block>,
    pub index: usize,
}

impl MinedPosition {
    /// The transaction. `None` only for an index outside of the block, which the chain never creates.
    pub fn tx(&self) -> Option<&Arc<Tx>> {
        self.block.txs.get(self.index)
    }

    pub fn receipt(&self) -> Option<&Receipt> {
        self.block.receipts.get(self.index)
    }
}

/// A log and its position in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub log: Log,
    pub block_hash: B256,
    pub block_number: u64,
    pub block_timestamp: u64,
    pub tx_hash: B256,
    pub tx_index: u64,
    pub log_index: u64,
    /// The block of the log was removed by a reorg.
    pub removed: bool,
}

/// An event for subscribers. Events are published in the order in which they happen.
#[derive(Clone, Debug)]
pub enum ChainEvent {
    /// The block is the new head.
    NewHead(Arc<Block>),
    /// The block is no longer part of the chain. The newest block comes first; `NewHead` events of the replacements
    /// follow.
    Removed(Arc<Block>),
    /// The transaction is executable: no nonce before it is missing.
    Pending(Arc<Tx>),
}
