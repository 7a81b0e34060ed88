//! Low balance: an event when the account becomes short of funds, and when it is no longer.

use crate::ledger::CommitError;

use crate::lane::Lane;
use crate::lane::draft::Draft;
use crate::lane::funds::LastSpend;

impl Lane {
    pub(in crate::lane) fn write_balance(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        let Some(was_low) = draft.base().map(|cursor| cursor.low_balance) else { return Ok(()) };
        match self.balance_change(was_low) {
            Some((low, text)) => draft.set_low_balance(low, &text),
            None => Ok(()),
        }
    }

    /// New value of the low-balance flag with its text, if it changes.
    fn balance_change(&mut self, was_low: bool) -> Option<(bool, String)> {
        let balance = self.funds.account?.balance;
        if self.queue.first().is_none() {
            self.funds.unaffordable_cost = None;
        }
        let unit = self.setup.rules.words().amount;
        let threshold = self.setup.policy.funds.low_balance;
        let short = self.ledger.slots.short().first();
        let problem = match (short, self.funds.unaffordable_cost) {
            (Some(nonce), _) => {
                Some(format!("the account cannot pay for nonce {nonce}: the balance is {balance} {unit}"))
            }
            (None, Some(cost)) => {
                let left = self.funds.budget;
                Some(format!("the next intent may cost {cost} {unit}; {left} of {balance} {unit} are left"))
            }
            (None, None) if balance < threshold => {
                Some(format!("the balance is {balance} {unit}, below {threshold} {unit}"))
            }
            (None, None) => None,
        };
        match (was_low, problem) {
            (false, Some(text)) => Some((true, text)),
            // The cost of the next candidate is unknown until it is prepared.
            (true, None) if self.queue.is_known_empty() || self.funds.last_spend == LastSpend::Paid => {
                Some((false, format!("the balance is {balance} {unit}")))
            }
            _ => None,
        }
    }
}
