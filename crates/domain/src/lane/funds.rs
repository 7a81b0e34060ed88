//! The account's funds.
//!
//! The budget is the balance, minus the highest cost of everything that was unmined when the balance was requested,
//! minus everything planned since. A transaction that is mined in between is counted twice until the next read, and
//! never forgotten (S18).

use crate::amount::Amount;
use crate::time::Tick;

use super::fact::AccountFacts;

/// Balance and budget of the account.
#[derive(Debug, Default)]
pub(super) struct Funds {
    /// The newest answer.
    pub(super) account: Option<AccountFacts>,
    pub(super) budget: Amount,
    read_in_flight: Option<AccountRead>,
    next_read: Tick,
    /// Cost of the next candidate, while the account cannot pay for it.
    pub(super) unaffordable_cost: Option<Amount>,
    pub(super) last_spend: LastSpend,
    /// The budget was not reduced since the newest answer.
    pub(super) is_fresh: bool,
    /// Number of reads in a row at which the account's nonce was ahead of the ledger.
    pub(super) ahead_reads: u32,
    /// Number of reads in a row at which the account's final nonce was below the ledger's.
    pub(super) behind_reads: u32,
}

/// Result of the last try to pay for a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LastSpend {
    /// No candidate was tried, or none since the account was read.
    #[default]
    Unknown,
    Paid,
    /// The candidate was too dear for the budget, and the account was not read since.
    TooDear,
}

/// A read of the account in flight.
#[derive(Debug)]
struct AccountRead {
    open_cost: Amount,
    spent_since: Amount,
}

impl Funds {
    pub(super) fn read_soon(&mut self) {
        self.next_read = Tick::default();
    }

    pub(super) fn read_at(&mut self, at: Tick) {
        self.next_read = at;
    }

    pub(super) fn is_due(&self, now: Tick) -> bool {
        self.read_in_flight.is_none() && self.next_read <= now
    }

    /// Moves the next read forward.
    pub(super) fn read_by(&mut self, at: Tick) {
        self.next_read = self.next_read.min(at);
    }

    pub(super) fn next_read(&self) -> Option<Tick> {
        self.read_in_flight.is_none().then_some(self.next_read)
    }

    pub(super) fn is_reading(&self) -> bool {
        self.read_in_flight.is_some()
    }

    pub(super) fn begin(&mut self, open_cost: Amount) {
        self.read_in_flight = Some(AccountRead { open_cost, spent_since: Amount::ZERO });
    }

    pub(super) fn answer(&mut self, account: Option<AccountFacts>, next_read: Tick) {
        let Some(AccountRead { open_cost, spent_since }) = self.read_in_flight.take() else { return };
        self.next_read = next_read;
        if let Some(account) = account {
            let left = account.balance.get().saturating_sub(open_cost.get()).saturating_sub(spent_since.get());
            self.budget = Amount::new(left);
            self.account = Some(account);
            if self.last_spend == LastSpend::TooDear {
                self.last_spend = LastSpend::Unknown;
            }
            self.is_fresh = spent_since == Amount::ZERO;
        }
    }

    /// Reduces the budget without a check, down to zero.
    pub(super) fn spend_unchecked(&mut self, cost: Amount) {
        self.budget = Amount::new(self.budget.get().saturating_sub(cost.get()));
        self.is_fresh = false;
        if let Some(read_in_flight) = &mut self.read_in_flight {
            read_in_flight.spent_since = Amount::new(read_in_flight.spent_since.get().saturating_add(cost.get()));
        }
    }

    /// Reduces the budget, if it is large enough.
    pub(super) fn try_spend(&mut self, cost: Amount) -> bool {
        if cost > self.budget {
            self.last_spend = LastSpend::TooDear;
            return false;
        }
        self.unaffordable_cost = None;
        self.last_spend = LastSpend::Paid;
        self.spend_unchecked(cost);
        true
    }
}
