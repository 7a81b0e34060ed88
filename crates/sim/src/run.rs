//! Runs one world, or many on several threads.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::check::Violation;
use crate::fault::Fault;
use crate::history::{History, Moment};
use crate::outcome::{Figures, Outcome};
use crate::replay::WorldOverrides;
use crate::stage::Stage;
use crate::world::{World, line};
use crate::world_spec::WorldSpec;

/// Runs one world to its end.
pub fn run(plan: &WorldSpec) -> Outcome {
    run_traced(plan, |_| {})
}

/// Runs one world to its end, and calls `tell` with every moment as text.
pub fn run_traced(plan: &WorldSpec, mut tell: impl FnMut(String)) -> Outcome {
    let mut trace = |at: Duration, moment: &Moment| tell(line(at, moment));
    run_watched(plan, &mut trace)
}

fn run_watched(plan: &WorldSpec, trace: &mut dyn FnMut(Duration, &Moment)) -> Outcome {
    match World::new(plan, trace) {
        Ok(world) => world.run(),
        Err(error) => Outcome {
            plan: plan.clone(),
            violation: Some(Violation {
                promise: "defect",
                lane: None,
                what: format!("the database cannot be opened: {error}"),
                at: Duration::ZERO,
            }),
            tail: Vec::new(),
            struck: BTreeMap::new(),
            figures: Figures::default(),
            history: History::new(Stage::default()),
            simulated: Duration::ZERO,
            steps: 0,
        },
    }
}

/// The worlds of a run, and its limits.
#[derive(Clone, Debug)]
pub struct Batch {
    pub seeds: Range<u64>,
    pub threads: usize,
    pub changes: WorldOverrides,
    /// The run stops when so many worlds have failed.
    pub failures_max: usize,
}

/// The sums over many worlds.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub figures: Figures,
    pub struck: BTreeMap<Fault, u64>,
    pub simulated: Duration,
    pub steps: u64,
    /// The failed worlds, ordered by seed.
    pub failures: Vec<Outcome>,
}

/// Runs all worlds, and calls `each` with the outcome of every world.
pub fn run_batch(batch: &Batch, each: impl Fn(&Outcome) + Sync) -> Summary {
    let (next, stop) = (AtomicU64::new(batch.seeds.start), AtomicBool::new(false));
    let summary = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..batch.threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= batch.seeds.end {
                        return;
                    }
                    let outcome = run(&batch.changes.apply(WorldSpec::of(seed)));
                    each(&outcome);
                    let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                    summary.add(outcome);
                    if summary.failures.len() >= batch.failures_max {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.failures.sort_by_key(|outcome| outcome.plan.seed);
    summary
}

impl Summary {
    fn add(&mut self, outcome: Outcome) {
        self.figures.add(&outcome.figures);
        for (fault, count) in &outcome.struck {
            *self.struck.entry(*fault).or_default() += count;
        }
        self.simulated += outcome.simulated;
        self.steps += outcome.steps;
        if outcome.violation.is_some() {
            self.failures.push(outcome);
        }
    }
}
