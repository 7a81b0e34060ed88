//! The pool of one chain node, by geth's rules.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::block_tree::AccountState;
use super::signed::DecodedTx;
use crate::dice::Dice;

/// The percentage by which both fees of a replacement must be higher.
const BUMP_PERCENT: u128 = 10;
/// The lowest priority fee.
const MIN_TIP: u128 = 1;
/// The greatest distance of a nonce from the account's count.
const FAR_AHEAD: u64 = 64;
/// The time for which a transaction behind a nonce gap is kept.
const QUEUED_FOR: Duration = Duration::from_secs(90);

/// The reason why a pool refuses a transaction. Each client family has its own text for it (`texts`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolRefusal {
    AlreadyKnown,
    NonceTooLow {
        next: u64,
        nonce: u64,
    },
    /// The pool takes no transaction behind a gap.
    NonceGap {
        next: u64,
        nonce: u64,
    },
    NonceTooFar,
    ReplacementUnderpriced,
    Underpriced,
    InsufficientFunds {
        balance: u128,
        cost: u128,
    },
    Full,
    GasTooLow,
    TipAboveMax,
    /// The bytes are not readable, or the account does not exist.
    Unreadable,
}

#[derive(Clone, Debug)]
pub(super) struct TxPool {
    /// The transactions of each account, by nonce.
    txs: Vec<BTreeMap<u64, PooledTx>>,
    /// The greatest number of transactions of one account.
    limit: usize,
    takes_gaps: bool,
    /// The distance of a nonce from the count, at the most.
    far_ahead: u64,
}

/// A transaction in a pool, and the time at which it came.
#[derive(Clone, Debug)]
struct PooledTx {
    tx: Arc<DecodedTx>,
    since: Duration,
}

/// The state by which a pool decides: that of the block at which its chain node is.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolContext<'a> {
    pub(super) now: Duration,
    pub(super) accounts: &'a [AccountState],
    pub(super) base_fee: u128,
}

impl TxPool {
    pub(super) fn new(accounts: usize, limit: usize, takes_gaps: bool) -> Self {
        TxPool { txs: vec![BTreeMap::new(); accounts], limit, takes_gaps, far_ahead: FAR_AHEAD }
    }

    /// A pool without limits, for a test.
    pub(super) fn unlimited(accounts: usize) -> Self {
        TxPool { far_ahead: u64::from(u32::MAX), ..TxPool::new(accounts, usize::MAX, true) }
    }

    pub(super) fn add(&mut self, tx: &Arc<DecodedTx>, context: PoolContext<'_>) -> Result<(), PoolRefusal> {
        self.settle(context);
        let (Some(held), Some(account)) = (self.txs.get_mut(tx.account), context.accounts.get(tx.account)) else {
            return Err(PoolRefusal::Unreadable);
        };
        let old = held.get(&tx.nonce).map(|old| &old.tx);
        if old.is_some_and(|old| old.hash() == tx.hash()) {
            return Err(PoolRefusal::AlreadyKnown);
        }
        if tx.read.plan.work.units < tx.gas_used {
            return Err(PoolRefusal::GasTooLow);
        }
        if tx.tip > tx.max_fee {
            return Err(PoolRefusal::TipAboveMax);
        }
        let (next, nonce) = (account.count, tx.nonce);
        if nonce < next {
            return Err(PoolRefusal::NonceTooLow { next, nonce });
        }
        if nonce > next + self.far_ahead {
            return Err(PoolRefusal::NonceTooFar);
        }
        if !self.takes_gaps && (next..nonce).any(|lower| !held.contains_key(&lower)) {
            return Err(PoolRefusal::NonceGap { next, nonce });
        }
        if tx.tip < MIN_TIP || tx.max_fee < context.base_fee / 2 {
            return Err(PoolRefusal::Underpriced);
        }
        let others = held.values().filter(|other| other.tx.nonce != nonce).map(|other| other.tx.worst_cost);
        let cost = others.fold(tx.worst_cost, u128::saturating_add);
        if cost > account.balance {
            return Err(PoolRefusal::InsufficientFunds { balance: account.balance, cost });
        }
        match old {
            Some(old) if !outbids(tx, old) => return Err(PoolRefusal::ReplacementUnderpriced),
            // A transaction with a lower nonce replaces the one with the highest nonce.
            None if held.len() >= self.limit => match held.last_entry().filter(|last| *last.key() > nonce) {
                Some(last) => drop(last.remove()),
                None => return Err(PoolRefusal::Full),
            },
            _ => {}
        }
        held.insert(nonce, PooledTx { tx: Arc::clone(tx), since: context.now });
        Ok(())
    }

