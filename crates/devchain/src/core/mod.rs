//! The chain itself: blocks, state and pool. It is used under one lock, and changes only by calls.

mod branch;
mod build;
mod control;
mod finality;
mod op;
mod persist;
mod reorg;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use alloy_primitives::map::HashMap;
use alloy_primitives::{Address, B256};
use tokio::sync::broadcast;

use crate::block::{Block, ChainEvent, MinedPosition};
use crate::genesis::{Genesis, Limits};
use crate::journal::Journal;
use crate::pool::{HeadContext, Pool};
use crate::query::{Finality, PoolContent, PoolStatus};
use crate::state::{State, StateAt, StateChanges};
use crate::tx::Tx;

pub(crate) use branch::Branch;
pub(crate) use build::{base_fee_after, finish};
pub(crate) use control::Durability;
#[cfg(test)]
pub(crate) use op::MinedBlock;
pub(crate) use op::{Edit, Op, SentTx};
pub(crate) use persist::SnapshotContent;

#[derive(Debug)]
pub(crate) struct Core {
    genesis: Genesis,
    state: State,
    /// A hash that stands for the state at the head, including all edits.
    root: B256,
    /// The canonical blocks, from the oldest kept block to the head. Never empty.
    blocks: VecDeque<Arc<Block>>,
    /// The canonical blocks and the orphans.
    by_hash: HashMap<B256, Arc<Block>>,
    orphans: VecDeque<B256>,
    /// The changes of the orphans, for endpoints that show an orphaned branch.
    orphan_changes: HashMap<B256, StateChanges>,
    /// The head of the branch that the last reorg orphaned.
    last_orphaned: Option<B256>,
    tags: finality::FinalityTags,
    mined: HashMap<B256, (u64, usize)>,
    pool: Pool,
    delayed: Vec<DelayedSend>,
    /// Number of rewinds. It is part of prevrandao, so replacement blocks get other hashes.
    branch: u64,
    gas_limit: u64,
    coinbase: Address,
    next_base_fee: Option<u64>,
    next_timestamp: Option<u64>,
    clock: u64,
    clock_offset: u64,
    automine: bool,
    /// The block that would be mined now. Built on first use.
    pending: RefCell<Option<Arc<PendingBlock>>>,
    journal: Option<Journal>,
    /// The error of the journal. Once it is set, no operation is accepted.
    journal_error: Option<String>,
    events: broadcast::Sender<ChainEvent>,
}

/// The block that would be mined now, and its changes. The block is not part of the chain.
#[derive(Debug)]
pub(crate) struct PendingBlock {
    pub(crate) block: Arc<Block>,
    pub(crate) changes: StateChanges,
}

/// A send that is delayed until a block.
#[derive(Clone, Debug)]
pub(crate) struct DelayedSend {
    pub(crate) until: u64,
    pub(crate) tx: Arc<Tx>,
}

impl Core {
    pub(crate) fn new(genesis: Genesis) -> Self {
        let (events, _) = broadcast::channel(genesis.limits.events.max(1));
        let (block, changes) = build::genesis_block(&genesis);
        let mut state = State::before(0);
        state.push(&changes);
        let block = Arc::new(block);
        let Limits { safe_depth: safe, finalized_depth: finalized, .. } = genesis.limits;
        let depths = Finality { safe, finalized };
        Self {
            state,
            root: block.header.state_root,
            by_hash: [(block.hash, block.clone())].into_iter().collect(),
            blocks: [block].into(),
            orphans: VecDeque::new(),
            orphan_changes: HashMap::default(),
            last_orphaned: None,
            tags: finality::FinalityTags::new(depths, 0),
            mined: HashMap::default(),
            pool: Pool::new(genesis.limits.pool.clone()),
            delayed: Vec::new(),
            branch: 0,
            gas_limit: genesis.gas_limit,
            coinbase: genesis.coinbase,
            next_base_fee: None,
            next_timestamp: None,
            clock: genesis.timestamp,
            clock_offset: 0,
            automine: false,
            pending: RefCell::new(None),
            journal: None,
            journal_error: None,
            events,
            genesis,
        }
    }

    pub(crate) fn chain_id(&self) -> u64 {
        self.genesis.chain_id
    }

    pub(crate) fn seed(&self) -> u64 {
        self.genesis.seed
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.genesis.limits
    }

    pub(crate) fn head(&self) -> Arc<Block> {
        self.blocks[self.blocks.len() - 1].clone()
    }

    /// The number of the oldest block that is kept.
    pub(crate) fn oldest(&self) -> u64 {
        self.blocks[0].number()
    }

    pub(crate) fn blocks(&self) -> &VecDeque<Arc<Block>> {
        &self.blocks
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn block_by_number(&self, number: u64) -> Option<Arc<Block>> {
        let index = usize::try_from(number.checked_sub(self.oldest())?).ok()?;
        self.blocks.get(index).cloned()
    }

    pub(crate) fn block_by_hash(&self, hash: B256) -> Option<Arc<Block>> {
        self.by_hash.get(&hash).cloned()
    }

    pub(crate) fn mined(&self, tx: B256) -> Option<MinedPosition> {
        let (number, index) = *self.mined.get(&tx)?;
        Some(MinedPosition { block: self.block_by_number(number)?, index })
    }

    pub(crate) fn pooled(&self, tx: B256) -> Option<Arc<Tx>> {
        self.pool.get(tx).cloned()
    }

    pub(crate) fn pending_nonce(&self, account: Address) -> u64 {
        self.pool.next_nonce(account, self.head_context())
    }

    pub(crate) fn pool_status(&self) -> PoolStatus {
        self.pool.status()
    }

    pub(crate) fn pool_content(&self) -> PoolContent {
        self.pool.content()
    }

    pub(crate) fn state_at(&self, number: u64) -> StateAt<'_> {
        self.state.at(number)
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<ChainEvent> {
        self.events.subscribe()
    }

    /// The head's values for the pool.
    fn head_context(&self) -> HeadContext<'_> {
        head_context(&self.genesis, &self.state, self.gas_limit, self.next_base_fee())
    }

    /// The pool and the head's values for it, borrowed at the same time.
    fn pool_and_head_context(&mut self) -> (&mut Pool, HeadContext<'_>) {
        let base_fee = self.next_base_fee();
        (&mut self.pool, head_context(&self.genesis, &self.state, self.gas_limit, base_fee))
    }

    fn publish(&self, event: ChainEvent) {
        // A send without receivers is no error.
        drop(self.events.send(event));
    }

    fn publish_pending(&self, txs: Vec<Arc<Tx>>) {
        if self.events.receiver_count() > 0 {
            for tx in txs {
                self.publish(ChainEvent::Pending(tx));
            }
        }
    }

    /// Drops the cached pending block, after every change of the chain or the pool.
    fn drop_pending_block(&self) {
        self.pending.replace(None);
    }
}

fn head_context<'a>(genesis: &Genesis, state: &'a State, gas_limit: u64, base_fee: u64) -> HeadContext<'a> {
    HeadContext { chain_id: genesis.chain_id, gas_limit, base_fee, state: state.at(state.newest()) }
}
