//! Where on the chain something happened.

use alloy_primitives::{B256, Bytes};

use crate::amount::Amount;
use crate::attempt::AttemptKind;
use crate::text::NodeText;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRef {
    pub number: u64,
    pub hash: B256,
}

/// The newest block that a watcher has linked, and the newest final one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub latest: BlockRef,
    pub parent_hash: B256,
    pub finalized: Option<BlockRef>,
}

/// One of our hashes in a canonical block: the only thing that decides which attempt counts (P9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inclusion {
    pub hash: B256,
    pub kind: AttemptKind,
    pub block: BlockRef,
    pub execution: Execution,
    pub gas_used: u64,
    pub effective_gas_price: Amount,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Execution {
    Success,
    Reverted { reason: Option<NodeText>, data: Bytes },
}
