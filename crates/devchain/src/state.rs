//! The state after every block that is kept.
//!
//! Each account and each storage slot has a list of versions, by the block that wrote them. The state after a block
//! consists of the newest versions up to that block. A reorg drops the newest versions; pruning drops versions that no
//! kept block reads. The cost of a block depends on its changes, not on the size of the state.

use std::collections::{BTreeMap, VecDeque};

use alloy_primitives::map::HashMap;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};

/// An account at one block. The code is stored separately, by hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) balance: U256,
    pub(crate) nonce: u64,
    pub(crate) code_hash: B256,
}

impl Default for Account {
    fn default() -> Self {
        Self { balance: U256::ZERO, nonce: 0, code_hash: KECCAK256_EMPTY }
    }
}

impl Account {
    pub(crate) fn has_code(&self) -> bool {
        self.code_hash != KECCAK256_EMPTY
    }
}

/// The changes of one block. The maps are sorted, so a hash over them is deterministic.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateChanges {
    /// `None`: the account was deleted.
    pub(crate) accounts: BTreeMap<Address, Option<Account>>,
    pub(crate) slots: BTreeMap<(Address, U256), U256>,
    pub(crate) codes: BTreeMap<B256, Bytes>,
}

impl StateChanges {
    /// A hash that stands for the state after these changes, given the hash of the state before.
    pub(crate) fn root(&self, parent: B256) -> B256 {
        let mut bytes = parent.to_vec();
        for (address, account) in &self.accounts {
            bytes.extend_from_slice(address.as_slice());
            // Readers cannot distinguish a missing account from an empty one.
            let account = account.unwrap_or_default();
            bytes.extend_from_slice(&account.balance.to_be_bytes::<32>());
            bytes.extend_from_slice(&account.nonce.to_be_bytes());
            bytes.extend_from_slice(account.code_hash.as_slice());
        }
        for ((address, slot), value) in &self.slots {
            bytes.extend_from_slice(address.as_slice());
            bytes.extend_from_slice(&slot.to_be_bytes::<32>());
            bytes.extend_from_slice(&value.to_be_bytes::<32>());
        }
        keccak256(bytes)
    }
}

/// The versions of one account or slot, oldest first, each with the number of the block that wrote it.
pub(crate) type Versions<T> = VecDeque<(u64, T)>;

/// The keys that a block changed. Undoing the block removes one version of each.
#[derive(Clone, Debug, Default)]
struct TouchedKeys {
    accounts: Vec<Address>,
    slots: Vec<(Address, U256)>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    accounts: HashMap<Address, Versions<Option<Account>>>,
    slots: HashMap<(Address, U256), Versions<U256>>,
    /// Code is never dropped: it is written rarely, and blocks may share it.
    codes: HashMap<B256, Bytes>,
    /// By block, beginning with `oldest`.
    touched: VecDeque<TouchedKeys>,
    oldest: u64,
}

impl State {
    /// The empty state before block `first`.
    pub(crate) fn before(first: u64) -> Self {
        Self { oldest: first, ..Self::default() }
    }

    /// Adds the changes of the next block.
    pub(crate) fn push(&mut self, changes: &StateChanges) {
        self.touched.push_back(TouchedKeys::default());
        self.amend(changes);
    }

    /// Adds changes to the newest block.
    pub(crate) fn amend(&mut self, changes: &StateChanges) {
        let number = self.newest();
        let Some(touched) = self.touched.back_mut() else { return };
        for (address, account) in &changes.accounts {
            if put(self.accounts.entry(*address).or_default(), number, *account) {
                touched.accounts.push(*address);
            }
        }
        for (slot, value) in &changes.slots {
            if put(self.slots.entry(*slot).or_default(), number, *value) {
                touched.slots.push(*slot);
            }
        }
        for (hash, code) in &changes.codes {
            self.codes.entry(*hash).or_insert_with(|| code.clone());
        }
    }

    /// Undoes the newest block and returns its changes. The changes contain no code, because code is never dropped.
    pub(crate) fn pop(&mut self) -> StateChanges {
        let mut undone = StateChanges::default();
        let Some(touched) = self.touched.pop_back() else { return undone };
        for address in touched.accounts {
            if let Some(account) = pop_version(&mut self.accounts, &address) {
                undone.accounts.insert(address, account);
            }
        }
        for slot in touched.slots {
            if let Some(value) = pop_version(&mut self.slots, &slot) {
                undone.slots.insert(slot, value);
            }
        }
        undone
    }

    /// Drops the oldest block. The state after the following block stays readable.
    pub(crate) fn forget_oldest(&mut self) {
        if self.touched.len() < 2 {
            return;
        }
        self.touched.pop_front();
        self.oldest += 1;
        let oldest = self.oldest;
        let Some(touched) = self.touched.front() else { return };
        for address in &touched.accounts {
            if let Some(versions) = self.accounts.get_mut(address) {
                forget_before(versions, oldest);
            }
        }
        for slot in &touched.slots {
            if let Some(versions) = self.slots.get_mut(slot) {
                forget_before(versions, oldest);
            }
        }
    }

    pub(crate) fn newest(&self) -> u64 {
        (self.oldest + self.touched.len() as u64).saturating_sub(1)
    }

