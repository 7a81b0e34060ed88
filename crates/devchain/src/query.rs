//! What can be asked of the chain, and what the answers look like.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_eips::eip2930::AccessList;
use alloy_eips::eip7702::SignedAuthorization;
use alloy_primitives::{Address, B256, Bytes, U256};

use crate::block::Mined;
use crate::tx::Tx;

/// Which block a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Latest,
    /// The block that would be mined now.
    Pending,
    Earliest,
    Safe,
    Finalized,
    Number(u64),
    Hash(B256),
}

/// How many blocks `safe` and `finalized` are behind the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finality {
    pub safe: u64,
    pub finalized: u64,
}

/// What a transaction did, without the calls that it made in turn: geth's `callTracer` with `onlyTopCall`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopCall {
    pub from: Address,
    /// The account that was called, or the contract that was made; `None` if its making failed.
    pub to: Option<Address>,
    pub creates: bool,
    pub value: U256,
    /// The transaction's limit.
    pub gas: u64,
    /// What the receipt says.
    pub gas_used: u64,
    pub input: Bytes,
    /// What it returned, or what it reverted with.
    pub output: Bytes,
    /// Why it failed, in geth's words.
    pub error: Option<String>,
    /// The text in what it reverted with, if there is one.
    pub revert_reason: Option<String>,
}

/// A transaction, wherever it is.
#[derive(Clone, Debug)]
pub struct FoundTx {
    pub tx: Arc<Tx>,
    /// `None` while it is in the pool.
    pub mined: Option<Mined>,
}

/// A call that is executed and forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallRequest {
    pub from: Option<Address>,
    /// `None` makes a contract.
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

/// Which logs are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter {
    pub blocks: LogBlocks,
    /// Empty: any.
    pub addresses: Vec<Address>,
    /// By position; an empty list matches anything.
    pub topics: Vec<Vec<B256>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogBlocks {
    Range { from: At, to: At },
    Hash(B256),
}

impl LogFilter {
    /// Whether a log is wanted, as far as its content says.
    pub fn wants(&self, log: &alloy_primitives::Log) -> bool {
        let topics = log.topics();
        (self.addresses.is_empty() || self.addresses.contains(&log.address))
            && self.topics.len() <= topics.len()
            && self.topics.iter().zip(topics).all(|(wanted, topic)| wanted.is_empty() || wanted.contains(topic))
    }
}

/// What blocks cost, as `eth_feeHistory` tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct FeeHistory {
    pub oldest_block: u64,
    /// One more than there are blocks: the last is that of the block after them.
    pub base_fee_per_gas: Vec<u128>,
    pub gas_used_ratio: Vec<f64>,
    /// By block, then by percentile; empty if no percentiles were asked for.
    pub reward: Vec<Vec<u128>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    pub pending: usize,
    pub queued: usize,
}

/// What is in the pool, by account and nonce.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolContent {
    pub pending: BTreeMap<Address, BTreeMap<u64, Arc<Tx>>>,
    pub queued: BTreeMap<Address, BTreeMap<u64, Arc<Tx>>>,
}
