//! The handle: what a chain can be told.

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

/// What becomes of the transactions of blocks that are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remine {
    /// The new blocks carry the same transactions in the same order; only their hashes differ.
    Same,
    /// They go back to the pool, and the new blocks are empty. The next block may carry them.
    ToPool,
    /// They are spread over the new blocks as the seed has it, each account's in the order of its nonces.
    Shuffle,
    /// They vanish from the chain and from the pool, as if nobody had ever sent them.
    Drop,
}

/// When what was written is forced to the disk. A process that is killed loses nothing either way: it is the machine's fall that
/// this is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Before a send is answered, and with every block.
    #[default]
    EveryAnswer,
    /// With every block.
    EveryBlock,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    pub sync: Sync,
}

/// A chain. Clones are handles onto the same one; every call takes its lock, and none waits for anything else.
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
    /// A chain in memory.
    pub fn new(genesis: Genesis) -> Self {
        Self::of(Core::new(genesis))
    }

    /// A chain that lives in a directory: a new one, or the one that was there, where it was when its process ended.
    pub fn open(dir: &Path, genesis: Genesis, options: OpenOptions) -> Result<Self, ChainError> {
        Ok(Self::of(crate::journal::open(dir, genesis, options)?))
    }

    fn of(core: Core) -> Self {
        Self { shared: Arc::new(Shared { core: Mutex::new(core) }) }
    }

    // --- Sending. ---

    /// Gives a signed transaction to the pool. With automine, it is in a block when this returns.
    pub fn send_raw(&self, raw: &[u8]) -> Result<B256, PoolError> {
        // An answer for each of the sends, so there is one.
        self.send_many(&[raw]).pop().unwrap_or(Err(PoolError::TypedTxTooShort))
    }

    /// Gives many to the pool, one after the other, and forces them to the disk once.
    pub fn send_many(&self, raws: &[&[u8]]) -> Vec<Result<B256, PoolError>> {
        // Decoding and recovering senders is most of the work, and needs no lock.
        let txs: Vec<_> = raws.iter().map(|raw| crate::tx::Tx::decode(raw)).collect();
        self.lock().send(txs)
    }

    /// Takes a transaction now and gives it to the pool when block `until` is made. It is nowhere to be seen before.
    pub fn send_delayed(&self, raw: &[u8], until: u64) -> Result<B256, ChainError> {
        let tx = crate::tx::Tx::decode(raw)?;
        self.lock().delay(tx, until)
    }

    /// Takes a transaction out of the pool.
    pub fn drop_tx(&self, hash: B256) -> Result<bool, ChainError> {
        self.lock().drop_tx(hash)
    }

    /// Empties the pool.
    pub fn drop_all_txs(&self) -> Result<usize, ChainError> {
        self.lock().drop_all_txs()
    }

    // --- Blocks. ---

    /// Makes a block from the pool. A timestamp that is not after the parent's becomes the second after it.
    pub fn mine(&self, timestamp: u64) -> Result<Arc<Block>, ChainError> {
        self.lock().mine(timestamp)
    }

    /// Makes a block at the time of the chain's own clock ([`Self::set_time`]).
    pub fn mine_now(&self) -> Result<Arc<Block>, ChainError> {
        let mut core = self.lock();
        let now = core.now();
        core.mine(now)
    }

    /// Makes a block without transactions. Whatever is in the pool stays there, also what a `pending` block showed before.
    pub fn mine_empty(&self) -> Result<Arc<Block>, ChainError> {
        let mut core = self.lock();
        let now = core.now();
        core.mine_empty(now)
    }

    /// Makes `count` blocks, `interval_secs` apart.
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

    /// A block for every transaction that is accepted, at the time of the chain's own clock.
    pub fn set_automine(&self, on: bool) {
        self.lock().set_automine(on);
    }

    pub fn automine(&self) -> bool {
        self.lock().automine()
    }

    /// Tells the chain what time it is (seconds since 1970). It never goes by any other clock.
    pub fn set_time(&self, now: u64) {
        self.lock().set_time(now);
    }

    /// Moves the chain's clock ahead of what it is told. Gives back how far it is ahead in all.
    pub fn increase_time(&self, secs: u64) -> u64 {
        self.lock().increase_time(secs)
    }

    /// The timestamp of the next block, whatever the clock says. It has to be after the head's.
    pub fn set_next_timestamp(&self, timestamp: u64) -> Result<(), ChainError> {
        self.lock().set_next_timestamp(timestamp)
    }

    /// The base fee of the next block, instead of what the formula gives.
    pub fn set_next_base_fee(&self, base_fee: u64) {
        self.lock().set_next_base_fee(base_fee);
    }

    pub fn set_coinbase(&self, coinbase: Address) -> Result<(), ChainError> {
        self.lock().set_coinbase(coinbase)
    }

    /// The gas limit of blocks from the next one on.
    pub fn set_gas_limit(&self, gas_limit: u64) -> Result<(), ChainError> {
        self.lock().set_gas_limit(gas_limit)
    }

    /// How far `safe` and `finalized` are behind the head from now on. They never go back for it: with a depth that is too large
    /// they stay where they are until the head is that far ahead. It is not written down, as no knob is.
    pub fn set_finality(&self, depths: Finality) -> Result<(), ChainError> {
        self.lock().set_finality(depths)
    }

    pub fn finality(&self) -> Finality {
        self.lock().finality()
    }

    // --- Going back. ---

    /// Replaces the newest `depth` blocks by `depth + 1` others, and gives back the new head.
    pub fn reorg(&self, depth: u64, remine: Remine) -> Result<Arc<Block>, ChainError> {
        self.lock().reorg(depth, remine)
    }

    /// Takes blocks back until `number` is the head. Their transactions go back to the pool.
    pub fn revert_to(&self, number: u64) -> Result<Arc<Block>, ChainError> {
        self.lock().revert_to(number)
    }

    /// Starts again from genesis: no blocks, no pool, as a dev node that lost its disk.
    pub fn reset(&self) -> Result<(), ChainError> {
        self.lock().reset()
    }

    // --- Editing the state at the head. It lasts until its block is taken back. ---

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

    // --- Seeing. ---

    /// Reads of the chain as it is.
    pub fn view(&self) -> View {
        View::new(self.clone())
    }

    /// What happens from now on, in order. A receiver that is too slow is told how much it missed.
    pub fn subscribe(&self) -> broadcast::Receiver<ChainEvent> {
        self.lock().subscribe()
    }

    /// One node's face of this chain, without faults in the beginning. Every call makes a new one, even under the same name.
    pub fn endpoint(&self, name: &str) -> Endpoint {
        let seed = self.lock().seed();
        Endpoint::new(self.clone(), name, Faults::seeded(seed, name))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic in the middle of a call can only come from a test's assertion inside a lock that no call of ours runs.
        self.shared.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
