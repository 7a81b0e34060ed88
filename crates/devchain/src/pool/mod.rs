//! The txpool, with geth's rules.
//!
//! A transaction is *pending* if every nonce before it is mined or pending, and *queued* otherwise. Queued transactions
//! become pending when the gap before them closes, and pending ones become queued when a gap opens. Transactions that
//! the sender can no longer pay for are dropped. Unlike geth, this pool does all of this before it answers, so the same
//! calls always lead to the same pool.

mod error;
mod limits;
mod list;
mod room;
mod select;
mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::map::HashMap;
use alloy_primitives::{Address, B256};

pub use error::{POOL_ERROR_CODE, PoolError, Shortage};
pub use limits::PoolLimits;
pub(crate) use select::Selection;

use crate::query::{PoolContent, PoolStatus};
use crate::state::StateAt;
use crate::tx::Tx;
use limits::SLOT_BYTES;
use list::{Entry, List, Replace};

/// The chain's values at the head that the pool needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground<'a> {
    pub(crate) chain_id: u64,
    pub(crate) gas_limit: u64,
    pub(crate) base_fee: u64,
    /// The state after the head.
    pub(crate) state: StateAt<'a>,
}

#[derive(Debug, Default)]
pub(crate) struct Pool {
    limits: PoolLimits,
    // Sorted by address, so that every loop over all accounts has the same order.
    pending: BTreeMap<Address, List>,
    queued: BTreeMap<Address, List>,
    by_hash: HashMap<B256, Arc<Tx>>,
    /// Number of pooled transactions that carry an authorization of the account.
    authorities: HashMap<Address, usize>,
    slots: usize,
    arrivals: u64,
    /// Transactions evicted for lack of room since the last `take_evicted`. All other effects follow from the calls.
    evicted: Vec<B256>,
    /// During a replay the pool refuses and evicts nothing, because these decisions were recorded.
    is_replaying: bool,
}

