//! The pool and the blocks of the null chain. Time is an argument.

use std::collections::VecDeque;
use std::sync::Arc;

use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::map::{AddressHashMap, B256HashMap};
use alloy_primitives::{Address, B256};

use super::account::NullAccount;
use super::block::NullBlock;
use super::tx::NullTx;
use crate::pool::PoolError;

/// Maximum number of kept blocks.
const KEPT_BLOCKS: usize = 2_000;
/// Maximum transaction bytes of all kept blocks. Beyond it, blocks are dropped earlier.
const KEPT_TX_BYTES: usize = 256 << 20;
/// Blocks that are kept whatever their size.
const LEAST_KEPT_BLOCKS: usize = 64;
/// Blocks with cached JSON of their receipts.
const KEPT_RECEIPT_TEXTS: usize = 64;
/// Maximum transactions of one block. All receipts of a block must fit into one answer that clients accept.
const MAX_BLOCK_TXS: usize = 20_000;
/// Maximum number and bytes of the transactions that wait to be mined.
const MAX_WAITING: usize = 1_000_000;
const MAX_WAITING_BYTES: usize = 512 << 20;
/// Maximum number of accounts.
const MAX_ACCOUNTS: usize = 1_000_000;
/// Number of newest sends with a kept arrival time.
const KEPT_ARRIVALS: usize = 10_000;
/// Depths of the tags behind the head, in blocks.
const SAFE_DEPTH: u64 = 1;
const FINALIZED_DEPTH: u64 = 2;

#[derive(Debug)]
pub(super) struct NullCore {
    accounts: AddressHashMap<NullAccount>,
    /// Accounts with minable transactions, each once.
    ready: VecDeque<Address>,
    /// Never empty.
    blocks: VecDeque<Arc<NullBlock>>,
    head: Arc<NullBlock>,
    numbers: B256HashMap<u64>,
    locations: B256HashMap<TxLocation>,
    waiting: usize,
    waiting_bytes: usize,
    block_bytes: usize,
    arrivals: VecDeque<Arrival>,
    accepted: u64,
    mined: u64,
}

/// The position of a transaction.
#[derive(Clone, Copy, Debug)]
enum TxLocation {
    Waiting { from: Address, nonce: u64 },
    Mined { block: u64, index: usize },
}

/// The result of a search for a transaction.
#[derive(Debug)]
pub(super) enum LocatedTx {
    Waiting { raw: Box<[u8]>, from: Address },
    Mined { block: Arc<NullBlock>, index: usize },
}

/// The first arrival of a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) hash: B256,
    pub(super) at_micros: u64,
}

/// An accepted send.
#[derive(Debug)]
pub(super) struct AcceptedSend {
    pub(super) hash: B256,
    /// No transaction was minable before this one.
    pub(super) is_first_work: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub(super) head: u64,
    pub(super) accepted: u64,
    pub(super) mined: u64,
    pub(super) waiting: usize,
    pub(super) accounts: usize,
}

impl NullCore {
    pub(super) fn new(now_micros: u64) -> Self {
        let genesis = Arc::new(NullBlock::new(0, B256::ZERO, now_micros, Vec::new()));
        Self {
            accounts: AddressHashMap::default(),
            ready: VecDeque::new(),
            blocks: VecDeque::from([Arc::clone(&genesis)]),
            numbers: B256HashMap::from_iter([(genesis.hash, 0)]),
            head: genesis,
            locations: B256HashMap::default(),
            waiting: 0,
            waiting_bytes: 0,
            block_bytes: 0,
            arrivals: VecDeque::new(),
            accepted: 0,
            mined: 0,
        }
    }

