//! All blocks of a chain, orphaned and private ones too, and the list of the canonical ones.
//!
//! Every block has the state of all accounts after it, so that a count or a balance at any block is one lookup.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gapless_chain::{Header, Receipt};
use gapless_domain::{Amount, B256, BlockLink, BlockRef, keccak256};

use super::signed::DecodedTx;
use crate::history::{ChainBlock, ChainTx};

/// The balance of every account at the start: a thousand ether. A poorer account gets it again, unless it is drained.
const RICH: u128 = 1_000_000_000_000_000_000_000;
/// The balance of a drained account. It pays for no transaction.
const POOR: u128 = 1_000;

/// The timestamp of the first block, in seconds.
const EPOCH_S: u64 = 1_700_000_000;

/// The index of a block among all blocks.
pub(super) type BlockId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccountState {
    pub(super) count: u64,
    pub(super) balance: u128,
}

#[derive(Debug)]
pub(super) struct BlockEntry {
    pub(super) header: Header,
    parent: Option<BlockId>,
    pub(super) txs: Vec<Arc<DecodedTx>>,
    /// The state of each account after the block.
    pub(super) accounts: Vec<AccountState>,
    /// The only endpoint that has the block.
    private_to: Option<usize>,
}

/// The contents of a new block.
#[derive(Debug)]
pub(super) struct BlockParts<'a> {
    pub(super) at: Duration,
    pub(super) base_fee: u128,
    pub(super) txs: Vec<Arc<DecodedTx>>,
    /// For each account: true if it is drained now.
    pub(super) drained: &'a [bool],
    pub(super) private_to: Option<usize>,
}

#[derive(Debug)]
pub(super) struct BlockTree {
    all: Vec<BlockEntry>,
    /// The canonical blocks, by number.
    canonical: Vec<BlockId>,
    by_hash: BTreeMap<B256, BlockId>,
    /// For each transaction: every block that has it.
    inclusions: BTreeMap<B256, Vec<BlockId>>,
}

impl BlockTree {
    pub(super) fn new(accounts: usize, at: Duration, base_fee: u128) -> Self {
        let mut tree =
            BlockTree { all: Vec::new(), canonical: Vec::new(), by_hash: BTreeMap::new(), inclusions: BTreeMap::new() };
        tree.begin(accounts, at, base_fee);
        tree
    }

    /// Begins a chain with a new genesis. The old blocks are no longer canonical.
    pub(super) fn begin(&mut self, accounts: usize, at: Duration, base_fee: u128) -> BlockId {
        self.canonical.clear();
        let accounts = vec![AccountState { count: 0, balance: RICH }; accounts];
        let id = self.put(None, at, base_fee, Vec::new(), accounts, None);
        self.canonical.push(id);
        id
    }

    pub(super) fn head(&self) -> BlockId {
        self.canonical.last().copied().unwrap_or_default()
    }

    pub(super) fn head_number(&self) -> u64 {
        (self.canonical.len() as u64).saturating_sub(1)
    }

    pub(super) fn block(&self, id: BlockId) -> Option<&BlockEntry> {
        self.all.get(id)
    }

    pub(super) fn header(&self, id: BlockId) -> Option<Header> {
        self.block(id).map(|block| block.header)
    }

    pub(super) fn accounts(&self, id: BlockId) -> &[AccountState] {
        self.block(id).map_or(&[], |block| &block.accounts)
    }

    pub(super) fn canonical_at(&self, number: u64) -> Option<BlockId> {
        self.canonical.get(usize::try_from(number).ok()?).copied()
    }

    /// Builds a block on another one. It is not canonical until [`BlockTree::extend`].
    pub(super) fn build(&mut self, parent: BlockId, parts: BlockParts<'_>) -> BlockId {
        let BlockParts { at, base_fee, txs, drained, private_to } = parts;
        let mut accounts = self.accounts(parent).to_vec();
        for tx in &txs {
            if let Some(account) = accounts.get_mut(tx.account) {
                account.count += 1;
                account.balance = account.balance.saturating_sub(tx.cost(base_fee));
            }
        }
        for (account, is_drained) in accounts.iter_mut().zip(drained) {
            if *is_drained {
                account.balance = account.balance.min(POOR);
            } else if account.balance < RICH / 2 {
                account.balance = RICH;
            }
        }
        self.put(Some(parent), at, base_fee, txs, accounts, private_to)
    }

