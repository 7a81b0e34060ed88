//! Blocks and receipts as the chain keeps them.

use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bloom, Log};

use crate::tx::Tx;

/// A block with everything that happened in it.
///
/// `state_root` is no trie root: it is a hash over the parent's and over what the block changed, which is as good for telling states
/// apart, and costs almost nothing. All other fields of the header are what a verifier would compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub hash: B256,
    pub header: Header,
    pub txs: Vec<Arc<Tx>>,
    /// One for each transaction, in their order.
    pub receipts: Vec<Receipt>,
    /// The length of the block in RLP.
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

    /// The logs of this block, as subscribers and queries see them.
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

/// What came of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub success: bool,
    pub gas_used: u64,
    pub cumulative_gas_used: u64,
    pub effective_gas_price: u128,
    /// The contract that the transaction made, or would have made had it not failed.
    pub contract_address: Option<Address>,
    pub logs: Vec<Log>,
    pub bloom: Bloom,
    /// The index of the first log within the block.
    pub first_log_index: u64,
}

/// A receipt together with where it is.
#[derive(Clone, Debug)]
pub struct Mined {
    pub block: Arc<Block>,
    pub index: usize,
}

impl Mined {
    /// `None` only if the index is not one of the block's, which the chain never makes.
    pub fn tx(&self) -> Option<&Arc<Tx>> {
        self.block.txs.get(self.index)
    }

    pub fn receipt(&self) -> Option<&Receipt> {
        self.block.receipts.get(self.index)
    }
}

/// A log, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub log: Log,
    pub block_hash: B256,
    pub block_number: u64,
    pub block_timestamp: u64,
    pub tx_hash: B256,
    pub tx_index: u64,
    pub log_index: u64,
    /// The block was taken back.
    pub removed: bool,
}

/// What subscribers hear, in the order in which it happened.
#[derive(Clone, Debug)]
pub enum ChainEvent {
    /// A block is the new head.
    NewHead(Arc<Block>),
    /// A block is no longer part of the chain. The newest comes first; the heads that replace them follow.
    Removed(Arc<Block>),
    /// A transaction can be mined as far as its nonce is concerned.
    Pending(Arc<Tx>),
}