    pub(super) fn send(&mut self, tx: NullTx, now_micros: u64) -> Result<AcceptedSend, PoolError> {
        let (hash, from, nonce, bytes) = (tx.hash, tx.from, tx.nonce, tx.raw.len());
        let is_full = self.waiting >= MAX_WAITING || self.waiting_bytes + bytes > MAX_WAITING_BYTES;
        if is_full || self.accounts.len() >= MAX_ACCOUNTS && !self.accounts.contains_key(&from) {
            return Err(PoolError::Full);
        }
        let account = self.accounts.entry(from).or_default();
        if nonce < account.next {
            return Err(PoolError::NonceTooLow { next: account.next, nonce });
        }
        if nonce == u64::MAX {
            return Err(PoolError::NonceMax);
        }
        match account.waiting(nonce) {
            Some(same) if same.hash == hash => return Err(PoolError::AlreadyKnown),
            Some(other) if !tx.is_bump_of(other) => return Err(PoolError::ReplacementUnderpriced),
            _ => {}
        }
        let was_ready = account.can_be_mined();
        let replaced = account.put(tx);
        let is_first_work = self.ready.is_empty();
        let becomes_ready = !was_ready && account.can_be_mined();
        if becomes_ready {
            self.ready.push_back(from);
        }
        if let Some(replaced) = replaced {
            self.locations.remove(&replaced.hash);
            self.waiting -= 1;
            self.waiting_bytes -= replaced.raw.len();
        }
        self.locations.insert(hash, TxLocation::Waiting { from, nonce });
        self.waiting += 1;
        self.waiting_bytes += bytes;
        self.accepted += 1;
        if self.arrivals.len() >= KEPT_ARRIVALS {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(Arrival { hash, at_micros: now_micros });
        Ok(AcceptedSend { hash, is_first_work: is_first_work && becomes_ready })
    }

    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Mines a block of all minable transactions, up to [`MAX_BLOCK_TXS`].
    pub(super) fn mine(&mut self, now_micros: u64) -> Arc<NullBlock> {
        let (number, oldest) = (self.head.number + 1, self.oldest());
        let mut txs = Vec::new();
        while let Some(from) = self.ready.pop_front() {
            let Some(account) = self.accounts.get_mut(&from) else { continue };
            account.mine(MAX_BLOCK_TXS - txs.len(), number, oldest, &mut txs);
            if account.can_be_mined() {
                self.ready.push_front(from);
                break;
            }
        }
        for (index, tx) in txs.iter().enumerate() {
            self.locations.insert(tx.hash, TxLocation::Mined { block: number, index });
        }
        let block = Arc::new(NullBlock::new(number, self.head.hash, now_micros, txs));
        let bytes = block.bytes();
        self.waiting -= block.txs.len();
        self.waiting_bytes -= bytes;
        self.block_bytes += bytes;
        self.mined += block.txs.len() as u64;
        self.numbers.insert(block.hash, number);
        self.blocks.push_back(Arc::clone(&block));
        self.head = Arc::clone(&block);
        self.forget();
        block
    }

    fn forget(&mut self) {
        let old = self.blocks.len().checked_sub(KEPT_RECEIPT_TEXTS + 1);
        if let Some(old) = old.and_then(|old| self.blocks.get(old)) {
            old.forget_receipts();
        }
        while self.blocks.len() > KEPT_BLOCKS
            || self.block_bytes > KEPT_TX_BYTES && self.blocks.len() > LEAST_KEPT_BLOCKS
        {
            let Some(oldest) = self.blocks.pop_front() else { return };
            self.numbers.remove(&oldest.hash);
            self.block_bytes -= oldest.bytes();
            for tx in &oldest.txs {
                self.locations.remove(&tx.hash);
            }
        }
    }

    fn oldest(&self) -> u64 {
        self.blocks.front().map_or(0, |block| block.number)
    }

    pub(super) fn head(&self) -> &Arc<NullBlock> {
        &self.head
    }

    fn by_number(&self, number: u64) -> Option<&Arc<NullBlock>> {
        let index = number.checked_sub(self.oldest())?;
        self.blocks.get(usize::try_from(index).ok()?)
    }

    /// The block of an id. The chain has no pending block: `pending` is the head.
    pub(super) fn block(&self, id: BlockId) -> Option<&Arc<NullBlock>> {
        let behind = |depth| self.by_number(self.head.number.saturating_sub(depth));
        match id {
            BlockId::Hash(hash) => self.by_number(*self.numbers.get(&hash.block_hash)?),
            BlockId::Number(BlockNumberOrTag::Number(number)) => self.by_number(number),
            BlockId::Number(BlockNumberOrTag::Latest | BlockNumberOrTag::Pending) => Some(&self.head),
            BlockId::Number(BlockNumberOrTag::Safe) => behind(SAFE_DEPTH),
            BlockId::Number(BlockNumberOrTag::Finalized) => behind(FINALIZED_DEPTH),
            BlockId::Number(BlockNumberOrTag::Earliest) => self.by_number(0),
        }
    }

    /// The transaction count of an account at a block. `None` if the block is unknown or no longer kept.
    pub(super) fn count(&self, account: Address, at: BlockId) -> Option<u64> {
        let block = self.block(at)?;
        let Some(account) = self.accounts.get(&account) else { return Some(0) };
        Some(match at {
            BlockId::Number(BlockNumberOrTag::Pending) => account.first_missing,
            _ if block.number == self.head.number => account.next,
            _ => account.count_at(block.number),
        })
    }

    pub(super) fn find(&self, hash: B256) -> Option<LocatedTx> {
        match *self.locations.get(&hash)? {
            TxLocation::Waiting { from, nonce } => {
                let raw = self.accounts.get(&from)?.waiting(nonce)?.raw.clone();
                Some(LocatedTx::Waiting { raw, from })
            }
            TxLocation::Mined { block, index } => {
                Some(LocatedTx::Mined { block: Arc::clone(self.by_number(block)?), index })
            }
        }
    }

    /// The newest arrivals, oldest first.
    pub(super) fn arrivals(&self, most: usize) -> Vec<Arrival> {
        self.arrivals.iter().skip(self.arrivals.len().saturating_sub(most)).copied().collect()
    }

    pub(super) fn totals(&self) -> Totals {
        Totals {
            head: self.head.number,
            accepted: self.accepted,
            mined: self.mined,
            waiting: self.waiting,
            accounts: self.accounts.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tx(nonce: u64) -> NullTx {
        let hash = alloy_primitives::keccak256(nonce.to_be_bytes());
        let raw = vec![0; 100].into_boxed_slice();
        NullTx { hash, from: Address::ZERO, nonce, gas_used: 0, tip_cap: 0, fee_cap: 0, ty: 2, raw }
    }

    #[test]
    fn old_blocks_are_dropped_with_transactions() {
        let most = KEPT_BLOCKS as u64;
        let mut core = NullCore::new(0);
        for nonce in 0..most * 2 {
            let accepted = core.send(tx(nonce), 0).unwrap();
            assert!(accepted.is_first_work);
            assert_eq!(core.mine(0).txs.len(), 1);
            core.head().receipts();
        }
        assert_eq!(core.head().number, most * 2);
        assert_eq!(
            (core.blocks.len(), core.numbers.len(), core.locations.len()),
            (KEPT_BLOCKS, KEPT_BLOCKS, KEPT_BLOCKS)
        );
        assert_eq!((core.block_bytes, core.waiting, core.waiting_bytes), (KEPT_BLOCKS * 100, 0, 0));
        assert_eq!(core.arrivals.len(), KEPT_BLOCKS * 2);
        assert!(core.find(tx(most - 1).hash).is_none());
        assert!(matches!(core.find(tx(most).hash), Some(LocatedTx::Mined { index: 0, .. })));
        let at = |number: u64| BlockId::from(number);
        assert_eq!(core.count(Address::ZERO, at(most)), None);
        assert_eq!(core.count(Address::ZERO, at(most + 1)), Some(most + 1));
        assert_eq!(core.count(Address::ZERO, BlockId::finalized()), Some(most * 2 - 2));
    }

    #[test]
    fn full_block_leaves_rest_to_the_next() {
        let mut core = NullCore::new(0);
        for nonce in 0..MAX_BLOCK_TXS as u64 + 7 {
            core.send(tx(nonce), 0).unwrap();
        }
        assert_eq!(core.arrivals.len(), KEPT_ARRIVALS);
        assert_eq!(core.mine(0).txs.len(), MAX_BLOCK_TXS);
        assert!(core.has_work());
        assert_eq!(core.mine(0).txs.len(), 7);
        assert!(!core.has_work());
    }
}
