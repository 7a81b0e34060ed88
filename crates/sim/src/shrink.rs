//! Searches the smallest world that violates the same promise: fewer faults, nodes, lanes and callers, and a shorter
//! storm.

use std::time::Duration;

use crate::outcome::Outcome;
use crate::run::run;
use crate::world_spec::WorldSpec;

/// The number of worlds that are tried, at the most.
const TRIES: u32 = 400;

/// The smallest failing world that was found, and the number of worlds that were tried.
pub fn shrink(failed: &Outcome) -> (Outcome, u32) {
    let mut search = Search { best: failed.clone(), tries: 0 };
    // A removed part may make another part unnecessary, so rounds repeat.
    while search.tries < TRIES && search.round() {}
    (search.best, search.tries)
}

struct Search {
    best: Outcome,
    tries: u32,
}

impl Search {
    /// True if this round made the world smaller.
    fn round(&mut self) -> bool {
        let mut smaller = false;
        for fault in self.best.plan.odds.keys().copied().collect::<Vec<_>>() {
            smaller |= self.attempt(|plan| plan.odds.retain(|other, _| *other != fault));
        }
        smaller |= self.attempt(|plan| plan.people = false);
        smaller |= self.less(|plan| &mut plan.nodes);
        smaller |= self.less(|plan| &mut plan.lanes);
        smaller |= self.less(|plan| &mut plan.endpoints);
        smaller |= self.less(|plan| &mut plan.intents);
        // A storm that ends just after the violation is long enough.
        if let Some(at) = self.best.violation.as_ref().map(|violation| violation.at) {
            let storm = Duration::from_secs(at.as_secs() + 1);
            smaller |= self.attempt(|plan| plan.storm = plan.storm.min(storm));
        }
        for parts in [2, 3, 4] {
            smaller |= self
                .attempt(|plan| plan.storm = Duration::from_secs((plan.storm * (parts - 1) / parts).as_secs().max(1)));
        }
        smaller
    }

    /// Halves a number as long as the world still fails, then decrements it.
    fn less(&mut self, part: impl Fn(&mut WorldSpec) -> &mut u32) -> bool {
        let mut smaller = false;
        loop {
            let halved = self.attempt(|plan| *part(plan) = (*part(plan) / 2).max(1));
            if !halved && !self.attempt(|plan| *part(plan) = (*part(plan) - 1).max(1)) {
                return smaller;
            }
            smaller = true;
        }
    }

    fn attempt(&mut self, change: impl FnOnce(&mut WorldSpec)) -> bool {
        let mut plan = self.best.plan.clone();
        change(&mut plan);
        if plan == self.best.plan || self.tries >= TRIES {
            return false;
        }
        self.tries += 1;
        let outcome = run(&plan);
        let promise = |outcome: &Outcome| outcome.violation.as_ref().map(|violation| violation.promise);
        let same = promise(&outcome) == promise(&self.best);
        if same {
            self.best = outcome;
        }
        same
    }
}
