//! What the account can pay for.
//!
//! The budget is the balance less the worst case of everything that was unmined when the balance was asked for, less what
//! was planned since. What was mined in between is counted twice until the next look, never not at all (S18).

use crate::amount::Amount;
use crate::time::Tick;

use crate::cursor::Cursor;

use super::Lane;
use super::fact::AccountFacts;
use super::open_slot::Sending;

#[derive(Debug, Default)]
pub(super) struct Purse {
    /// The newest answer.
    pub(super) account: Option<AccountFacts>,
    pub(super) budget: Amount,
    reading: Option<Reading>,
    next_read: Tick,
    /// Something was too dear for the budget.
    pub(super) is_short: bool,
    /// What the first in line may cost, while the account cannot pay for it.
    pub(super) short_of: Option<Amount>,
    /// The last one that wanted something got it.
    pub(super) has_paid: bool,
    /// Nothing was taken out since the newest answer.
    pub(super) is_fresh: bool,
    /// Looks in a row at which the chain was ahead of the ledger.
    pub(super) ahead: u32,
    /// Looks in a row at which the final count was below one that the ledger has.
    pub(super) behind: u32,
}

impl Lane {
    /// The account was read. What nodes have refused for want of funds is tried again as soon as there is more.
    pub(super) fn look_for_funds(&mut self, before: Option<Amount>, balance: Amount, now: Tick) {
        if before.is_some_and(|before| balance <= before) {
            return;
        }
        let short: Vec<_> = self.slots.short().iter().copied().collect();
        for nonce in short {
            self.slots.update(nonce, |slot| {
                if matches!(slot.sending, Sending::Due { .. }) {
                    slot.sending = Sending::Due { at: now, claim: false };
                }
            });
        }
    }

    /// What consumers have to be told of the balance.
    pub(super) fn balance_news(&mut self, cursor: &Cursor) -> Option<(bool, String)> {
        let balance = self.purse.account?.balance;
        if self.line.first().is_none() {
            self.purse.short_of = None;
        }
        let threshold = self.setup.policy.funds.low_balance;
        let short = self.slots.short().first();
        let trouble = match (short, self.purse.short_of) {
            (Some(nonce), _) => Some(format!("nonce {nonce} cannot be paid for: the balance is {balance}")),
            (None, Some(cost)) => {
                let left = self.purse.budget;
                Some(format!("the next intent may cost {cost}: {left} is left of a balance of {balance}"))
            }
            (None, None) if balance < threshold => Some(format!("the balance is {balance}, below {threshold}")),
            (None, None) => None,
        };
        match (cursor.low_balance, trouble) {
            (false, Some(text)) => Some((true, text)),
            // What the first in line may cost is not known before it is prepared.
            (true, None) if self.line.is_known_empty() || self.purse.has_paid => {
                Some((false, format!("the balance is {balance}")))
            }
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Reading {
    open_cost: Amount,
    spent_since: Amount,
}

impl Purse {
    pub(super) fn read_soon(&mut self) {
        self.next_read = Tick::default();
    }

    pub(super) fn read_at(&mut self, at: Tick) {
        self.next_read = at;
    }

    pub(super) fn is_due(&self, now: Tick) -> bool {
        self.reading.is_none() && self.next_read <= now
    }

    /// Sooner than planned.
    pub(super) fn read_by(&mut self, at: Tick) {
        self.next_read = self.next_read.min(at);
    }

    pub(super) fn next_read(&self) -> Option<Tick> {
        self.reading.is_none().then_some(self.next_read)
    }

    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    pub(super) fn begin(&mut self, open_cost: Amount) {
        self.reading = Some(Reading { open_cost, spent_since: Amount::ZERO });
    }

    pub(super) fn answer(&mut self, account: Option<AccountFacts>, next_read: Tick) {
        let Some(Reading { open_cost, spent_since }) = self.reading.take() else { return };
        self.next_read = next_read;
        if let Some(account) = account {
            let left = account.balance.get().saturating_sub(open_cost.get()).saturating_sub(spent_since.get());
            self.budget = Amount::new(left);
            self.account = Some(account);
            self.is_short = false;
            self.is_fresh = spent_since == Amount::ZERO;
        }
    }

    /// Takes a worst case out of the budget, or all that is left of it: nobody asked us whether it is there.
    pub(super) fn owe(&mut self, cost: Amount) {
        self.budget = Amount::new(self.budget.get().saturating_sub(cost.get()));
        self.is_fresh = false;
        if let Some(reading) = &mut self.reading {
            reading.spent_since = Amount::new(reading.spent_since.get().saturating_add(cost.get()));
        }
    }

    /// Takes a worst case out of the budget, if it is there.
    pub(super) fn spend(&mut self, cost: Amount) -> bool {
        if cost > self.budget {
            self.is_short = true;
            self.has_paid = false;
            return false;
        }
        self.short_of = None;
        self.has_paid = true;
        self.owe(cost);
        true
    }
}
