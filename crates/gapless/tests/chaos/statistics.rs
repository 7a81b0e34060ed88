//! The statistics of a run.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct RunStatistics {
    counts: Mutex<BTreeMap<&'static str, usize>>,
    /// The times from the fault of an owner until another node owned its lane.
    takeovers: Mutex<Vec<Duration>>,
}

/// The statistics that are known only at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunTotals {
    pub(crate) intents: usize,
    /// Transactions of the submitters in canonical blocks.
    pub(crate) effects: usize,
    pub(crate) violations: usize,
    /// The time with faults.
    pub(crate) faulted: Duration,
    /// The time until the last intent was final.
    pub(crate) settled: Duration,
}

impl RunStatistics {
    pub(crate) fn count(&self, name: &'static str) {
        self.add(name, 1);
    }

    pub(crate) fn add(&self, name: &'static str, number: usize) {
        *self.counts.lock().unwrap().entry(name).or_default() += number;
    }

    pub(crate) fn takeover(&self, took: Duration) {
        self.takeovers.lock().unwrap().push(took);
    }

    /// The value of a counter.
    pub(crate) fn of(&self, name: &'static str) -> usize {
        self.counts.lock().unwrap().get(name).copied().unwrap_or_default()
    }

    pub(crate) fn print(&self, total: RunTotals) {
        let counts = self.counts.lock().unwrap();
        for (name, count) in counts.iter() {
            println!("chaos: {count:>6} × {name}");
        }
        let mut takeovers = self.takeovers.lock().unwrap().clone();
        takeovers.sort();
        if let Some(longest) = takeovers.last() {
            let quantile = |percent: usize| takeovers[(takeovers.len() - 1) * percent / 100];
            let (half, most) = (quantile(50), quantile(99));
            println!("chaos: {:>6} × takeover: p50 {half:.1?}, p99 {most:.1?}, longest {longest:.1?}", takeovers.len());
        }
        let RunTotals { intents, effects, violations, .. } = total;
        let (faulted, settled) = (total.faulted.as_secs_f64(), total.settled.as_secs_f64());
        println!(
            "chaos: {intents} intents in {faulted:.0} s of faults ({:.0} per second), the last of them final {:.0} s \
             later; {effects} effects on chain; {violations} violations",
            intents as f64 / faulted,
            settled - faulted
        );
    }
}
