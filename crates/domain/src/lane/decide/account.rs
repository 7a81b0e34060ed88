//! Reading the account: its nonces and its balance.

use crate::amount::Amount;
use crate::time::Tick;

use crate::lane::Lane;
use crate::lane::draft::Draft;
use crate::lane::effect::{Effect, Step};
use crate::lane::fact::AccountFacts;
use crate::lane::open_slot::OpenSlot;
use crate::lane::slot_work::Sending;

impl Lane {
    pub(in crate::lane) fn plan_account(&mut self, now: Tick, step: &mut Step) {
        // A command needs a cursor, and a new cursor needs the account's nonce.
        let has_work = !self.ledger.slots.is_empty()
            || self.binds_under_way() > 0
            || !self.queue.candidates.is_empty()
            || (self.ledger.cursor.is_none() && !self.ledger.commands.is_empty())
            || self.reconcile_commands().next().is_some();
        if !has_work || self.is_draining() {
            return;
        }
        if self.funds.is_due(now) {
            let planned = self.signer.signed.iter().map(|item| item.cost);
            let signing = self.signer.in_flight.iter().flatten().map(|item| item.attempt.cost);
            let pending = self.commits.draft.iter().flat_map(Draft::costs);
            let open = self
                .ledger
                .slots
                .unmined()
                .iter()
                .filter_map(|nonce| self.ledger.slots.get(*nonce))
                .map(OpenSlot::cost);
            let total = open
                .chain(planned)
                .chain(signing)
                .chain(pending)
                .fold(Amount::ZERO, |sum, cost| Amount::new(sum.get().saturating_add(cost.get())));
            self.funds.begin(total);
            step.effects.push(Effect::ReadAccount);
        } else if let Some(at) = self.funds.next_read() {
            step.wake(at);
        }
    }

    pub(in crate::lane) fn account(&mut self, account: Option<AccountFacts>, now: Tick) {
        let limits = &self.setup.limits;
        let waits_for_funds = !self.ledger.slots.short().is_empty();
        let soon = account.is_none() || waits_for_funds;
        let pause = if soon { limits.pauses.prepare_retry } else { limits.account_interval };
        let before = self.funds.account.map(|account| account.balance);
        self.funds.answer(account, now.saturating_add(pause));
        let Some(account) = account else { return };
        self.retry_unfunded(before, account.balance, now);
        self.queue.retry_postponed();
        match self.ledger.cursor.clone() {
            None if self.has_finality_violation() => {
                self.funds.read_at(now.saturating_add(self.setup.limits.pauses.prepare_retry))
            }
            None => self.begin(account, now),
            Some(cursor) => self.compare(&cursor, account, now),
        }
    }

    /// Sends slots again that nodes refused for lack of funds, as soon as the balance has grown.
    pub(in crate::lane) fn retry_unfunded(&mut self, before: Option<Amount>, balance: Amount, now: Tick) {
        if before.is_some_and(|before| balance <= before) {
            return;
        }
        let short: Vec<_> = self.ledger.slots.short().iter().copied().collect();
        for nonce in short {
            self.ledger.slots.update(nonce, |slot| {
                if matches!(slot.sends.next, Sending::Send { .. } | Sending::Claim { .. }) {
                    slot.sends.next = Sending::Send { at: now };
                }
            });
        }
    }
}
