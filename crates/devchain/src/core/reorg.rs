//! Reorgs: removing blocks and building their replacements.

use std::sync::Arc;

use alloy_primitives::map::HashMap;
use alloy_primitives::{Address, B256};

use super::Core;
use super::build::TxSource;
use super::control::Durability;
use super::op::Op;
use crate::block::{Block, ChainEvent};
use crate::chain::Remine;
use crate::error::ChainError;
use crate::random::SeededRandom;

impl Core {
    pub(crate) fn reorg(&mut self, depth: u64, remine: Remine) -> Result<Arc<Block>, ChainError> {
        self.check_journal()?;
        self.check_depth(depth)?;
        let head = self.head();
        let to_pool = remine != Remine::Drop;
        let (removed, evicted) = self.rewind(depth, to_pool);
        let mut ops = vec![Op::Rewind { depth, to_pool }];
        ops.extend(evicted.into_iter().map(Op::Drop));
        // Oldest first. The new branch has one block more than the old one, because the longer chain wins.
        let old: Vec<_> = removed.iter().rev().cloned().collect();
        let mut lists = self.spread(&old, remine);
        lists.push((head.timestamp() + 1, Vec::new()));
        let mut blocks = Vec::with_capacity(lists.len());
        for (timestamp, txs) in lists {
            let (block, made) = self.produce(timestamp, None, TxSource::Listed(txs));
            ops.extend(made);
            blocks.push(block);
        }
        // One write for the whole reorg: a partly recorded reorg would replay as a different one.
        self.write(&ops, Durability::WithBlock)?;
        for block in removed {
            self.publish(ChainEvent::Removed(block));
        }
        for block in blocks {
            self.publish(ChainEvent::NewHead(block));
        }
        Ok(self.head())
    }

    pub(crate) fn revert_to(&mut self, number: u64) -> Result<Arc<Block>, ChainError> {
        self.check_journal()?;
        let depth = self.head().number().checked_sub(number).ok_or(ChainError::NoSuchBlock(number))?;
        self.check_depth(depth)?;
        let (removed, evicted) = self.rewind(depth, true);
        let mut ops = vec![Op::Rewind { depth, to_pool: true }];
        ops.extend(evicted.into_iter().map(Op::Drop));
        self.write(&ops, Durability::WithBlock)?;
        for block in removed {
            self.publish(ChainEvent::Removed(block));
        }
        self.publish(ChainEvent::NewHead(self.head()));
        Ok(self.head())
    }

    pub(crate) fn reset(&mut self) -> Result<(), ChainError> {
        self.check_journal()?;
        self.apply_reset();
        self.write(&[Op::Reset], Durability::WithBlock)?;
        self.publish(ChainEvent::NewHead(self.head()));
        Ok(())
    }

    pub(super) fn apply_reset(&mut self) {
        let mut fresh = Self::new(self.genesis.clone());
        fresh.events = self.events.clone();
        fresh.journal = self.journal.take();
        fresh.automine = self.automine;
        fresh.clock = self.clock;
        fresh.clock_offset = self.clock_offset;
        // The blocks after a reset get other hashes than those before, even with the same transactions.
        fresh.branch = self.branch + 1;
        fresh.tags.depths = self.tags.depths;
        *self = fresh;
    }

    /// Removes blocks. Returns the removed blocks, newest first, and the transactions that the pool evicted.
    pub(super) fn rewind(&mut self, depth: u64, to_pool: bool) -> (Vec<Arc<Block>>, Vec<B256>) {
        let mut removed = Vec::new();
        for _ in 0..depth {
            if self.blocks.len() < 2 {
                break;
            }
            let Some(block) = self.blocks.pop_back() else { break };
            self.orphan_changes.insert(block.hash, self.state.pop());
            for tx in &block.txs {
                self.mined.remove(&tx.hash);
            }
            self.remember_orphan(block.hash);
            removed.push(block);
        }
        if let Some(newest) = removed.first() {
            self.last_orphaned = Some(newest.hash);
        }
        self.tags.rewind(self.head().number());
        self.root = self.head().header.state_root;
        self.branch += 1;
        self.drop_pending_block();
        let txs = removed.iter().rev().flat_map(|block| block.txs.iter().cloned()).collect();
        let (pool, context) = self.pool_and_head_context();
        if to_pool {
            pool.reinsert(txs);
        }
        let promoted = pool.update_all_accounts(context);
        let evicted = pool.take_evicted();
        self.publish_pending(promoted);
        (removed, evicted)
    }

    fn check_depth(&self, depth: u64) -> Result<(), ChainError> {
        let possible = self.blocks.len() as u64 - 1;
        if depth > possible {
            return Err(ChainError::TooDeep { depth, possible });
        }
        Ok(())
    }

    fn remember_orphan(&mut self, hash: B256) {
        self.orphans.push_back(hash);
        while self.orphans.len() > self.genesis.limits.orphans {
            if let Some(old) = self.orphans.pop_front() {
                self.by_hash.remove(&old);
                self.orphan_changes.remove(&old);
            }
        }
    }

    /// The timestamps and transactions of the new blocks.
    fn spread(&self, old: &[Arc<Block>], remine: Remine) -> Vec<(u64, Vec<B256>)> {
        let mut lists: Vec<(u64, Vec<B256>)> = old.iter().map(|block| (block.timestamp(), Vec::new())).collect();
        match remine {
            Remine::ToPool | Remine::Drop => {}
            Remine::Same => {
                for (block, (_, txs)) in old.iter().zip(&mut lists) {
                    txs.extend(block.txs.iter().map(|tx| tx.hash));
                }
            }
            Remine::Shuffle => {
                let mut random = SeededRandom::new(self.genesis.seed, &self.branch.to_be_bytes());
                let mut earliest: HashMap<Address, usize> = HashMap::default();
                for tx in old.iter().flat_map(|block| &block.txs) {
                    // Not before the account's previous transaction: its nonce would be missing.
                    let from = earliest.get(&tx.from).copied().unwrap_or_default();
                    let chosen = from + random.below((lists.len() - from) as u64) as usize;
                    earliest.insert(tx.from, chosen);
                    lists[chosen].1.push(tx.hash);
                }
            }
        }
        lists
    }
}