    /// Puts the transaction of an orphaned block back, unless another one has its nonce.
    pub(super) fn put_back(&mut self, tx: &Arc<DecodedTx>, now: Duration) {
        if let Some(held) = self.txs.get_mut(tx.account) {
            held.entry(tx.nonce).or_insert_with(|| PooledTx { tx: Arc::clone(tx), since: now });
        }
    }

    /// Removes transactions that are mined, replaced or not affordable, and those behind a gap for too long.
    pub(super) fn settle(&mut self, context: PoolContext<'_>) {
        for (held, account) in self.txs.iter_mut().zip(context.accounts) {
            let mut next = account.count;
            held.retain(|nonce, PooledTx { tx, since }| {
                let stays = *nonce >= account.count && tx.worst_cost <= account.balance;
                if stays && *nonce == next {
                    next += 1;
                    return true;
                }
                stays && context.now < since.saturating_add(QUEUED_FOR)
            });
        }
    }

    pub(super) fn remove(&mut self, tx: &DecodedTx) {
        if let Some(held) = self.txs.get_mut(tx.account)
            && held.get(&tx.nonce).is_some_and(|other| other.tx.hash() == tx.hash())
        {
            held.remove(&tx.nonce);
        }
    }

    /// Removes each transaction with a probability of one half. Returns the number of removed ones.
    pub(super) fn forget_some(&mut self, dice: &mut Dice) -> usize {
        let before = self.len();
        self.txs.iter_mut().for_each(|held| held.retain(|_, _| dice.permille(500)));
        before - self.len()
    }

    pub(super) fn clear(&mut self) {
        self.txs.iter_mut().for_each(BTreeMap::clear);
    }

    pub(super) fn len(&self) -> usize {
        self.txs.iter().map(BTreeMap::len).sum()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<DecodedTx>> {
        self.txs.iter().flat_map(BTreeMap::values).map(|held| &held.tx)
    }

    pub(super) fn of(&self, account: usize) -> impl Iterator<Item = &Arc<DecodedTx>> {
        self.txs.get(account).into_iter().flat_map(BTreeMap::values).map(|held| &held.tx)
    }

    /// The first nonce from `count` on that is not pooled.
    pub(super) fn pending(&self, account: usize, count: u64) -> u64 {
        let held = self.txs.get(account);
        let is_held = |nonce: &u64| held.is_some_and(|held| held.contains_key(nonce));
        (count..).find(|nonce| !is_held(nonce)).unwrap_or(count)
    }

    /// The transactions of the next block: the best tips first, the nonces of an account in order.
    pub(super) fn choose(&self, context: PoolContext<'_>, room: u64, dice: &mut Dice) -> Vec<Arc<DecodedTx>> {
        let mut accounts = context.accounts.to_vec();
        let mut chosen: Vec<Arc<DecodedTx>> = Vec::new();
        while (chosen.len() as u64) < room {
            let next = |(at, account): (usize, &AccountState)| {
                let tx = &self.txs.get(at)?.get(&account.count)?.tx;
                (tx.max_fee >= context.base_fee && tx.worst_cost <= account.balance).then_some(tx)
            };
            let mut candidates: Vec<&Arc<DecodedTx>> = accounts.iter().enumerate().filter_map(next).collect();
            let tip = |tx: &Arc<DecodedTx>| tx.price(context.base_fee).saturating_sub(context.base_fee);
            let best = candidates.iter().map(|tx| tip(tx)).max();
            candidates.retain(|tx| Some(tip(tx)) == best);
            let Some(tx) = dice.pick(&candidates) else { break };
            if let Some(account) = accounts.get_mut(tx.account) {
                account.count += 1;
                account.balance = account.balance.saturating_sub(tx.cost(context.base_fee));
            }
            chosen.push(Arc::clone(tx));
        }
        chosen
    }
}

fn outbids(new: &DecodedTx, old: &DecodedTx) -> bool {
    let enough = |new: u128, old: u128| new.saturating_mul(100) >= old.saturating_mul(100 + BUMP_PERCENT);
    enough(new.max_fee, old.max_fee) && enough(new.tip, old.tip)
}