    fn put(
        &mut self,
        parent: Option<BlockId>,
        at: Duration,
        base_fee: u128,
        txs: Vec<Arc<DecodedTx>>,
        accounts: Vec<AccountState>,
        private_to: Option<usize>,
    ) -> BlockId {
        let id = self.all.len();
        let below = parent.and_then(|parent| self.header(parent));
        let number = below.map_or(0, |below| below.block.number + 1);
        let parent_hash = below.map_or(B256::ZERO, |below| below.block.hash);
        let block = BlockRef { number, hash: keccak256(format!("block {id} at {number} on {parent_hash}")) };
        let header = Header { block, parent_hash, timestamp: EPOCH_S + at.as_secs(), base_fee: Some(base_fee) };
        for tx in &txs {
            self.inclusions.entry(tx.hash()).or_default().push(id);
        }
        self.by_hash.insert(block.hash, id);
        self.all.push(BlockEntry { header, parent, txs, accounts, private_to });
        id
    }

    /// The account's count at a block grows without a transaction (an EIP-7702 authorization).
    pub(super) fn use_nonce(&mut self, id: BlockId, account: usize) {
        if let Some(account) = self.all.get_mut(id).and_then(|block| block.accounts.get_mut(account)) {
            account.count += 1;
        }
    }

    /// Makes a block the canonical head.
    pub(super) fn extend(&mut self, id: BlockId) {
        self.canonical.push(id);
    }

    /// Removes the newest blocks from the canonical chain, but never the genesis. Returns them, newest first.
    pub(super) fn cut(&mut self, depth: u64) -> Vec<BlockId> {
        let mut orphaned = Vec::new();
        while self.canonical.len() > 1 && (orphaned.len() as u64) < depth {
            orphaned.extend(self.canonical.pop());
        }
        orphaned
    }

    /// The block at a height of the branch that ends in `head`.
    pub(super) fn at(&self, head: BlockId, number: u64) -> Option<BlockId> {
        let mut id = head;
        loop {
            let block = self.block(id)?;
            let own = block.header.block.number;
            if own == number {
                return Some(id);
            }
            if own < number {
                return None;
            }
            if self.canonical_at(own) == Some(id) {
                return self.canonical_at(number);
            }
            id = block.parent?;
        }
    }

    /// The id of a block, if it is on the branch that ends in `head`.
    pub(super) fn find(&self, head: BlockId, block: BlockRef) -> Option<BlockId> {
        let id = self.at(head, block.number)?;
        (self.header(id)?.block == block).then_some(id)
    }

    /// The block with this hash, if the endpoint has ever had it.
    pub(super) fn by_hash(&self, hash: B256, endpoint: usize) -> Option<&BlockEntry> {
        let block = self.block(*self.by_hash.get(&hash)?)?;
        block.private_to.is_none_or(|owner| owner == endpoint).then_some(block)
    }

    /// The block of a transaction on the branch that ends in `head`.
    pub(super) fn locate(&self, head: BlockId, hash: B256) -> Option<(BlockId, &Arc<DecodedTx>)> {
        let inclusions = self.inclusions.get(&hash)?;
        let is_there = |id: &BlockId| {
            let number = self.block(*id).map(|block| block.header.block.number);
            number.and_then(|number| self.at(head, number)) == Some(*id)
        };
        let id = inclusions.iter().copied().find(is_there)?;
        let tx = self.block(id)?.txs.iter().find(|tx| tx.hash() == hash)?;
        Some((id, tx))
    }
}

impl BlockEntry {
    pub(super) fn link(&self) -> BlockLink {
        BlockLink { block: self.header.block, parent_hash: self.header.parent_hash }
    }

    pub(super) fn base_fee(&self) -> u128 {
        self.header.base_fee.unwrap_or_default()
    }

    pub(super) fn receipt(&self, tx: &DecodedTx) -> Receipt {
        Receipt {
            hash: tx.hash(),
            block: self.header.block,
            succeeded: tx.succeeds,
            work_used: tx.gas_used,
            unit_price: Amount::from(tx.price(self.base_fee())),
        }
    }

    /// The block as the history records it.
    pub(super) fn to_history(&self) -> ChainBlock {
        let to_history = |tx: &Arc<DecodedTx>| ChainTx {
            read: tx.read.clone(),
            succeeded: tx.succeeds,
            by_stranger: tx.by_stranger,
        };
        ChainBlock {
            block: self.header.block,
            parent: self.header.parent_hash,
            txs: self.txs.iter().map(to_history).collect(),
        }
    }
}
