//! Operations that change the chain. Each is applied, recorded in the journal, and then answered.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};

use super::build::{BlockPlan, TxSource};
use super::op::{Edit, MinedBlock, Op, SentTx};
use super::{Core, DelayedSend};
use crate::block::{Block, ChainEvent};
use crate::error::ChainError;
use crate::pool::PoolError;
use crate::state::{Account, StateChanges};
use crate::tx::Tx;

impl Core {
    // --- Sending. ---

    pub(crate) fn send(&mut self, txs: Vec<Result<Tx, PoolError>>) -> Vec<Result<B256, PoolError>> {
        let mut ops = Vec::new();
        let mut answers: Vec<_> = txs.into_iter().map(|tx| self.send_one(tx?, &mut ops)).collect();
        if let Err(error) = self.write(&ops, Durability::WithAnswer) {
            let why = error.to_string();
            for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
                *answer = Err(PoolError::Storage { why: why.clone() });
            }
        }
        answers
    }

    fn send_one(&mut self, tx: Tx, ops: &mut Vec<Op>) -> Result<B256, PoolError> {
        if let Some(why) = &self.journal_error {
            return Err(PoolError::Storage { why: why.clone() });
        }
        let hash = tx.hash;
        let sent = SentTx { from: tx.from, raw: tx.raw.clone() };
        let (pool, context) = self.pool_and_head_context();
        let outcome = pool.add(Arc::new(tx), context);
        // A refused transaction may also have evicted others, as in geth.
        let evicted = pool.take_evicted();
        let was_evicted = evicted.contains(&hash);
        let promoted = outcome.inspect(|_| ops.push(Op::Send(sent)));
        ops.extend(evicted.into_iter().map(Op::Drop));
        let promoted = promoted?;
        self.drop_pending_block();
        // An executable transaction gets a block of its own. A queued one waits for its nonce.
        let makes_block = self.automine && !was_evicted && !promoted.is_empty();
        self.publish_pending(promoted);
        if makes_block {
            let storage = |error: ChainError| PoolError::Storage { why: error.to_string() };
            self.write(&std::mem::take(ops), Durability::Later).map_err(storage)?;
            let now = self.now();
            self.mine(now).map_err(storage)?;
        }
        Ok(hash)
    }

    pub(crate) fn delay(&mut self, tx: Tx, until: u64) -> Result<B256, ChainError> {
        self.check_journal()?;
        let limit = self.genesis.limits.delayed_sends;
        if self.delayed.len() >= limit {
            return Err(ChainError::TooManyDelayed(limit));
        }
        let (hash, sent) = (tx.hash, SentTx { from: tx.from, raw: tx.raw.clone() });
        self.delayed.push(DelayedSend { until, tx: Arc::new(tx) });
        self.write(&[Op::Delay { until, tx: sent }], Durability::WithAnswer)?;
        Ok(hash)
    }

    pub(crate) fn drop_tx(&mut self, hash: B256) -> Result<bool, ChainError> {
        self.check_journal()?;
        let was_there = self.pool.remove(hash).is_some();
        if was_there {
            self.drop_pending_block();
            self.write(&[Op::Drop(hash)], Durability::WithAnswer)?;
        }
        Ok(was_there)
    }

    pub(crate) fn drop_all_txs(&mut self) -> Result<usize, ChainError> {
        self.check_journal()?;
        let count = self.pool.clear();
        self.drop_pending_block();
        self.write(&[Op::DropAll], Durability::WithAnswer)?;
        Ok(count)
    }

    // --- Blocks. ---

    pub(crate) fn mine(&mut self, timestamp: u64) -> Result<Arc<Block>, ChainError> {
        self.mine_of(timestamp, TxSource::Best)
    }

    /// Mines a block without transactions. The pool stays unchanged.
    pub(crate) fn mine_empty(&mut self, timestamp: u64) -> Result<Arc<Block>, ChainError> {
        self.mine_of(timestamp, TxSource::Listed(Vec::new()))
    }

    fn mine_of(&mut self, timestamp: u64, txs: TxSource) -> Result<Arc<Block>, ChainError> {
        self.check_journal()?;
        let timestamp = self.next_timestamp.take().unwrap_or(timestamp);
        let (block, ops) = self.produce(timestamp, None, txs);
        self.write(&ops, Durability::WithBlock)?;
        self.publish(ChainEvent::NewHead(block.clone()));
        Ok(block)
    }

    /// Builds the next block and makes it the head. The caller records the operations and publishes the event.
    pub(super) fn produce(&mut self, timestamp: u64, base_fee: Option<u64>, txs: TxSource) -> (Arc<Block>, Vec<Op>) {
        let timestamp = timestamp.max(self.head().timestamp() + 1);
        let mut ops = self.release_delayed();
        let base_fee = base_fee.unwrap_or_else(|| self.next_base_fee());
        self.next_base_fee = None;
        let (block, changes) = self.build(&BlockPlan { timestamp, base_fee, txs });
        let block = Arc::new(block);
        self.root = block.header.state_root;
        self.state.push(&changes);
        for (index, tx) in block.txs.iter().enumerate() {
            self.mined.insert(tx.hash, (block.number(), index));
        }
        self.by_hash.insert(block.hash, block.clone());
        self.blocks.push_back(block.clone());
        self.tags.follow(block.number());
        self.forget_old();
        self.drop_pending_block();
        let (pool, context) = self.pool_and_head_context();
        let promoted = pool.update_accounts(changes.accounts.into_keys(), context);
        let evicted = pool.take_evicted();
        self.publish_pending(promoted);
        let mined =
            MinedBlock { timestamp, base_fee, txs: block.txs.iter().map(|tx| tx.hash).collect(), hash: block.hash };
        ops.push(Op::Mine(mined));
        ops.extend(evicted.into_iter().map(Op::Drop));
        (block, ops)
    }

    /// Adds delayed transactions to the pool that are due with the next block. Transactions that the pool refuses are
    /// lost, like any other refused send.
    fn release_delayed(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        // During a replay, recorded operations release the transactions.
        if self.pool.is_replaying() {
            return ops;
        }
        let next = self.head().number() + 1;
        let (due, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.delayed).into_iter().partition(|delayed| delayed.until <= next);
        self.delayed = waiting;
        for DelayedSend { tx, .. } in due {
            ops.push(Op::Release(tx.hash));
            let sent = SentTx { from: tx.from, raw: tx.raw.clone() };
            let (pool, context) = self.pool_and_head_context();
            let is_accepted = pool.add(tx, context).is_ok();
            let evicted = pool.take_evicted();
            ops.extend(is_accepted.then_some(Op::Send(sent)));
            ops.extend(evicted.into_iter().map(Op::Drop));
        }
        ops
    }

    fn forget_old(&mut self) {
        while self.blocks.len() as u64 > self.genesis.limits.history_blocks.max(1) {
            let Some(old) = self.blocks.pop_front() else { return };
            self.state.forget_oldest();
            self.by_hash.remove(&old.hash);
            for tx in &old.txs {
                self.mined.remove(&tx.hash);
            }
        }
    }

    // --- Settings. ---

    pub(crate) fn set_automine(&mut self, on: bool) {
        self.automine = on;
    }

    pub(crate) fn automine(&self) -> bool {
        self.automine
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.saturating_add(self.clock_offset)
    }

    pub(crate) fn set_time(&mut self, now: u64) {
        self.clock = now;
    }

    pub(crate) fn increase_time(&mut self, secs: u64) -> u64 {
        self.clock_offset = self.clock_offset.saturating_add(secs);
        self.clock_offset
    }

    pub(crate) fn set_next_timestamp(&mut self, timestamp: u64) -> Result<(), ChainError> {
        let head = self.head().timestamp();
        if timestamp <= head {
            return Err(ChainError::TimestampNotAfterHead { timestamp, head });
        }
        self.next_timestamp = Some(timestamp);
        Ok(())
    }

    pub(crate) fn set_next_base_fee(&mut self, base_fee: u64) {
        self.next_base_fee = Some(base_fee);
        self.drop_pending_block();
    }

    pub(crate) fn set_coinbase(&mut self, coinbase: Address) -> Result<(), ChainError> {
        self.check_journal()?;
        self.coinbase = coinbase;
        self.drop_pending_block();
        self.write(&[Op::SetCoinbase(coinbase)], Durability::WithAnswer)
    }

    pub(crate) fn set_gas_limit(&mut self, gas_limit: u64) -> Result<(), ChainError> {
        self.check_journal()?;
        self.gas_limit = gas_limit;
        self.drop_pending_block();
        self.write(&[Op::SetGasLimit(gas_limit)], Durability::WithAnswer)
    }

    // --- Editing the state. ---

    pub(crate) fn edit(&mut self, edit: Edit) -> Result<(), ChainError> {
        self.check_journal()?;
        let evicted = self.apply_edit(&edit);
        let mut ops = vec![Op::Edit(edit)];
        ops.extend(evicted.into_iter().map(Op::Drop));
        self.write(&ops, Durability::WithAnswer)
    }

    /// Applies an edit and returns the transactions that the pool evicted.
    pub(super) fn apply_edit(&mut self, edit: &Edit) -> Vec<B256> {
        let changes = self.changes_of(edit);
        self.root = changes.root(self.root);
        self.state.amend(&changes);
        self.drop_pending_block();
        let (pool, context) = self.pool_and_head_context();
        let promoted = pool.update_accounts(changes.accounts.into_keys(), context);
        let evicted = pool.take_evicted();
        self.publish_pending(promoted);
        evicted
    }

    fn changes_of(&self, edit: &Edit) -> StateChanges {
        let now = self.state.at(self.state.newest());
        let of = |address: Address| now.account(address).unwrap_or_default();
        let mut changes = StateChanges::default();
        let (address, account) = match edit {
            Edit::Balance { account, balance } => (*account, Account { balance: *balance, ..of(*account) }),
            Edit::Nonce { account, nonce } => (*account, Account { nonce: *nonce, ..of(*account) }),
            Edit::Code { account, code } => {
                let code_hash = keccak256(code);
                changes.codes.insert(code_hash, code.clone());
                (*account, Account { code_hash, ..of(*account) })
            }
            Edit::Storage { account, slot, value } => {
                changes.slots.insert((*account, *slot), *value);
                return changes;
            }
        };
        changes.accounts.insert(address, Some(account));
        changes
    }

    pub(crate) fn set_balance(&mut self, account: Address, balance: U256) -> Result<(), ChainError> {
        self.edit(Edit::Balance { account, balance })
    }

    pub(crate) fn set_nonce(&mut self, account: Address, nonce: u64) -> Result<(), ChainError> {
        self.edit(Edit::Nonce { account, nonce })
    }

    pub(crate) fn set_code(&mut self, account: Address, code: Bytes) -> Result<(), ChainError> {
        self.edit(Edit::Code { account, code })
    }

    pub(crate) fn set_storage(&mut self, account: Address, slot: U256, value: U256) -> Result<(), ChainError> {
        self.edit(Edit::Storage { account, slot, value })
    }

    /// Refuses all operations once the journal cannot be written.
    pub(super) fn check_journal(&self) -> Result<(), ChainError> {
        match &self.journal_error {
            Some(why) => Err(ChainError::JournalLost(why.clone())),
            None => Ok(()),
        }
    }

    pub(super) fn write(&mut self, ops: &[Op], durable: Durability) -> Result<(), ChainError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        if let Err(error) = journal.append(ops, durable) {
            self.journal_error = Some(error.to_string());
            return Err(error);
        }
        if durable == Durability::WithBlock { self.snapshot_if_due() } else { Ok(()) }
    }
}

/// When an operation must be synced to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// With the block that follows immediately.
    Later,
    WithAnswer,
    WithBlock,
}
