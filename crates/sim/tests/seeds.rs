//! Some hundred worlds, on every run of the tests; `gapless sim --seeds 10000` runs more.

use gapless_sim::{Batch, WorldOverrides, WorldSpec, command, run, run_batch, run_traced};

/// Among them: a consumer that only reads notices has the list of the chain, under random forks and whatever was left out.
/// proves R03, R04
#[test]
fn promises_hold_in_every_world() {
    let batch = Batch { seeds: 0..200, threads: 2, changes: WorldOverrides::default(), failures_max: 1, mistake: None };
    let summary = run_batch(&batch, |_| {});
    if let Some(failed) = summary.failures.first() {
        let violation = failed.violation.as_ref().unwrap();
        panic!("{violation}\n{}\nreplay: {}", failed.tail.join("\n"), command(&failed.plan));
    }
    assert_eq!(summary.figures.worlds, 200);
}

/// One seed, one run: every moment of it, also in another thread.
#[test]
fn one_seed_is_one_run() {
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

/// A world without faults is a quiet one: everything that is accepted ends, quickly.
#[test]
fn without_faults_nothing_strikes() {
    for seed in 0..20 {
        let mut plan = WorldSpec::of(seed);
        plan.odds.clear();
        let outcome = run(&plan);
        assert_eq!(outcome.violation, None, "seed {seed}");
        assert!(outcome.struck.is_empty());
        assert!(outcome.figures.intents > 0);
    }
}
