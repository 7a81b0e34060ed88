//! Parameters and results of reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_eips::eip2930::AccessList;
use alloy_eips::eip7702::SignedAuthorization;
use alloy_primitives::{Address, B256, Bytes, U256};

use crate::block::MinedPosition;
use crate::tx::Tx;

/// The block that a read refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSelector {
    Latest,
    /// The block that would be mined now.
    Pending,
    Earliest,
    Safe,
    Finalized,
    Number(u64),
    Hash(B256),
}

/// Depths of `safe` and `finalized` behind the head, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finality {
    pub safe: u64,
    pub finalized: u64,
}

/// The top-level call of a transaction without inner calls: geth's `callTracer` with `onlyTopCall`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopCall {
    pub from: Address,
    /// The called account, or the created contract. `None` if the creation failed.
    pub to: Option<Address>,
    pub creates: bool,
    pub value: U256,
    /// The gas limit of the transaction.
    pub gas: u64,
    /// The gas used, as in the receipt.
    pub gas_used: u64,
    pub input: Bytes,
    /// The return data or the revert data.
    pub output: Bytes,
    /// The reason of the failure, in geth's text.
    pub error: Option<String>,
    /// The text of the revert data, if it has one.
    pub revert_reason: Option<String>,
}

/// A transaction of the pool or of a block.
#[derive(Clone, Debug)]
pub struct FoundTx {
    pub tx: Arc<Tx>,
    /// `None` while the transaction is in the pool.
    pub mined: Option<MinedPosition>,
}

/// A call that is executed without keeping its changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallRequest {
    pub from: Option<Address>,
    /// `None` creates a contract.
    pub to: Option<Address>,
    pub gas: Option<u64>,
    pub gas_price: Option<u128>,
    pub max_fee_per_gas: Option<u128>,
    pub max_priority_fee_per_gas: Option<u128>,
    pub value: U256,
    pub data: Bytes,
    pub nonce: Option<u64>,
    pub access_list: AccessList,
    pub authorizations: Vec<SignedAuthorization>,
}

/// A filter for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter {
    pub blocks: LogBlocks,
    /// Accepted addresses. Empty accepts any.
    pub addresses: Vec<Address>,
    /// Accepted topics by position. An empty list accepts any topic at that position.
    pub topics: Vec<Vec<B256>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogBlocks {
    Range { from: BlockSelector, to: BlockSelector },
    Hash(B256),
}

impl LogFilter {
    /// True if the addresses and topics accept the log.
    pub fn wants(&self, log: &alloy_primitives::Log) -> bool {
        let topics = log.topics();
        (self.addresses.is_empty() || self.addresses.contains(&log.address))
            && self.topics.len() <= topics.len()
            && self.topics.iter().zip(topics).all(|(wanted, topic)| wanted.is_empty() || wanted.contains(topic))
    }
}

/// The result of `eth_feeHistory`.
#[derive(Clone, Debug, PartialEq)]
pub struct FeeHistory {
    pub oldest_block: u64,
    /// One entry more than there are blocks: the last is the base fee of the following block.
    pub base_fee_per_gas: Vec<u128>,
    pub gas_used_ratio: Vec<f64>,
    /// By block, then by percentile. Empty if no percentiles were requested.
    pub reward: Vec<Vec<u128>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    pub pending: usize,
    pub queued: usize,
}

/// The transactions of the pool, by account and nonce.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolContent {
    pub pending: BTreeMap<Address, BTreeMap<u64, Arc<Tx>>>,
    pub queued: BTreeMap<Address, BTreeMap<u64, Arc<Tx>>>,
}
