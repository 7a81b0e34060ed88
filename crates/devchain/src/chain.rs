//! The handle of a chain, with all operations that change it.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::{Address, B256, Bytes, U256};
use tokio::sync::broadcast;

use crate::block::{Block, ChainEvent};
use crate::core::Core;
use crate::endpoint::Endpoint;
use crate::error::ChainError;
use crate::faults::Faults;
use crate::genesis::Genesis;
use crate::pool::PoolError;
use crate::query::Finality;
use crate::view::View;

/// The handling of the transactions of removed blocks in a reorg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remine {
    /// The new blocks carry the same transactions in the same order; only their hashes differ.
    Same,
    /// The transactions return to the pool, and the new blocks are empty. The next block may include them.
    ToPool,
    /// The transactions are spread over the new blocks as the seed decides. Each account's stay in nonce order.
    Shuffle,
    /// The transactions disappear from the chain and from the pool, as if they had never been sent.
    Drop,
}

/// When the journal is synced to disk. A killed process loses nothing in either mode; only a machine crash can lose
/// data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JournalSync {
    /// Before a send is answered, and with every block.
    #[default]
    EveryAnswer,
    /// With every block.
    EveryBlock,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    pub sync: JournalSync,
}

/// A chain. Clones are handles to the same chain. Every call takes its lock and waits for nothing else.
#[derive(Clone)]
pub struct DevChain {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    core: Mutex<Core>,
}

impl fmt::Debug for DevChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.view().head();
        write!(f, "DevChain(head {} {})", head.number(), head.hash)
    }
}

impl DevChain {
    /// Creates a chain in memory.
    pub fn new(genesis: Genesis) -> Self {
        Self::of(Core::new(genesis))
    }

    /// Opens the chain in a directory, at its last recorded state. Creates the chain if the directory has none.
    pub fn open(dir: &Path, genesis: Genesis, options: OpenOptions) -> Result<Self, ChainError> {
        Ok(Self::of(crate::journal::open(dir, genesis, options)?))
    }

    fn of(core: Core) -> Self {
        Self { shared: Arc::new(Shared { core: Mutex::new(core) }) }
    }

    // --- Sending. ---

    /// Adds a signed transaction to the pool. With automine, the transaction is in a block when the call returns.
    pub fn send_raw(&self, raw: &[u8]) -> Result<B256, PoolError> {
        // `send_many` returns one answer per transaction.
        self.send_many(&[raw]).pop().unwrap_or(Err(PoolError::TypedTxTooShort))
    }

    /// Adds transactions to the pool in order, with one disk sync for all.
    pub fn send_many(&self, raws: &[&[u8]]) -> Vec<Result<B256, PoolError>> {
        // Decoding and sender recovery take most of the time, and need no lock.
        let txs: Vec<_> = raws.iter().map(|raw| crate::tx::Tx::decode(raw)).collect();
        self.lock().send(txs)
    }

    /// Accepts a transaction now, but adds it to the pool only when block `until` is built. It is invisible until then.
    pub fn send_delayed(&self, raw: &[u8], until: u64) -> Result<B256, ChainError> {
        let tx = crate::tx::Tx::decode(raw)?;
        self.lock().delay(tx, until)
    }

    /// Removes a transaction from the pool.
    pub fn drop_tx(&self, hash: B256) -> Result<bool, ChainError> {
        self.lock().drop_tx(hash)
    }

    /// Empties the pool and returns the number of removed transactions.
    pub fn drop_all_txs(&self) -> Result<usize, ChainError> {
        self.lock().drop_all_txs()
    }

    // --- Blocks. ---

    /// Mines a block from the pool. A timestamp not after the parent's becomes the parent's plus one second.
    pub fn mine(&self, timestamp: u64) -> Result<Arc<Block>, ChainError> {
        self.lock().mine(timestamp)
    }

    /// Mines a block at the time of the chain's clock ([`Self::set_time`]).
    pub fn mine_now(&self) -> Result<Arc<Block>, ChainError> {
        let mut core = self.lock();
        let now = core.now();
        core.mine(now)
    }

    /// Mines a block without transactions. The pool keeps all of its transactions, also those that a `pending` block
    /// showed.
    pub fn mine_empty(&self) -> Result<Arc<Block>, ChainError> {
        let mut core = self.lock();
        let now = core.now();
        core.mine_empty(now)
    }

