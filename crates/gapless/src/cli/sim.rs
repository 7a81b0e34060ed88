//! `gapless sim`: seeded worlds in which everything goes wrong, and whether the promises hold.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use clap::Args;
use gapless_domain::mistakes::Mistake;
use gapless_sim::{
    Batch, Changes, Fault, Outcome, Plan, StoreKind, Summary, can_make_mistakes, command, make, run_batch, run_traced,
    shrink,
};
use serde_json::{Value, json};

use super::table::columns;
use super::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// How many worlds
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    seeds: u64,
    /// The seed of the first one
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Only this one
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Worlds at once; without it, as many as there are cores
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// With --seed: print everything that happens
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Do not look for the smallest world that still fails
    #[arg(long)]
    no_shrink: bool,
    /// Stop after so many failures
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    failures: usize,
    /// Make a known mistake on purpose (only in builds with the feature `mistakes`)
    #[arg(long, value_name = "NAME", value_parser = mistake)]
    mistake: Option<Mistake>,
    #[command(flatten)]
    world: WorldArgs,
}

/// What worlds have less of than their seeds give them.
#[derive(Debug, Args)]
struct WorldArgs {
    /// Nodes in each world
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=9))]
    nodes: Option<u32>,
    /// Submitters in each world
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=99))]
    lanes: Option<u32>,
    /// RPC endpoints of the chain
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=9))]
    endpoints: Option<u32>,
    /// Requests of all callers together
    #[arg(long, value_name = "COUNT")]
    intents: Option<u32>,
    /// How long things go wrong, in the world's seconds
    #[arg(long, value_name = "SECONDS")]
    storm: Option<u64>,
    /// Whether callers cancel and borrow nonces, and operators pause lanes
    #[arg(long, value_name = "BOOL")]
    people: Option<bool>,
    /// model or sqlite
    #[arg(long, value_name = "KIND", value_parser = store)]
    store: Option<StoreKind>,
    /// Only these faults, of those that a seed has: names with commas between them, or none
    #[arg(long, value_name = "FAULTS", value_parser = faults)]
    only: Option<Faults>,
}

/// A set, as one value of the command line.
#[derive(Clone, Debug)]
struct Faults(BTreeSet<Fault>);

fn mistake(name: &str) -> Result<Mistake, String> {
    let names = || Mistake::ALL.iter().map(|mistake| mistake.name()).collect::<Vec<_>>().join(", ");
    Mistake::from_name(name).ok_or_else(|| format!("known ones: {}", names()))
}

fn store(name: &str) -> Result<StoreKind, String> {
    StoreKind::parse(name).ok_or_else(|| "model or sqlite".to_owned())
}

fn faults(names: &str) -> Result<Faults, String> {
    let known = || Fault::ALL.iter().map(|fault| fault.as_str()).collect::<Vec<_>>().join(", ");
    let parse = |name| Fault::parse(name).ok_or_else(|| format!("no fault {name}; known ones: {}", known()));
    let names = if names == "none" { "" } else { names };
    names.split(',').filter(|name| !name.is_empty()).map(parse).collect::<Result<_, _>>().map(Faults)
}

impl WorldArgs {
    fn changes(self) -> Changes {
        Changes {
            nodes: self.nodes,
            lanes: self.lanes,
            endpoints: self.endpoints,
            intents: self.intents,
            storm: self.storm.map(Duration::from_secs),
            people: self.people,
            store: self.store,
            only: self.only.map(|only| only.0),
        }
    }
}

impl SimArgs {
    pub(super) fn run(self, output: &Output) -> Result<Exit, CliError> {
        if self.mistake.is_some() && !can_make_mistakes() {
            return Err(CliError::NoMistakes);
        }
        let (seeds, mistake) = match self.seed {
            Some(seed) => (seed..seed.saturating_add(1), self.mistake),
            None => (self.from..self.from.saturating_add(self.seeds), self.mistake),
        };
        let changes = self.world.changes();
        if self.trace {
            return trace(output, &changes.apply(Plan::of(seeds.start)), mistake);
        }
        let cores = || available_parallelism().map_or(1, std::num::NonZero::get);
        let batch = Batch {
            threads: self.threads.unwrap_or_else(cores),
            failures_max: self.failures.max(1),
            seeds,
            changes,
            mistake,
        };
        let (summary, took) = run_with_progress(output, &batch);
        let mut failures = summary.failures.clone();
        if !self.no_shrink {
            make(mistake);
            failures.iter_mut().for_each(|failed| shrink_one(output, failed));
        }
        let text = format!("{}{}", table(&summary, took), failures.iter().map(failure).collect::<String>());
        output.result(&to_json(&summary, &failures, took), text)?;
        Ok(if failures.is_empty() { Exit::Success } else { Exit::Refused })
    }
}

