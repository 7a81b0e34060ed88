//! Funds: when a nonce is bound, the balance covers the highest cost of all nonces that are bound and not mined.

use std::collections::BTreeMap;

use gapless_domain::{Amount, B256, SlotKind};

use crate::chain::{read_signed, rules};
use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct Spending {
    /// The highest cost of each attempt.
    costs: BTreeMap<B256, Amount>,
}

impl Check for Spending {
    fn promise(&self) -> &'static str {
        "funds"
    }

    /// Also applies to the first nonce of an empty lane. The sum has the nonces of this commit, and older ones that
    /// were never in a block. The balance is the highest recent one, because a node cannot know of a loss before it
    /// reads the balance.
    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        let Moment::Committed { commit, .. } = moment else { return Ok(()) };
        for attempt in commit.attempts() {
            if let Ok(read) = read_signed(&attempt.raw) {
                self.costs.insert(attempt.hash, read.plan.worst_cost(rules()));
            }
        }
        let lane = commit.lease().submitter();
        let used = |nonce: u64| view.blocks.was_used(lane, nonce) || view.is_seen_mined(lane, nonce);
        let is_bind = |kind: SlotKind| matches!(kind, SlotKind::Intent(_));
        let binds = commit.slots().iter().any(|slot| is_bind(slot.kind) && !used(slot.nonce.get()));
        let (true, Some(lane_ledger)) = (binds, view.ledger.lane(lane)) else { return Ok(()) };
        let Some(balance) = view.highest_balance(lane) else { return Ok(()) };
        let closed_below = lane_ledger.cursor.as_ref().map_or(0, |cursor| cursor.open_nonce.get());
        // Fillers, cancels and transactions that a caller signed are made in any case and wait for funds. Only attempts
        // with a lane's own payload are checked against the balance. Of several attempts the dearest counts.
        let mut worst: BTreeMap<u64, Amount> = BTreeMap::new();
        for (hash, held) in
            lane_ledger.attempts.iter().filter(|(_, held)| held.nonce >= closed_below && held.kind.carries_payload())
        {
            let is_ours = lane_ledger.slots.get(&held.nonce).copied().is_some_and(is_bind);
            if let (true, false, Some(cost)) = (is_ours, used(held.nonce), self.costs.get(hash)) {
                let dearest = worst.entry(held.nonce).or_default();
                *dearest = (*dearest).max(*cost);
            }
        }
        let total = worst.values().fold(Amount::ZERO, |sum, cost| Amount::new(sum.get().saturating_add(cost.get())));
        if total > balance {
            let open: Vec<&u64> = worst.keys().collect();
            let what = format!("nonces {open:?} may cost {total}, but the account had at most {balance}");
            return Err(CheckFailure::of(lane, what));
        }
        Ok(())
    }
}
