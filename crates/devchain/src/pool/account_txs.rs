//! The transactions of one account, by nonce.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::U256;

use super::error::PoolError;
use crate::tx::Tx;

/// A transaction and its order of arrival.
#[derive(Clone, Debug)]
pub(super) struct PoolEntry {
    pub(super) tx: Arc<Tx>,
    /// Arrival counter. It decides between equal tips.
    pub(super) arrival: u64,
}

/// The condition for replacing a transaction with the same nonce.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReplaceRule {
    /// Both fees must be higher by at least this many percent.
    IfBumped { percent: u128 },
    /// No condition: the replacement was decided before and is replayed.
    Always,
}

#[derive(Debug, Default)]
pub(super) struct AccountTxs {
    by_nonce: BTreeMap<u64, PoolEntry>,
    cost: U256,
}

impl AccountTxs {
    pub(super) fn len(&self) -> usize {
        self.by_nonce.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_nonce.is_empty()
    }

    /// Maximum cost of all transactions together.
    pub(super) fn cost(&self) -> U256 {
        self.cost
    }

    pub(super) fn get(&self, nonce: u64) -> Option<&PoolEntry> {
        self.by_nonce.get(&nonce)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &PoolEntry> {
        self.by_nonce.values()
    }

    pub(super) fn last_nonce(&self) -> Option<u64> {
        self.by_nonce.keys().next_back().copied()
    }

    /// Adds a transaction. Replaces one with the same nonce if the fees are bumped enough, and returns the replaced
    /// one.
    pub(super) fn add(&mut self, entry: PoolEntry, replace: ReplaceRule) -> Result<Option<Arc<Tx>>, PoolError> {
        if let (ReplaceRule::IfBumped { percent }, Some(old)) = (replace, self.by_nonce.get(&entry.tx.nonce()))
            && !is_bump_of(&entry.tx, &old.tx, percent)
        {
            return Err(PoolError::ReplacementUnderpriced);
        }
        self.cost = self.cost.saturating_add(entry.tx.cost());
        let old = self.by_nonce.insert(entry.tx.nonce(), entry);
        if let Some(old) = &old {
            self.cost = self.cost.saturating_sub(old.tx.cost());
        }
        Ok(old.map(|old| old.tx))
    }

    pub(super) fn remove(&mut self, nonce: u64) -> Option<PoolEntry> {
        let entry = self.by_nonce.remove(&nonce)?;
        self.cost = self.cost.saturating_sub(entry.tx.cost());
        Some(entry)
    }

    /// Removes all transactions below a nonce.
    pub(super) fn take_below(&mut self, nonce: u64) -> Vec<PoolEntry> {
        self.take(|entry| entry.tx.nonce() < nonce)
    }

    /// Removes all transactions above a nonce.
    pub(super) fn take_above(&mut self, nonce: u64) -> Vec<PoolEntry> {
        self.take(|entry| entry.tx.nonce() > nonce)
    }

    /// Removes all transactions that exceed the balance or the gas limit.
    pub(super) fn take_unpayable(&mut self, balance: U256, gas_limit: u64) -> Vec<PoolEntry> {
        // The total cost is at least each single cost, so most lists pass without a check per transaction.
        if self.cost <= balance && self.iter().all(|entry| entry.tx.gas_limit() <= gas_limit) {
            return Vec::new();
        }
        self.take(|entry| entry.tx.cost() > balance || entry.tx.gas_limit() > gas_limit)
    }

    /// Removes the transactions with consecutive nonces, beginning with `nonce`.
    pub(super) fn take_ready(&mut self, mut nonce: u64) -> Vec<PoolEntry> {
        let mut ready = Vec::new();
        while let Some(entry) = self.remove(nonce) {
            ready.push(entry);
            nonce += 1;
        }
        ready
    }

    /// Removes the transactions behind the first nonce gap at or after `nonce`.
    pub(super) fn take_gapped(&mut self, mut nonce: u64) -> Vec<PoolEntry> {
        while self.by_nonce.contains_key(&nonce) {
            nonce += 1;
        }
        let gapped = self.by_nonce.split_off(&nonce);
        for entry in gapped.values() {
            self.cost = self.cost.saturating_sub(entry.tx.cost());
        }
        gapped.into_values().collect()
    }

    fn take(&mut self, unwanted: impl Fn(&PoolEntry) -> bool) -> Vec<PoolEntry> {
        let nonces: Vec<u64> =
            self.by_nonce.values().filter(|entry| unwanted(entry)).map(|entry| entry.tx.nonce()).collect();
        nonces.into_iter().filter_map(|nonce| self.remove(nonce)).collect()
    }
}

/// True if both fees are higher by at least `bump_percent`.
fn is_bump_of(new: &Tx, old: &Tx, bump_percent: u128) -> bool {
    let exceeds = |new: u128, old: u128| {
        let wanted = U256::from(old) * U256::from(100 + bump_percent) / U256::from(100);
        new > old && U256::from(new) >= wanted
    };
    exceeds(new.fee_cap(), old.fee_cap()) && exceeds(new.tip_cap(), old.tip_cap())
}
