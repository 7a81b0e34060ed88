//! The result of a world, and the sums over many worlds.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_store::RetentionKind;

use crate::check::Violation;
use crate::fault::Fault;
use crate::history::{History, Moment};
use crate::world_spec::WorldSpec;

#[derive(Clone, Debug)]
pub struct Outcome {
    pub plan: WorldSpec,
    pub violation: Option<Violation>,
    /// The last steps before the violation, as text.
    pub tail: Vec<String>,
    pub struck: BTreeMap<Fault, u64>,
    pub figures: Figures,
    pub history: History,
    /// The simulated time at the end.
    pub simulated: Duration,
    pub steps: u64,
}

impl Outcome {
    /// Every moment of the world, in order.
    pub fn moments(&self) -> Vec<Moment> {
        self.history.since(0).into_iter().map(|(_, moment)| moment).collect()
    }

    pub fn saw(&self, is_it: impl FnMut(&Moment) -> bool) -> bool {
        self.moments().iter().any(is_it)
    }
}

/// Counts of what happened in one world, or in many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub worlds: u64,
    pub intents: u64,
    pub commits: u64,
    /// Commits that the fence refused (P5).
    pub fenced: u64,
    pub takeovers: u64,
    pub sends: u64,
    pub blocks: u64,
    pub orphaned: u64,
    pub processes: u64,
    /// Intents that retention moved out.
    pub moved_out: u64,
}

impl Figures {
    pub(crate) fn of(history: &History) -> Figures {
        let mut figures = Figures { worlds: 1, ..Figures::default() };
        let mut owners = BTreeMap::new();
        for (_, moment) in history.since(0) {
            match moment {
                Moment::Accepted { .. } => figures.intents += 1,
                Moment::Committed { .. } => figures.commits += 1,
                Moment::NotCommitted { verdict: gapless_store::CommitVerdict::Fenced, .. } => figures.fenced += 1,
                Moment::Leased { lease } => {
                    let before = owners.insert(lease.submitter().clone(), lease.owner().clone());
                    figures.takeovers += u64::from(before.is_some_and(|owner| owner != *lease.owner()));
                }
                Moment::Sent { .. } => figures.sends += 1,
                Moment::Mined { .. } => figures.blocks += 1,
                Moment::Orphaned { .. } => figures.orphaned += 1,
                Moment::Started { .. } => figures.processes += 1,
                Moment::Retained { kind: RetentionKind::Intents, count } => figures.moved_out += u64::from(count),
                _ => {}
            }
        }
        figures
    }

    pub fn add(&mut self, other: &Figures) {
        let Figures { worlds, intents, commits, fenced, takeovers, sends, blocks, orphaned, processes, moved_out } =
            other;
        self.worlds += worlds;
        self.intents += intents;
        self.commits += commits;
        self.fenced += fenced;
        self.takeovers += takeovers;
        self.sends += sends;
        self.blocks += blocks;
        self.orphaned += orphaned;
        self.processes += processes;
        self.moved_out += moved_out;
    }
}
