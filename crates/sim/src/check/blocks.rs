//! The chain rebuilt from its blocks: the canonical and the final ones, and all that were ever mined.

use std::collections::{BTreeMap, BTreeSet};

use gapless_domain::{B256, BlockRef, SubmitterId};

use crate::history::{ChainBlock, ChainTx};

use super::end_state::Scan;

#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// All blocks that were ever mined, orphaned ones too.
    all: BTreeMap<B256, ChainBlock>,
    canonical: BTreeMap<u64, B256>,
    txs: BTreeMap<B256, TxLocation>,
    accounts: BTreeMap<SubmitterId, AccountUse>,
    /// For each effect: the canonical transactions that carry it.
    effects: BTreeMap<u64, BTreeSet<B256>>,
    final_number: Option<u64>,
    /// The number of times that a chain with another genesis took over.
    pub resets: u32,
    /// Lanes with transactions in final blocks that were orphaned.
    pub lanes_with_orphaned_finals: BTreeSet<SubmitterId>,
}

/// The blocks of a transaction, now and before.
#[derive(Clone, Debug)]
pub struct TxLocation {
    pub tx: ChainTx,
    pub canonical: Option<BlockRef>,
    /// The blocks of the transaction that became final. Without a deep reorg there is at most one.
    pub was_final: Vec<BlockRef>,
}

/// The nonces of one account that the chain has used.
#[derive(Clone, Debug, Default)]
pub struct AccountUse {
    /// Nonces that canonical transactions have used.
    pub used: BTreeMap<u64, B256>,
    /// Nonces that any mined transaction has used, orphaned ones too.
    pub ever_used: BTreeSet<u64>,
    /// For each nonce: the transactions that used it in a final block, at any time.
    pub ever_final: BTreeMap<u64, BTreeSet<B256>>,
}

impl Blocks {
    pub fn tx(&self, hash: &B256) -> Option<&TxLocation> {
        self.txs.get(hash)
    }

    pub fn block(&self, hash: &B256) -> Option<&ChainBlock> {
        self.all.get(hash)
    }

    pub fn account(&self, lane: &SubmitterId) -> Option<&AccountUse> {
        self.accounts.get(lane)
    }

    /// Canonical transactions that carry this effect.
    pub fn carriers(&self, effect: u64) -> impl Iterator<Item = &B256> {
        self.effects.get(&effect).into_iter().flatten()
    }

    pub fn head(&self) -> Option<BlockRef> {
        self.canonical.last_key_value().map(|(number, hash)| BlockRef { number: *number, hash: *hash })
    }

    pub fn final_number(&self) -> Option<u64> {
        self.final_number
    }

    pub fn is_canonical(&self, block: BlockRef) -> bool {
        self.canonical.get(&block.number) == Some(&block.hash)
    }

    /// True if a canonical transaction has used the nonce.
    pub fn is_used(&self, lane: &SubmitterId, nonce: u64) -> bool {
        self.account(lane).is_some_and(|account| account.used.contains_key(&nonce))
    }

    /// True if any block that was ever mined has used the nonce.
    pub fn was_used(&self, lane: &SubmitterId, nonce: u64) -> bool {
        self.account(lane).is_some_and(|account| account.ever_used.contains(&nonce))
    }

    /// The transactions that used the nonce in a final block, at any time.
    pub fn final_uses(&self, lane: &SubmitterId, nonce: u64) -> impl Iterator<Item = &B256> {
        self.account(lane).and_then(|account| account.ever_final.get(&nonce)).into_iter().flatten()
    }

    /// The canonical chain as plain data.
    pub fn scan(&self) -> Scan {
        let canonical = self.canonical.values().filter_map(|hash| self.all.get(hash)).cloned().collect();
        Scan { canonical, final_number: self.final_number.unwrap_or(0) }
    }

    pub(super) fn mine(&mut self, block: &ChainBlock) {
        self.all.insert(block.block.hash, block.clone());
        self.canonical.insert(block.block.number, block.block.hash);
        for tx in &block.txs {
            let (hash, plan) = (tx.hash(), &tx.read.plan);
            let account = self.accounts.entry(plan.submitter.clone()).or_default();
            account.used.insert(plan.nonce.get(), hash);
            account.ever_used.insert(plan.nonce.get());
            if let Some(effect) = tx.effect() {
                self.effects.entry(effect).or_default().insert(hash);
            }
            let location = TxLocation { tx: tx.clone(), canonical: None, was_final: Vec::new() };
            let location = self.txs.entry(hash).or_insert(location);
            // Equal bytes may succeed in one block and revert in another.
            location.tx = tx.clone();
            location.canonical = Some(block.block);
        }
    }

    /// Records the nonces of a private block: a node may have seen them as used.
    pub(super) fn mine_private(&mut self, block: &ChainBlock) {
        for tx in &block.txs {
            let plan = &tx.read.plan;
            self.accounts.entry(plan.submitter.clone()).or_default().ever_used.insert(plan.nonce.get());
        }
    }

    /// Returns the block if it was final.
    pub(super) fn orphan(&mut self, block: BlockRef) -> Option<ChainBlock> {
        if !self.is_canonical(block) {
            return None;
        }
        self.canonical.remove(&block.number);
        let block = self.all.get(&block.hash)?.clone();
        for tx in &block.txs {
            self.take_out(tx);
        }
        let number = block.block.number;
        if self.final_number.is_none_or(|last| number > last) {
            return None;
        }
        self.final_number = number.checked_sub(1);
        self.lanes_with_orphaned_finals.extend(block.txs.iter().map(|tx| tx.read.plan.submitter.clone()));
        Some(block)
    }

    /// Returns the transactions that became final.
    pub(super) fn finalize(&mut self, upto: BlockRef) -> Vec<B256> {
        let mut newly = Vec::new();
        let first = self.final_number.map_or(0, |last| last.saturating_add(1));
        for number in first..=upto.number {
            let Some(block) = self.canonical.get(&number).and_then(|hash| self.all.get(hash)) else { continue };
            for tx in &block.txs {
                let plan = &tx.read.plan;
                let account = self.accounts.entry(plan.submitter.clone()).or_default();
                account.ever_final.entry(plan.nonce.get()).or_default().insert(tx.hash());
                newly.push(tx.hash());
                if let Some(location) = self.txs.get_mut(&tx.hash()) {
                    location.was_final.push(block.block);
                }
            }
        }
        self.final_number = self.final_number.max(Some(upto.number));
        newly
    }

    pub(super) fn reset(&mut self, genesis: BlockRef) {
        let gone: Vec<B256> = std::mem::take(&mut self.canonical).into_values().collect();
        for block in gone.iter().filter_map(|hash| self.all.get(hash).cloned()).collect::<Vec<_>>() {
            block.txs.iter().for_each(|tx| self.take_out(tx));
        }
        self.final_number = None;
        self.resets += 1;
        self.mine(&ChainBlock { block: genesis, parent: B256::ZERO, txs: Vec::new() });
    }

    fn take_out(&mut self, tx: &ChainTx) {
        let (hash, plan) = (tx.hash(), &tx.read.plan);
        if let Some(account) = self.accounts.get_mut(&plan.submitter) {
            account.used.remove(&plan.nonce.get());
        }
        if let Some(carriers) = tx.effect().and_then(|effect| self.effects.get_mut(&effect)) {
            carriers.remove(&hash);
        }
        if let Some(location) = self.txs.get_mut(&hash) {
            location.canonical = None;
        }
    }
}