    /// Mines `count` blocks, `interval_secs` apart.
    pub fn mine_many(&self, count: u64, interval_secs: u64) -> Result<Arc<Block>, ChainError> {
        let mut core = self.lock();
        let mut head = core.head();
        let mut at = core.now();
        for _ in 0..count {
            head = core.mine(at)?;
            at = head.timestamp().saturating_add(interval_secs);
        }
        Ok(head)
    }

    /// Switches automine: one block for every accepted transaction, at the time of the chain's clock.
    pub fn set_automine(&self, on: bool) {
        self.lock().set_automine(on);
    }

    pub fn automine(&self) -> bool {
        self.lock().automine()
    }

    /// Sets the chain's clock (seconds since 1970). The chain reads no other clock.
    pub fn set_time(&self, now: u64) {
        self.lock().set_time(now);
    }

    /// Moves the chain's clock ahead of the time that was set. Returns the total offset in seconds.
    pub fn increase_time(&self, secs: u64) -> u64 {
        self.lock().increase_time(secs)
    }

    /// Sets the timestamp of the next block, which overrides the clock. The timestamp must be after the head's.
    pub fn set_next_timestamp(&self, timestamp: u64) -> Result<(), ChainError> {
        self.lock().set_next_timestamp(timestamp)
    }

    /// Sets the base fee of the next block, which overrides the EIP-1559 formula.
    pub fn set_next_base_fee(&self, base_fee: u64) {
        self.lock().set_next_base_fee(base_fee);
    }

    pub fn set_coinbase(&self, coinbase: Address) -> Result<(), ChainError> {
        self.lock().set_coinbase(coinbase)
    }

    /// Sets the gas limit of all blocks from the next one on.
    pub fn set_gas_limit(&self, gas_limit: u64) -> Result<(), ChainError> {
        self.lock().set_gas_limit(gas_limit)
    }

    /// Sets the depth of `safe` and `finalized` behind the head. The tags never move back: after an increase of the
    /// depth they keep their blocks until the head is far enough ahead. The setting is not persisted.
    pub fn set_finality(&self, depths: Finality) -> Result<(), ChainError> {
        self.lock().set_finality(depths)
    }

    pub fn finality(&self) -> Finality {
        self.lock().finality()
    }

    // --- Reorgs. ---

    /// Replaces the newest `depth` blocks by `depth + 1` others, and returns the new head.
    pub fn reorg(&self, depth: u64, remine: Remine) -> Result<Arc<Block>, ChainError> {
        self.lock().reorg(depth, remine)
    }

    /// Removes blocks until `number` is the head. Their transactions return to the pool.
    pub fn revert_to(&self, number: u64) -> Result<Arc<Block>, ChainError> {
        self.lock().revert_to(number)
    }

    /// Restarts the chain from genesis with an empty pool, like a dev node that lost its disk.
    pub fn reset(&self) -> Result<(), ChainError> {
        self.lock().reset()
    }

    // --- Edits of the state at the head. A reorg of the head block also removes its edits. ---

    pub fn set_balance(&self, account: Address, balance: U256) -> Result<(), ChainError> {
        self.lock().set_balance(account, balance)
    }

    pub fn set_nonce(&self, account: Address, nonce: u64) -> Result<(), ChainError> {
        self.lock().set_nonce(account, nonce)
    }

    pub fn set_code(&self, account: Address, code: Bytes) -> Result<(), ChainError> {
        self.lock().set_code(account, code)
    }

    pub fn set_storage(&self, account: Address, slot: U256, value: U256) -> Result<(), ChainError> {
        self.lock().set_storage(account, slot, value)
    }

    // --- Reads. ---

    /// A view for reads of the chain at its head.
    pub fn view(&self) -> View {
        View::new(self.clone())
    }

    /// Subscribes to events from now on, in order. A receiver that is too slow gets the number of missed events.
    pub fn subscribe(&self) -> broadcast::Receiver<ChainEvent> {
        self.lock().subscribe()
    }

    /// Creates an endpoint of this chain without faults. Every call creates a new one, even for a known name.
    pub fn endpoint(&self, name: &str) -> Endpoint {
        let seed = self.lock().seed();
        Endpoint::new(self.clone(), name, Faults::seeded(seed, name))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        // No call panics while it holds the lock, so the core of a poisoned lock is intact.
        self.shared.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