impl Pool {
    pub(crate) fn new(limits: PoolLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds a transaction or refuses it. Returns the transactions that became pending.
    pub(crate) fn add(&mut self, tx: Arc<Tx>, ground: Ground<'_>) -> Result<Vec<Arc<Tx>>, PoolError> {
        validate::check_at_the_door(&tx, &self.limits)?;
        if self.by_hash.contains_key(&tx.hash) {
            return Err(PoolError::AlreadyKnown);
        }
        validate::check_basics(&tx, ground.chain_id, ground.gas_limit, &self.limits)?;
        self.check_account(&tx, ground)?;
        self.check_authorities(&tx, ground)?;
        self.make_room(&tx, ground)?;
        self.enter(tx, ground)
    }

    /// Adds a transaction that was accepted before, when a journal is replayed.
    pub(crate) fn replay(&mut self, tx: Arc<Tx>, ground: Ground<'_>) {
        drop(self.enter(tx, ground));
    }

    /// Switches the replay mode, in which the pool decides nothing itself.
    pub(crate) fn set_replaying(&mut self, is_replaying: bool) {
        self.is_replaying = is_replaying;
    }

    pub(crate) fn is_replaying(&self) -> bool {
        self.is_replaying
    }

    pub(crate) fn take_evicted(&mut self) -> Vec<B256> {
        std::mem::take(&mut self.evicted)
    }

    /// Returns transactions of removed blocks to the pool, in their order. The caller then calls [`Self::settle_all`].
    pub(crate) fn take_back(&mut self, txs: Vec<Arc<Tx>>) {
        let replace = Replace::IfOutbid { percent: self.limits.price_bump_percent };
        for tx in txs {
            self.arrivals += 1;
            let entry = Entry { tx: tx.clone(), arrival: self.arrivals };
            let Ok(replaced) = self.pending.entry(tx.from).or_default().add(entry, replace) else { continue };
            if let Some(old) = replaced {
                self.unlist(&old);
            }
            self.enlist(&tx);
        }
    }

    fn enter(&mut self, tx: Arc<Tx>, ground: Ground<'_>) -> Result<Vec<Arc<Tx>>, PoolError> {
        self.arrivals += 1;
        let entry = Entry { tx: tx.clone(), arrival: self.arrivals };
        let replace = match self.is_replaying {
            true => Replace::Always,
            false => Replace::IfOutbid { percent: self.limits.price_bump_percent },
        };
        let from = tx.from;
        let replaces_pending = self.pending.get(&from).is_some_and(|list| list.get(tx.nonce()).is_some());
        let replaced = if replaces_pending {
            self.pending.entry(from).or_default().add(entry, replace)?
        } else {
            let replaced = self.queued.entry(from).or_default().add(entry, replace);
            self.forget_empty(from);
            replaced?
        };
        if let Some(old) = replaced {
            self.unlist(&old);
        }
        self.enlist(&tx);
        let mut risen = if replaces_pending { vec![tx] } else { Vec::new() };
        risen.extend(self.promote(from, ground));
        self.truncate_pending();
        self.truncate_queue();
        Ok(risen)
    }

    /// Updates the given accounts after a change of the head. Returns the transactions that became pending.
    pub(crate) fn settle(&mut self, accounts: impl Iterator<Item = Address>, ground: Ground<'_>) -> Vec<Arc<Tx>> {
        let mut risen = Vec::new();
        for account in accounts {
            if self.pending.contains_key(&account) || self.queued.contains_key(&account) {
                self.demote(account, ground);
                risen.extend(self.promote(account, ground));
            }
        }
        self.truncate_pending();
        self.truncate_queue();
        risen
    }

    /// Updates all accounts after a change of the head. Returns the transactions that became pending.
    pub(crate) fn settle_all(&mut self, ground: Ground<'_>) -> Vec<Arc<Tx>> {
        let accounts: Vec<Address> = self.pending.keys().chain(self.queued.keys()).copied().collect();
        self.settle(accounts.into_iter(), ground)
    }

    pub(crate) fn remove(&mut self, hash: B256) -> Option<Arc<Tx>> {
        let tx = self.by_hash.get(&hash)?.clone();
        let removed = match self.pending.get_mut(&tx.from).and_then(|list| list.remove(tx.nonce())) {
            Some(removed) => {
                // The transactions after the removed one wait for its nonce now.
                let after = self.pending.get_mut(&tx.from).map(|list| list.take_above(tx.nonce())).unwrap_or_default();
                self.requeue(tx.from, after);
                Some(removed)
            }
            None => self.queued.get_mut(&tx.from).and_then(|list| list.remove(tx.nonce())),
        };
        self.forget_empty(tx.from);
        let removed = removed?;
        self.unlist(&removed.tx);
        Some(removed.tx)
    }

    pub(crate) fn clear(&mut self) -> usize {
        let count = self.by_hash.len();
        let limits = self.limits.clone();
        *self = Self { arrivals: self.arrivals, is_replaying: self.is_replaying, ..Self::new(limits) };
        count
    }

    pub(crate) fn get(&self, hash: B256) -> Option<&Arc<Tx>> {
        self.by_hash.get(&hash)
    }

    /// The nonce after the account's last pending transaction.
    pub(crate) fn next_nonce(&self, account: Address, ground: Ground<'_>) -> u64 {
        let pending = self.pending.get(&account).and_then(List::last_nonce);
        pending.map_or_else(|| nonce_of(account, ground), |last| last + 1)
    }

    pub(crate) fn status(&self) -> PoolStatus {
        PoolStatus {
            pending: self.pending.values().map(List::len).sum(),
            queued: self.queued.values().map(List::len).sum(),
        }
    }

    pub(crate) fn content(&self) -> PoolContent {
        let of = |lists: &BTreeMap<Address, List>| {
            let by_nonce = |list: &List| list.iter().map(|entry| (entry.tx.nonce(), entry.tx.clone())).collect();
            lists.iter().map(|(account, list)| (*account, by_nonce(list))).collect()
        };
        PoolContent { pending: of(&self.pending), queued: of(&self.queued) }
    }

    /// All transactions in the order of arrival.
    pub(crate) fn by_arrival(&self) -> Vec<Arc<Tx>> {
        let lists = self.pending.values().chain(self.queued.values());
        let mut entries: Vec<&Entry> = lists.flat_map(List::iter).collect();
        entries.sort_by_key(|entry| entry.arrival);
        entries.into_iter().map(|entry| entry.tx.clone()).collect()
    }

    /// The candidates for a block with this base fee, in their order.
    pub(crate) fn select(&self, base_fee: u64) -> Selection {
        Selection::new(self.pending.values(), base_fee)
    }

    fn check_account(&self, tx: &Tx, ground: Ground<'_>) -> Result<(), PoolError> {
        let account = ground.state.account(tx.from).unwrap_or_default();
        if account.nonce > tx.nonce() {
            return Err(PoolError::NonceTooLow { next: account.nonce, nonce: tx.nonce() });
        }
        let (balance, cost) = (account.balance, tx.cost());
        if balance < cost {
            return Err(short(Shortage::OfOne { balance, cost }));
        }
        // As in geth, only pending transactions count as spent, and only a pending transaction counts as replaced.
        let Some(pending) = self.pending.get(&tx.from) else { return Ok(()) };
        let queued = pending.cost();
        let Some(old) = pending.get(tx.nonce()) else {
            if balance < queued.saturating_add(cost) {
                return Err(short(Shortage::OfAll { balance, queued, cost }));
            }
            return Ok(());
        };
        // A cheaper replacement needs no more funds than its predecessor.
        let bump = cost.saturating_sub(old.tx.cost());
        if !bump.is_zero() && balance < queued.saturating_add(bump) {
            return Err(short(Shortage::OfBump { balance, queued, bump }));
        }
        Ok(())
    }

    /// EIP-7702: an account with code, or with a pending authorization, may have only one transaction in flight.
    /// Delegated code can spend the funds that further transactions need.
    fn check_authorities(&self, tx: &Tx, ground: Ground<'_>) -> Result<(), PoolError> {
        let is_delegated = ground.state.account(tx.from).is_some_and(|account| account.has_code());
        if is_delegated || self.authorities.contains_key(&tx.from) {
            match self.pending.get(&tx.from) {
                None if self.next_nonce(tx.from, ground) != tx.nonce() => return Err(PoolError::DelegatedGap),
                Some(pending) if pending.get(tx.nonce()).is_none() => return Err(PoolError::DelegatedLimit),
                _ => {}
            }
        }
        for authority in &tx.authorities {
            let of = |lists: &BTreeMap<Address, List>| lists.get(authority).map_or(0, List::len);
            if of(&self.pending) + of(&self.queued) > 1 {
                return Err(PoolError::AuthorityReserved);
            }
        }
        Ok(())
    }

    /// Moves executable transactions from queued to pending, and drops mined and unpayable ones.
    fn promote(&mut self, account: Address, ground: Ground<'_>) -> Vec<Arc<Tx>> {
        let state = ground.state.account(account).unwrap_or_default();
        let next = self.next_nonce(account, ground);
        let Some(queue) = self.queued.get_mut(&account) else { return Vec::new() };
        let mut dropped = queue.take_below(state.nonce);
        dropped.extend(queue.take_unpayable(state.balance, ground.gas_limit));
        let ready = queue.take_ready(next);
        while !self.is_replaying && queue.len() > self.limits.account_queue {
            let Some(last) = queue.last_nonce().and_then(|last| queue.remove(last)) else { break };
            self.evicted.push(last.tx.hash);
            dropped.push(last);
        }
        let mut risen = Vec::with_capacity(ready.len());
        for entry in ready {
            let tx = entry.tx.clone();
            match self.pending.entry(account).or_default().add(entry, Replace::Always) {
                Ok(_) => risen.push(tx),
                Err(_) => self.unlist(&tx),
            }
        }
        for entry in dropped {
            self.unlist(&entry.tx);
        }
        self.forget_empty(account);
        risen
    }

    /// Moves transactions that are no longer executable from pending to queued, and drops mined and unpayable ones.
    fn demote(&mut self, account: Address, ground: Ground<'_>) {
        let state = ground.state.account(account).unwrap_or_default();
        let Some(list) = self.pending.get_mut(&account) else { return };
        let mut dropped = list.take_below(state.nonce);
        let unpayable = list.take_unpayable(state.balance, ground.gas_limit);
        // After a reorg, earlier nonces may be missing too.
        let gapped = list.take_gapped(state.nonce);
        dropped.extend(unpayable);
        for entry in dropped {
            self.unlist(&entry.tx);
        }
        self.requeue(account, gapped);
        self.forget_empty(account);
    }

    fn requeue(&mut self, account: Address, entries: Vec<Entry>) {
        for entry in entries {
            let tx = entry.tx.clone();
            let queue = self.queued.entry(account).or_default();
            let replace = Replace::IfOutbid { percent: self.limits.price_bump_percent };
            match queue.add(entry, replace) {
                Ok(None) => {}
                Ok(Some(old)) => self.unlist(&old),
                Err(_) => self.unlist(&tx),
            }
        }
    }

    fn enlist(&mut self, tx: &Arc<Tx>) {
        self.by_hash.insert(tx.hash, tx.clone());
        self.slots += slots(tx);
        for authority in &tx.authorities {
            *self.authorities.entry(*authority).or_default() += 1;
        }
    }

    fn unlist(&mut self, tx: &Tx) {
        if self.by_hash.remove(&tx.hash).is_none() {
            return;
        }
        self.slots -= slots(tx);
        for authority in &tx.authorities {
            if let Some(count) = self.authorities.get_mut(authority) {
                *count -= 1;
                if *count == 0 {
                    self.authorities.remove(authority);
                }
            }
        }
    }

    fn forget_empty(&mut self, account: Address) {
        for lists in [&mut self.pending, &mut self.queued] {
            if lists.get(&account).is_some_and(List::is_empty) {
                lists.remove(&account);
            }
        }
    }
}

fn short(shortage: Shortage) -> PoolError {
    PoolError::InsufficientFunds(Box::new(shortage))
}

fn nonce_of(account: Address, ground: Ground<'_>) -> u64 {
    ground.state.account(account).map(|account| account.nonce).unwrap_or_default()
}

fn slots(tx: &Tx) -> usize {
    tx.raw.len().div_ceil(SLOT_BYTES)
}
