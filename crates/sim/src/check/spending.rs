//! Never more is promised than the account has: the worst case of all that is bound and not mined is covered when something is bound.

use std::collections::BTreeMap;

use gapless_domain::{Amount, B256, SlotKind};

use crate::chain::read_signed;
use crate::history::Moment;

use super::{Broken, Check, Picture};

#[derive(Debug, Default)]
pub(super) struct Spending {
    /// What an attempt may cost at the worst.
    costs: BTreeMap<B256, Amount>,
}

impl Check for Spending {
    fn promise(&self) -> &'static str {
        "funds"
    }

    /// The first that is bound for an empty lane counts as well; only what is bound in the same commit, or before and in no block ever,
    /// is added up. The balance is the highest of late, since nobody can know of a loss before it has looked.
    fn see(&mut self, moment: &Moment, picture: &Picture) -> Result<(), Broken> {
        let Moment::Committed { commit, .. } = moment else { return Ok(()) };
        for attempt in commit.attempts() {
            if let Ok(read) = read_signed(&attempt.raw) {
                self.costs.insert(attempt.hash, read.plan.worst_cost());
            }
        }
        let lane = commit.lease().submitter();
        let used = |nonce: u64| picture.blocks.was_used(lane, nonce) || picture.is_seen_mined(lane, nonce);
        let is_bind = |kind: SlotKind| matches!(kind, SlotKind::Intent(_));
        let binds = commit.slots().iter().any(|slot| is_bind(slot.kind) && !used(slot.nonce.get()));
        let (true, Some(book)) = (binds, picture.ledger.lane(lane)) else { return Ok(()) };
        let Some(balance) = picture.highest_balance(lane) else { return Ok(()) };
        let closed_below = book.cursor.as_ref().map_or(0, |cursor| cursor.open_nonce.get());
        // A filler or a cancel is made in any case and waits for funds, and so may be what a caller has signed: only what carries a
        // lane's own payload was weighed. Of several attempts the dearest counts.
        let mut worst: BTreeMap<u64, Amount> = BTreeMap::new();
        for (hash, held) in
            book.attempts.iter().filter(|(_, held)| held.nonce >= closed_below && held.kind.carries_payload())
        {
            let is_ours = book.slots.get(&held.nonce).copied().is_some_and(is_bind);
            if let (true, false, Some(cost)) = (is_ours, used(held.nonce), self.costs.get(hash)) {
                let dearest = worst.entry(held.nonce).or_default();
                *dearest = (*dearest).max(*cost);
            }
        }
        let total = worst.values().fold(Amount::ZERO, |sum, cost| Amount::new(sum.get().saturating_add(cost.get())));
        if total > balance {
            let open: Vec<&u64> = worst.keys().collect();
            let what = format!("nonces {open:?} may cost {total}, and the account had {balance} at the most");
            return Err(Broken::of(lane, what));
        }
        Ok(())
    }
}
