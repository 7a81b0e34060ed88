//! Reads of the chain, at the head or at another block.

mod call;
mod fees;
mod logs;
mod revert_reason;
mod trace;

use std::sync::{Arc, MutexGuard};

use alloy_primitives::{Address, B256, Bytes, U256};

use crate::block::{Block, LogEntry, MinedPosition};
use crate::chain::DevChain;
use crate::core::{Branch, Core};
use crate::error::{CallError, ReadError};
use crate::execute::Ledger;
use crate::faults::{Faults, VisibleBranch};
use crate::query::{BlockSelector, CallRequest, FeeHistory, FoundTx, LogFilter, PoolContent, PoolStatus, TopCall};
use crate::state::StateAt;

/// The answer to `web3_clientVersion`. It begins like geth's, because the pool returns geth's error texts.
pub const CLIENT_VERSION: &str = "Geth/v1.16.7-gapless-devchain/linux-amd64/go1.25.1";

/// A view for reads. Each call takes the chain's lock once, so that every answer is consistent.
#[derive(Clone, Debug)]
pub struct View {
    chain: DevChain,
    faults: Option<Faults>,
}

impl View {
    pub(crate) fn new(chain: DevChain) -> Self {
        Self { chain, faults: None }
    }

    pub(crate) fn of_endpoint(chain: DevChain, faults: Faults) -> Self {
        Self { chain, faults: Some(faults) }
    }

    pub fn chain_id(&self) -> u64 {
        self.faults.as_ref().and_then(Faults::wrong_chain_id).unwrap_or_else(|| self.chain.lock().chain_id())
    }

    pub fn client_version(&self) -> &'static str {
        CLIENT_VERSION
    }

    /// The newest block of this view.
    pub fn head(&self) -> Arc<Block> {
        self.read_at(BlockSelector::Latest).head()
    }

    /// A block, or `None` if this view does not have it. `Pending` is built on demand.
    pub fn block(&self, at: BlockSelector) -> Option<Arc<Block>> {
        self.read_at(at).block(at)
    }

    /// The block and index of a mined transaction.
    pub fn receipt(&self, tx: B256) -> Option<MinedPosition> {
        if self.hides_receipts() {
            return None;
        }
        let read = self.read();
        read.mined(tx).or_else(|| self.preconfirmed(&read, tx))
    }

    /// A transaction of the chain or of the pool.
    pub fn transaction(&self, tx: B256) -> Option<FoundTx> {
        if self.hides_receipts() {
            return None;
        }
        let read = self.read();
        match read.mined(tx).or_else(|| self.preconfirmed(&read, tx)) {
            Some(mined) => mined.tx().cloned().map(|tx| FoundTx { tx, mined: Some(mined) }),
            None => read.core.pooled(tx).map(|tx| FoundTx { tx, mined: None }),
        }
    }

    pub fn balance(&self, account: Address, at: BlockSelector) -> Result<U256, ReadError> {
        self.read_at(at)
            .with_state(at, |state| state.account(account).map(|account| account.balance).unwrap_or_default())
    }

    /// The transaction count of an account. `Pending` includes executable transactions of the pool.
    pub fn nonce(&self, account: Address, at: BlockSelector) -> Result<u64, ReadError> {
        let read = self.read_at(at);
        if at == BlockSelector::Pending {
            return Ok(read.core.pending_nonce(account));
        }
        read.with_state(at, |state| state.account(account).map(|account| account.nonce).unwrap_or_default())
    }

    pub fn code(&self, account: Address, at: BlockSelector) -> Result<Bytes, ReadError> {
        self.read_at(at).with_state(at, |state| state.code(account))
    }

    pub fn storage(&self, account: Address, slot: U256, at: BlockSelector) -> Result<U256, ReadError> {
        self.read_at(at).with_state(at, |state| state.storage(account, slot))
    }

    pub fn call(&self, request: &CallRequest, at: BlockSelector) -> Result<Bytes, CallError> {
        call::call(&self.read_at(at), request, at)
    }

    /// The minimum gas with which the call succeeds, found with geth's search.
    pub fn estimate_gas(&self, request: &CallRequest, at: BlockSelector) -> Result<u64, CallError> {
        call::estimate_gas(&self.read_at(at), request, at)
    }

    /// The top-level call of a mined transaction, without inner calls.
    pub fn top_call(&self, tx: B256) -> Result<TopCall, ReadError> {
        trace::top_call(&self.read(), tx)
    }

    pub fn logs(&self, filter: &LogFilter) -> Result<Vec<LogEntry>, ReadError> {
        logs::logs(&self.read(), filter)
    }

    /// The fee history. Percentiles must be between 0 and 100 and increasing.
    pub fn fee_history(
        &self,
        blocks: u64,
        newest: BlockSelector,
        percentiles: &[f64],
    ) -> Result<FeeHistory, ReadError> {
        fees::fee_history(&self.read_at(newest), blocks, newest, percentiles)
    }

    /// The head's base fee plus the suggested tip.
    pub fn gas_price(&self) -> u128 {
        let read = self.read();
        u128::from(read.head().base_fee()) + fees::suggested_tip(&read)
    }

    pub fn max_priority_fee(&self) -> u128 {
        fees::suggested_tip(&self.read())
    }

    /// The base fee of the next block.
    pub fn next_base_fee(&self) -> u64 {
        self.chain.lock().next_base_fee()
    }

    pub fn pool_status(&self) -> PoolStatus {
        self.chain.lock().pool_status()
    }

    pub fn pool_content(&self) -> PoolContent {
        self.chain.lock().pool_content()
    }

    fn hides_receipts(&self) -> bool {
        self.faults.as_ref().is_some_and(Faults::hides_receipts)
    }

    /// The position of a transaction in the pending block, if the endpoint preconfirms transactions.
    fn preconfirmed(&self, read: &ChainRead<'_>, tx: B256) -> Option<MinedPosition> {
        let tells = self.faults.as_ref().is_some_and(Faults::preconfirms) && !read.lags();
        let block = read.core.pending_block().filter(|_| tells)?;
        let index = block.txs.iter().position(|pending| pending.hash == tx)?;
        Some(MinedPosition { block, index })
    }

    /// Begins a read. A read of `latest` is counted for endpoints that alternate between branches; other reads stay on
    /// the current branch.
    fn read_at(&self, at: BlockSelector) -> ChainRead<'_> {
        if at == BlockSelector::Latest
            && let Some(faults) = &self.faults
        {
            faults.count_latest();
        }
        self.read()
    }

    fn read(&self) -> ChainRead<'_> {
        let visible = self.faults.as_ref().map_or(VisibleBranch::Behind(0), Faults::visible_branch);
        let core = self.chain.lock();
        let behind = |lag| core.head().number().saturating_sub(lag).max(core.oldest());
        let branch = match visible {
            VisibleBranch::Behind(lag) => Branch::canonical(behind(lag)),
            // A branch with dropped blocks can no longer be shown.
            VisibleBranch::At(tip) => core.branch_of(tip).unwrap_or_else(|| Branch::canonical(behind(0))),
            VisibleBranch::Orphaned => {
                core.last_orphaned().and_then(|tip| core.branch_of(tip)).unwrap_or_else(|| Branch::canonical(behind(0)))
            }
        };
        ChainRead { core, newest: branch.tip(), branch }
    }
}