    /// The state after a block.
    pub(crate) fn at(&self, number: u64) -> StateAt<'_> {
        StateAt { state: self, number, changes: None }
    }

    /// The state after a block, plus changes that belong to no block yet.
    pub(crate) fn with<'a>(&'a self, number: u64, changes: &'a StateChanges) -> StateAt<'a> {
        StateAt { state: self, number, changes: Some(changes) }
    }

    /// All account versions, for a snapshot.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = (&Address, &Versions<Option<Account>>)> {
        self.accounts.iter()
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = (&(Address, U256), &Versions<U256>)> {
        self.slots.iter()
    }

    pub(crate) fn codes(&self) -> impl Iterator<Item = (&B256, &Bytes)> {
        self.codes.iter()
    }

    /// Allocates the blocks from `oldest` to `newest`. The `restore_*` calls then add their versions.
    pub(crate) fn restore(oldest: u64, newest: u64) -> Self {
        let blocks = newest.saturating_sub(oldest) + 1;
        let touched = (0..blocks).map(|_| TouchedKeys::default()).collect();
        Self { oldest, touched, ..Self::default() }
    }

    pub(crate) fn restore_account(&mut self, address: Address, versions: Versions<Option<Account>>) {
        for (number, _) in &versions {
            if let Some(touched) = touched_by(&mut self.touched, self.oldest, *number) {
                touched.accounts.push(address);
            }
        }
        self.accounts.insert(address, versions);
    }

    pub(crate) fn restore_slot(&mut self, slot: (Address, U256), versions: Versions<U256>) {
        for (number, _) in &versions {
            if let Some(touched) = touched_by(&mut self.touched, self.oldest, *number) {
                touched.slots.push(slot);
            }
        }
        self.slots.insert(slot, versions);
    }

    pub(crate) fn restore_code(&mut self, code: Bytes) {
        self.codes.insert(keccak256(&code), code);
    }
}

/// The state after one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateAt<'a> {
    state: &'a State,
    number: u64,
    changes: Option<&'a StateChanges>,
}

impl StateAt<'_> {
    pub(crate) fn account(&self, address: Address) -> Option<Account> {
        if let Some(changed) = self.changes.and_then(|changes| changes.accounts.get(&address)) {
            return *changed;
        }
        version_at(self.state.accounts.get(&address)?, self.number).flatten()
    }

    pub(crate) fn storage(&self, address: Address, slot: U256) -> U256 {
        if let Some(changed) = self.changes.and_then(|changes| changes.slots.get(&(address, slot))) {
            return *changed;
        }
        let versions = self.state.slots.get(&(address, slot));
        versions.and_then(|versions| version_at(versions, self.number)).unwrap_or_default()
    }

    pub(crate) fn code(&self, address: Address) -> Bytes {
        self.account(address).map(|account| self.code_by_hash(account.code_hash)).unwrap_or_default()
    }

    pub(crate) fn code_by_hash(&self, hash: B256) -> Bytes {
        let changed = self.changes.and_then(|changes| changes.codes.get(&hash));
        changed.or_else(|| self.state.codes.get(&hash)).cloned().unwrap_or_default()
    }
}

/// Stores a version. True if it is the block's first version of the key.
fn put<T>(versions: &mut Versions<T>, number: u64, value: T) -> bool {
    match versions.back_mut() {
        Some((newest, current)) if *newest == number => {
            *current = value;
            false
        }
        _ => {
            versions.push_back((number, value));
            true
        }
    }
}

fn pop_version<K: Eq + std::hash::Hash, T>(all: &mut HashMap<K, Versions<T>>, key: &K) -> Option<T> {
    let versions = all.get_mut(key)?;
    let (_, popped) = versions.pop_back()?;
    if versions.is_empty() {
        all.remove(key);
    }
    Some(popped)
}

fn forget_before<T>(versions: &mut Versions<T>, number: u64) {
    while versions.front().is_some_and(|(made, _)| *made < number) {
        versions.pop_front();
    }
}

fn version_at<T: Copy>(versions: &Versions<T>, number: u64) -> Option<T> {
    // Most reads are of the newest block.
    match versions.back() {
        Some((made, value)) if *made <= number => return Some(*value),
        _ => {}
    }
    let after = versions.partition_point(|(made, _)| *made <= number);
    versions.get(after.checked_sub(1)?).map(|(_, value)| *value)
}

/// The keys that a block changed. `None` for versions before the oldest kept block, which are never undone.
fn touched_by(touched: &mut VecDeque<TouchedKeys>, oldest: u64, number: u64) -> Option<&mut TouchedKeys> {
    touched.get_mut(usize::try_from(number.checked_sub(oldest)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balance(address: Address, wei: u64) -> StateChanges {
        let account = Account { balance: U256::from(wei), ..Account::default() };
        StateChanges { accounts: [(address, Some(account))].into(), ..StateChanges::default() }
    }

    fn read(state: &State, number: u64, address: Address) -> Option<u64> {
        state.at(number).account(address).map(|account| account.balance.to())
    }

    #[test]
    fn block_state_is_kept_until_undone_or_dropped() {
        let (a, b) = (Address::with_last_byte(1), Address::with_last_byte(2));
        let mut state = State::before(0);
        state.push(&balance(a, 10));
        state.push(&balance(b, 20));
        state.push(&balance(a, 30));
        assert_eq!(state.newest(), 2);
        assert_eq!([0, 1, 2].map(|number| read(&state, number, a)), [Some(10), Some(10), Some(30)]);
        assert_eq!([0, 1, 2].map(|number| read(&state, number, b)), [None, Some(20), Some(20)]);

        state.pop();
        assert_eq!(read(&state, 1, a), Some(10));
        state.push(&balance(a, 40));
        state.amend(&balance(a, 41));
        assert_eq!([1, 2].map(|number| read(&state, number, a)), [Some(10), Some(41)]);

        state.forget_oldest();
        assert_eq!([1, 2].map(|number| read(&state, number, a)), [Some(10), Some(41)]);
        state.forget_oldest();
        assert_eq!(read(&state, 2, a), Some(41));
        assert_eq!(state.accounts[&a].len(), 1, "versions that no block reads are dropped");
    }
}
