//! Positions on the chain: blocks, links between blocks, and inclusions of transactions.

use alloy_primitives::{B256, Bytes};

use crate::amount::Amount;
use crate::attempt::AttemptKind;
use crate::text::NodeText;

/// A block, named by height and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRef {
    pub number: u64,
    pub hash: B256,
}

/// A block together with the hash of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockLink {
    pub block: BlockRef,
    pub parent_hash: B256,
}

impl BlockLink {
    /// The parent block; `None` for the first block of a chain.
    pub fn parent(&self) -> Option<BlockRef> {
        Some(BlockRef { number: self.block.number.checked_sub(1)?, hash: self.parent_hash })
    }
}

/// One of our hashes in a canonical block. Only an inclusion decides which attempt counts (P9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inclusion {
    pub hash: B256,
    pub kind: AttemptKind,
    pub block: BlockRef,
    pub parent_hash: B256,
    pub execution: Execution,
    /// Work that the transaction used, and the price of one unit of it.
    pub work_used: u64,
    pub unit_price: Amount,
}

impl Inclusion {
    /// The block of the inclusion with its parent hash; this is the first confirmation.
    pub fn link(&self) -> BlockLink {
        BlockLink { block: self.block, parent_hash: self.parent_hash }
    }
}

/// Result of running a mined transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Execution {
    Success,
    Reverted { reason: Option<NodeText>, data: Bytes },
}