/// One read: the locked chain, and the branch that the reader sees.
pub(crate) struct ChainRead<'a> {
    core: MutexGuard<'a, Core>,
    /// The number of the newest block that the reader may see.
    newest: u64,
    branch: Branch,
}

impl ChainRead<'_> {
    fn head(&self) -> Arc<Block> {
        self.block_by_number(self.newest).unwrap_or_else(|| self.core.head())
    }

    fn lags(&self) -> bool {
        self.newest != self.core.head().number() || !self.branch.is_canonical()
    }

    /// A block of the branch that the reader sees.
    fn block_by_number(&self, number: u64) -> Option<Arc<Block>> {
        match self.branch.orphan(number) {
            Some(orphan) => Some(orphan.clone()),
            None => self.core.block_by_number(number).filter(|block| block.number() <= self.branch.fork),
        }
    }

    /// A block by its hash. A reader of an orphaned branch does not see the blocks that replaced it.
    fn block_by_hash(&self, hash: B256) -> Option<Arc<Block>> {
        let block = self.core.block_by_hash(hash).filter(|block| block.number() <= self.newest)?;
        let is_known = self.branch.is_canonical()
            || block.number() <= self.branch.fork
            || self.branch.blocks.iter().any(|known| known.hash == hash);
        Some(block).filter(|_| is_known)
    }

    fn block(&self, at: BlockSelector) -> Option<Arc<Block>> {
        match at {
            BlockSelector::Pending if !self.lags() => self.core.pending_block(),
            BlockSelector::Hash(hash) => self.block_by_hash(hash),
            _ => self.block_by_number(self.number(at)?),
        }
    }

    /// The block number of a tag. `None` if the block does not exist.
    fn number(&self, at: BlockSelector) -> Option<u64> {
        // A lagging endpoint has the same lag for `safe` and `finalized`.
        let behind = self.core.head().number().saturating_sub(self.newest);
        match at {
            BlockSelector::Latest | BlockSelector::Pending => Some(self.newest),
            BlockSelector::Earliest => Some(0),
            BlockSelector::Safe => Some(self.core.safe().saturating_sub(behind)),
            BlockSelector::Finalized => Some(self.core.finalized().saturating_sub(behind)),
            BlockSelector::Number(number) => Some(number).filter(|number| *number <= self.newest),
            BlockSelector::Hash(hash) => self.block_by_hash(hash).map(|block| block.number()),
        }
    }

    fn mined(&self, tx: B256) -> Option<MinedPosition> {
        let orphaned = self.branch.blocks.iter().find_map(|block| {
            let index = block.txs.iter().position(|mined| mined.hash == tx)?;
            Some(MinedPosition { block: block.clone(), index })
        });
        orphaned.or_else(|| self.core.mined(tx).filter(|mined| mined.block.number() <= self.branch.fork))
    }

    /// Reads the state after a block.
    fn with_state<T>(&self, at: BlockSelector, ask: impl FnOnce(&StateAt<'_>) -> T) -> Result<T, ReadError> {
        if at == BlockSelector::Pending && !self.lags() {
            return Ok(self.core.with_pending_state(ask));
        }
        let number = self.number(at).ok_or(ReadError::UnknownBlock)?;
        if let BlockSelector::Hash(hash) = at
            && self.block_by_number(number).is_none_or(|block| block.hash != hash)
        {
            return Err(ReadError::StateOrphaned { hash });
        }
        let oldest = self.core.oldest();
        if number < oldest {
            return Err(ReadError::StateGone { number, oldest });
        }
        if number <= self.branch.fork {
            return Ok(ask(&self.core.state_at(number)));
        }
        let changes = self.core.changes_of_branch(&self.branch, number);
        Ok(ask(&self.core.state().with(self.branch.fork, &changes)))
    }

    /// The state after a readable block, for execution. Code on an orphaned branch gets canonical block hashes.
    fn ledger(&self, number: u64) -> Ledger<'_> {
        let canonical = Ledger::on(self.core.state(), number.min(self.branch.fork), self.core.blocks());
        match number > self.branch.fork {
            true => canonical.with(self.core.changes_of_branch(&self.branch, number)),
            false => canonical,
        }
    }
}
