//! Two hundred worlds on every run of the tests. `gapless sim --seeds 10000` runs more.

use std::time::Duration;

use gapless_sim::{Batch, Fault, WorldOverrides, WorldSpec, command, run, run_batch, run_traced};

/// Every check of `gapless_sim::check` holds in worlds with crashes, takeovers, lost answers, null receipts, wrong
/// answers to sends and reorgs. A consumer that reads only notices has the confirmations of the chain.
///
/// proves N11, N12, N13, N14, S01, S02, S05, S07, S12, S19, R03, R04, R05
#[test]
fn promises_hold_in_every_world() {
    let batch = Batch { seeds: 0..200, threads: 2, changes: WorldOverrides::default(), failures_max: 1 };
    let summary = run_batch(&batch, |_| {});
    if let Some(failed) = summary.failures.first() {
        let violation = failed.violation.as_ref().unwrap();
        panic!("{violation}\n{}\nreplay: {}", failed.tail.join("\n"), command(&failed.plan));
    }
    assert_eq!(summary.figures.worlds, 200);
    let absent: Vec<_> = Fault::ALL.iter().filter(|fault| !summary.struck.contains_key(fault)).collect();
    assert!(absent.is_empty(), "these faults struck in no world: {absent:?}");
}

/// Retention moves and deletes rows while their lanes work, on both kinds of store, together with all faults.
#[test]
fn promises_hold_with_short_retention() {
    let mut moved_out = 0;
    for seed in 300..330 {
        let mut plan = WorldSpec::of(seed);
        plan.retention = Some(Duration::from_secs(seed % 3));
        let outcome = run(&plan);
        assert_eq!(outcome.violation, None, "seed {seed}\n{}", outcome.tail.join("\n"));
        moved_out += outcome.figures.moved_out;
    }
    assert!(moved_out > 300, "{moved_out}");
}

/// A run depends on its seed alone: every moment is the same in another thread.
#[test]
fn equal_seeds_give_equal_runs() {
    for seed in [3, 14, 15] {
        let traced = move || {
            let mut lines = Vec::new();
            let outcome = run_traced(&WorldSpec::of(seed), |line| lines.push(line));
            (lines, outcome.steps, outcome.struck)
        };
        let here = traced();
        let there = std::thread::scope(|scope| scope.spawn(traced).join().unwrap());
        assert_eq!(here.1, there.1, "seed {seed}: another number of steps");
        let differs = here.0.iter().zip(&there.0).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(here, there);
    }
}

#[test]
fn worlds_without_faults_end_without_a_strike() {
    for seed in 0..20 {
        let mut plan = WorldSpec::of(seed);
        plan.odds.clear();
        let outcome = run(&plan);
        assert_eq!(outcome.violation, None, "seed {seed}");
        assert!(outcome.struck.is_empty());
        assert!(outcome.figures.intents > 0);
    }
}