fn trace(output: &Output, plan: &Plan, mistake: Option<Mistake>) -> Result<Exit, CliError> {
    make(mistake);
    let mut lines = Vec::new();
    let outcome = run_traced(plan, |line| lines.push(line));
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    match &outcome.violation {
        Some(violation) => text.push_str(&format!("\nviolated  {violation}\n")),
        None => text.push_str("\nall promises held\n"),
    }
    output.result(&json!({ "seed": plan.seed, "trace": lines, "failure": failed_json(&outcome) }), text)?;
    Ok(if outcome.violation.is_none() { Exit::Success } else { Exit::Refused })
}

#[expect(clippy::disallowed_methods, reason = "how long it took is for people; no world sees it")]
fn run_with_progress(output: &Output, batch: &Batch) -> (Summary, Duration) {
    let started = Instant::now();
    let (count, done) = (batch.seeds.end - batch.seeds.start, AtomicU64::new(0));
    let each = |_: &Outcome| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if count >= 1000 && done.is_multiple_of(count / 20) {
            output.note(format_args!("{done} of {count} worlds, {:.0} s", started.elapsed().as_secs_f64()));
        }
    };
    let summary = run_batch(batch, each);
    (summary, started.elapsed())
}

fn shrink_one(output: &Output, failed: &mut Outcome) {
    output.note(format_args!("seed {} fails; looking for the smallest world that still does", failed.plan.seed));
    let (smallest, tries) = shrink(failed);
    output.note(format_args!("tried {tries}"));
    *failed = smallest;
}

fn failure(outcome: &Outcome) -> String {
    let Some(violation) = &outcome.violation else { return String::new() };
    let tail: String = outcome.tail.iter().map(|line| format!("  {line}\n")).collect();
    format!(
        "\nseed {} violated  {violation}\n  at {:.3} s, {} nodes, {} lanes, {} intents\n\n{tail}\nreplay: {}\n        (--trace shows everything)\n",
        outcome.plan.seed,
        violation.at.as_secs_f64(),
        outcome.plan.nodes,
        outcome.plan.lanes,
        outcome.plan.intents,
        command(&outcome.plan),
    )
}

fn table(summary: &Summary, took: Duration) -> String {
    let figures = &summary.figures;
    let row = |name: &str, value: String| [name.to_owned(), value];
    let mut rows = vec![
        row("worlds", figures.worlds.to_string()),
        row("simulated", format!("{:.1} h", summary.simulated.as_secs_f64() / 3600.0)),
        row("took", format!("{:.1} s", took.as_secs_f64())),
        row("steps", summary.steps.to_string()),
        row("processes", figures.processes.to_string()),
        row("intents", figures.intents.to_string()),
        row("commits", figures.commits.to_string()),
        row("fenced", figures.fenced.to_string()),
        row("takeovers", figures.takeovers.to_string()),
        row("sends", figures.sends.to_string()),
        row("blocks", figures.blocks.to_string()),
        row("orphaned", figures.orphaned.to_string()),
        row("violations", summary.failures.len().to_string()),
        row("", String::new()),
    ];
    let count = |fault: &Fault| summary.struck.get(fault).copied().unwrap_or(0).to_string();
    rows.extend(Fault::ALL.iter().map(|fault| row(fault.as_str(), count(fault))));
    columns(&rows)
}

fn to_json(summary: &Summary, failures: &[Outcome], took: Duration) -> Value {
    let figures = &summary.figures;
    let count = |fault: &Fault| summary.struck.get(fault).copied().unwrap_or(0);
    let faults: serde_json::Map<_, _> =
        Fault::ALL.iter().map(|fault| (fault.as_str().to_owned(), json!(count(fault)))).collect();
    json!({
        "worlds": figures.worlds,
        "simulatedSeconds": summary.simulated.as_secs(),
        "tookMs": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "steps": summary.steps,
        "processes": figures.processes,
        "intents": figures.intents,
        "commits": figures.commits,
        "fenced": figures.fenced,
        "takeovers": figures.takeovers,
        "sends": figures.sends,
        "blocks": figures.blocks,
        "orphaned": figures.orphaned,
        "faults": faults,
        "failures": failures.iter().map(failed_json).collect::<Vec<_>>(),
    })
}

fn failed_json(outcome: &Outcome) -> Value {
    let Some(violation) = &outcome.violation else { return Value::Null };
    json!({
        "seed": outcome.plan.seed,
        "promise": violation.promise,
        "what": violation.what,
        "lane": violation.lane.as_ref().map(ToString::to_string),
        "replay": command(&outcome.plan),
        "lastSteps": outcome.tail,
    })
}
