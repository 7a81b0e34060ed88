//! The txpool, with geth's rules.
//!
//! A transaction is *pending* if every nonce before it is mined or pending, and *queued* otherwise. Queued transactions
//! become pending when the gap before them closes, and pending ones become queued when a gap opens. Transactions that
//! the sender can no longer pay for are dropped. Unlike geth, this pool does all of this before it answers, so the same
//! calls always lead to the same pool.

mod account_txs;
mod error;
mod eviction;
mod limits;
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
use account_txs::{AccountTxs, PoolEntry, ReplaceRule};
use limits::SLOT_BYTES;

/// The chain's values at the head that the pool needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadContext<'a> {
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
    pending: BTreeMap<Address, AccountTxs>,
    queued: BTreeMap<Address, AccountTxs>,
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
    pub(crate) fn add(&mut self, tx: Arc<Tx>, context: HeadContext<'_>) -> Result<Vec<Arc<Tx>>, PoolError> {
        validate::check_rpc_rules(&tx, &self.limits)?;
        if self.by_hash.contains_key(&tx.hash) {
            return Err(PoolError::AlreadyKnown);
        }
        validate::check_basics(&tx, context.chain_id, context.gas_limit, &self.limits)?;
        self.check_account(&tx, context)?;
        self.check_authorities(&tx, context)?;
        self.make_room(&tx, context)?;
        self.insert(tx, context)
    }

    /// Adds a transaction that was accepted before, when a journal is replayed.
    pub(crate) fn replay(&mut self, tx: Arc<Tx>, context: HeadContext<'_>) {
        drop(self.insert(tx, context));
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

    /// Returns transactions of removed blocks to the pool, in their order. The caller then calls
    /// [`Self::update_all_accounts`].
    pub(crate) fn reinsert(&mut self, txs: Vec<Arc<Tx>>) {
        let replace = ReplaceRule::IfBumped { percent: self.limits.price_bump_percent };
        for tx in txs {
            self.arrivals += 1;
            let entry = PoolEntry { tx: tx.clone(), arrival: self.arrivals };
            let Ok(replaced) = self.pending.entry(tx.from).or_default().add(entry, replace) else { continue };
            if let Some(old) = replaced {
                self.remove_from_index(&old);
            }
            self.add_to_index(&tx);
        }
    }

    fn insert(&mut self, tx: Arc<Tx>, context: HeadContext<'_>) -> Result<Vec<Arc<Tx>>, PoolError> {
        self.arrivals += 1;
        let entry = PoolEntry { tx: tx.clone(), arrival: self.arrivals };
        let replace = match self.is_replaying {
            true => ReplaceRule::Always,
            false => ReplaceRule::IfBumped { percent: self.limits.price_bump_percent },
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
            self.remove_from_index(&old);
        }
        self.add_to_index(&tx);
        let mut promoted = if replaces_pending { vec![tx] } else { Vec::new() };
        promoted.extend(self.promote(from, context));
        self.truncate_pending();
        self.truncate_queue();
        Ok(promoted)
    }

    /// Updates the given accounts after a change of the head. Returns the transactions that became pending.
    pub(crate) fn update_accounts(
        &mut self,
        accounts: impl Iterator<Item = Address>,
        context: HeadContext<'_>,
    ) -> Vec<Arc<Tx>> {
        let mut promoted = Vec::new();
        for account in accounts {
            if self.pending.contains_key(&account) || self.queued.contains_key(&account) {
                self.demote(account, context);
                promoted.extend(self.promote(account, context));
            }
        }
        self.truncate_pending();
        self.truncate_queue();
        promoted
    }

    /// Updates all accounts after a change of the head. Returns the transactions that became pending.
    pub(crate) fn update_all_accounts(&mut self, context: HeadContext<'_>) -> Vec<Arc<Tx>> {
        let accounts: Vec<Address> = self.pending.keys().chain(self.queued.keys()).copied().collect();
        self.update_accounts(accounts.into_iter(), context)
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
        self.remove_from_index(&removed.tx);
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
    pub(crate) fn next_nonce(&self, account: Address, context: HeadContext<'_>) -> u64 {
        let pending = self.pending.get(&account).and_then(AccountTxs::last_nonce);
        pending.map_or_else(|| nonce_of(account, context), |last| last + 1)
    }

    pub(crate) fn status(&self) -> PoolStatus {
        PoolStatus {
            pending: self.pending.values().map(AccountTxs::len).sum(),
            queued: self.queued.values().map(AccountTxs::len).sum(),
        }
    }

    pub(crate) fn content(&self) -> PoolContent {
        let of = |lists: &BTreeMap<Address, AccountTxs>| {
            let by_nonce = |list: &AccountTxs| list.iter().map(|entry| (entry.tx.nonce(), entry.tx.clone())).collect();
            lists.iter().map(|(account, list)| (*account, by_nonce(list))).collect()
        };
        PoolContent { pending: of(&self.pending), queued: of(&self.queued) }
    }

    /// All transactions in the order of arrival.
    pub(crate) fn by_arrival(&self) -> Vec<Arc<Tx>> {
        let lists = self.pending.values().chain(self.queued.values());
        let mut entries: Vec<&PoolEntry> = lists.flat_map(AccountTxs::iter).collect();
        entries.sort_by_key(|entry| entry.arrival);
        entries.into_iter().map(|entry| entry.tx.clone()).collect()
    }

    /// The candidates for a block with this base fee, in their order.
    pub(crate) fn select(&self, base_fee: u64) -> Selection {
        Selection::new(self.pending.values(), base_fee)
    }

    fn check_account(&self, tx: &Tx, context: HeadContext<'_>) -> Result<(), PoolError> {
        let account = context.state.account(tx.from).unwrap_or_default();
        if account.nonce > tx.nonce() {
            return Err(PoolError::NonceTooLow { next: account.nonce, nonce: tx.nonce() });
        }
        let (balance, cost) = (account.balance, tx.cost());
        if balance < cost {
            return Err(short(Shortage::ForTx { balance, cost }));
        }
        // As in geth, only pending transactions count as spent, and only a pending transaction counts as replaced.
        let Some(pending) = self.pending.get(&tx.from) else { return Ok(()) };
        let queued = pending.cost();
        let Some(old) = pending.get(tx.nonce()) else {
            if balance < queued.saturating_add(cost) {
                return Err(short(Shortage::WithPending { balance, queued, cost }));
            }
            return Ok(());
        };
        // A cheaper replacement needs no more funds than its predecessor.
        let bump = cost.saturating_sub(old.tx.cost());
        if !bump.is_zero() && balance < queued.saturating_add(bump) {
            return Err(short(Shortage::ForBump { balance, queued, bump }));
        }
        Ok(())
    }

    /// EIP-7702: an account with code, or with a pending authorization, may have only one transaction in flight.
    /// Delegated code can spend the funds that further transactions need.
    fn check_authorities(&self, tx: &Tx, context: HeadContext<'_>) -> Result<(), PoolError> {
        let is_delegated = context.state.account(tx.from).is_some_and(|account| account.has_code());
        if is_delegated || self.authorities.contains_key(&tx.from) {
            match self.pending.get(&tx.from) {
                None if self.next_nonce(tx.from, context) != tx.nonce() => return Err(PoolError::DelegatedGap),
                Some(pending) if pending.get(tx.nonce()).is_none() => return Err(PoolError::DelegatedLimit),
                _ => {}
            }
        }
        for authority in &tx.authorities {
            let of = |lists: &BTreeMap<Address, AccountTxs>| lists.get(authority).map_or(0, AccountTxs::len);
            if of(&self.pending) + of(&self.queued) > 1 {
                return Err(PoolError::AuthorityReserved);
            }
        }
        Ok(())
    }

    /// Moves executable transactions from queued to pending, and drops mined and unpayable ones.
    fn promote(&mut self, account: Address, context: HeadContext<'_>) -> Vec<Arc<Tx>> {
        let state = context.state.account(account).unwrap_or_default();
        let next = self.next_nonce(account, context);
        let Some(queue) = self.queued.get_mut(&account) else { return Vec::new() };
        let mut dropped = queue.take_below(state.nonce);
        dropped.extend(queue.take_unpayable(state.balance, context.gas_limit));
        let ready = queue.take_ready(next);
        while !self.is_replaying && queue.len() > self.limits.account_queue {
            let Some(last) = queue.last_nonce().and_then(|last| queue.remove(last)) else { break };
            self.evicted.push(last.tx.hash);
            dropped.push(last);
        }
        let mut promoted = Vec::with_capacity(ready.len());
        for entry in ready {
            let tx = entry.tx.clone();
            match self.pending.entry(account).or_default().add(entry, ReplaceRule::Always) {
                Ok(_) => promoted.push(tx),
                Err(_) => self.remove_from_index(&tx),
            }
        }
        for entry in dropped {
            self.remove_from_index(&entry.tx);
        }
        self.forget_empty(account);
        promoted
    }

    /// Moves transactions that are no longer executable from pending to queued, and drops mined and unpayable ones.
    fn demote(&mut self, account: Address, context: HeadContext<'_>) {
        let state = context.state.account(account).unwrap_or_default();
        let Some(list) = self.pending.get_mut(&account) else { return };
        let mut dropped = list.take_below(state.nonce);
        let unpayable = list.take_unpayable(state.balance, context.gas_limit);
        // After a reorg, earlier nonces may be missing too.
        let gapped = list.take_gapped(state.nonce);
        dropped.extend(unpayable);
        for entry in dropped {
            self.remove_from_index(&entry.tx);
        }
        self.requeue(account, gapped);
        self.forget_empty(account);
    }

    fn requeue(&mut self, account: Address, entries: Vec<PoolEntry>) {
        for entry in entries {
            let tx = entry.tx.clone();
            let queue = self.queued.entry(account).or_default();
            let replace = ReplaceRule::IfBumped { percent: self.limits.price_bump_percent };
            match queue.add(entry, replace) {
                Ok(None) => {}
                Ok(Some(old)) => self.remove_from_index(&old),
                Err(_) => self.remove_from_index(&tx),
            }
        }
    }

    fn add_to_index(&mut self, tx: &Arc<Tx>) {
        self.by_hash.insert(tx.hash, tx.clone());
        self.slots += slots(tx);
        for authority in &tx.authorities {
            *self.authorities.entry(*authority).or_default() += 1;
        }
    }

    fn remove_from_index(&mut self, tx: &Tx) {
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
            if lists.get(&account).is_some_and(AccountTxs::is_empty) {
                lists.remove(&account);
            }
        }
    }
}

fn short(shortage: Shortage) -> PoolError {
    PoolError::InsufficientFunds(Box::new(shortage))
}

fn nonce_of(account: Address, context: HeadContext<'_>) -> u64 {
    context.state.account(account).map(|account| account.nonce).unwrap_or_default()
}

fn slots(tx: &Tx) -> usize {
    tx.raw.len().div_ceil(SLOT_BYTES)
}
