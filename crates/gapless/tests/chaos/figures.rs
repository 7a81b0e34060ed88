//! What is counted while it goes on, and told when it is over.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Figures {
    counts: Mutex<BTreeMap<&'static str, usize>>,
    /// From what went wrong with an owner until another had its lane.
    takeovers: Mutex<Vec<Duration>>,
}

/// What is only known in the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Total {
    pub(crate) intents: usize,
    /// Transactions of the submitters in canonical blocks.
    pub(crate) effects: usize,
    pub(crate) violations: usize,
    /// While faults went on.
    pub(crate) troubled: Duration,
    /// Until the last intent was final.
    pub(crate) settled: Duration,
}

impl Figures {
    pub(crate) fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&self, what: &'static str, many: usize) {
        *self.counts.lock().unwrap().entry(what).or_default() += many;
    }

    pub(crate) fn takeover(&self, took: Duration) {
        self.takeovers.lock().unwrap().push(took);
    }

    /// How often something was counted.
    pub(crate) fn of(&self, what: &'static str) -> usize {
        self.counts.lock().unwrap().get(what).copied().unwrap_or_default()
    }

    pub(crate) fn print(&self, total: Total) {
        let counts = self.counts.lock().unwrap();
        for (what, count) in counts.iter() {
            println!("chaos: {count:>6} × {what}");
        }
        let mut takeovers = self.takeovers.lock().unwrap().clone();
        takeovers.sort();
        if let Some(longest) = takeovers.last() {
            let quantile = |percent: usize| takeovers[(takeovers.len() - 1) * percent / 100];
            let (half, most) = (quantile(50), quantile(99));
            println!("chaos: {:>6} × takeover: p50 {half:.1?}, p99 {most:.1?}, longest {longest:.1?}", takeovers.len());
        }
        let Total { intents, effects, violations, .. } = total;
        let (troubled, settled) = (total.troubled.as_secs_f64(), total.settled.as_secs_f64());
        println!(
            "chaos: {intents} intents in {troubled:.0} s of trouble ({:.0} a second), the last of them final {:.0} s later; \
             {effects} effects on chain; {violations} violations",
            intents as f64 / troubled,
            settled - troubled
        );
    }
}
