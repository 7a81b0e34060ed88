//! What is counted while it goes on, and told when it is over.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::callers::LaneAccepted;

#[derive(Debug, Default)]
pub(crate) struct Figures {
    counts: Mutex<BTreeMap<&'static str, u32>>,
    /// From what went wrong with an owner until another had its lane.
    takeovers: Mutex<Vec<Duration>>,
}

impl Figures {
    pub(crate) fn count(&self, what: &'static str) {
        *self.counts.lock().unwrap().entry(what).or_default() += 1;
    }

    pub(crate) fn takeover(&self, took: Duration) {
        self.takeovers.lock().unwrap().push(took);
    }

    pub(crate) fn print(&self, accepted: &[LaneAccepted], troubled: Duration, settled: Duration) {
        let counts = self.counts.lock().unwrap();
        let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} × {what}")).collect();
        println!("chaos: {}", counts.join(", "));
        let mut takeovers = self.takeovers.lock().unwrap().clone();
        takeovers.sort();
        if let Some(longest) = takeovers.last() {
            let quantile = |percent: usize| takeovers[(takeovers.len() - 1) * percent / 100];
            let (half, most) = (quantile(50), quantile(99));
            println!("chaos: {} takeovers: p50 {half:.1?}, p99 {most:.1?}, longest {longest:.1?}", takeovers.len());
        }
        let intents: usize = accepted.iter().map(|lane| lane.accepted.len()).sum();
        let (troubled, settled) = (troubled.as_secs_f64(), settled.as_secs_f64());
        println!(
            "chaos: {intents} intents in {troubled:.0} s of trouble ({:.0} a second), the last of them final {:.0} s later",
            intents as f64 / troubled,
            settled - troubled
        );
    }
}
