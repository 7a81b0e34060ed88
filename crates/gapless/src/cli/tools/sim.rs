//! `gapless sim`: runs the simulator. Each seed makes one world full of faults, in which every promise is checked.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use clap::Args;
use gapless_sim::{
    Batch, Fault, Mistake, Outcome, StoreKind, Summary, WorldOverrides, WorldSpec, command, run_batch, run_traced,
    shrink,
};
use serde_json::{Value, json};

use crate::cli::table::columns;
use crate::cli::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Number of worlds
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    seeds: u64,
    /// Seed of the first world
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Run only the world of this seed
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Worlds that run at the same time; by default one per core
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// With --seed: print every step of the world
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Do not search for the smallest world that still fails
    #[arg(long)]
    no_shrink: bool,
    /// Stop after this number of failed worlds
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    failures: usize,
    /// Run with this planted bug
    #[arg(long, value_name = "NAME", value_parser = mistake)]
    mistake: Option<Mistake>,
    #[command(flatten)]
    world: WorldArgs,
}

/// Limits that make a world smaller than its seed says.
#[derive(Debug, Args)]
struct WorldArgs {
    /// Nodes in each world
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=9))]
    nodes: Option<u32>,
    /// Submitters in each world
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=99))]
    lanes: Option<u32>,
    /// RPC endpoints of the chain in each world
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=9))]
    endpoints: Option<u32>,
    /// Requests of all callers in each world
    #[arg(long, value_name = "COUNT")]
    intents: Option<u32>,
    /// Duration of the faults, in simulated seconds
    #[arg(long, value_name = "SECONDS")]
    storm: Option<u64>,
    /// Whether callers cancel transactions and reserve nonces, and operators pause lanes
    #[arg(long, value_name = "BOOL")]
    people: Option<bool>,
    /// Store of each world: model or sqlite
    #[arg(long, value_name = "KIND", value_parser = store)]
    store: Option<StoreKind>,
    /// Keep only these faults of a seed: names separated by commas, or `none`
    #[arg(long, value_name = "FAULTS", value_parser = faults)]
    only: Option<FaultSet>,
}

/// A set of faults as one value of the command line.
#[derive(Clone, Debug)]
struct FaultSet(BTreeSet<Fault>);

fn mistake(name: &str) -> Result<Mistake, String> {
    let names = || Mistake::ALL.iter().map(|mistake| mistake.name()).collect::<Vec<_>>().join(", ");
    Mistake::from_name(name).ok_or_else(|| format!("the known planted bugs are {}", names()))
}

fn store(name: &str) -> Result<StoreKind, String> {
    StoreKind::parse(name).ok_or_else(|| "the known stores are model and sqlite".to_owned())
}

fn faults(names: &str) -> Result<FaultSet, String> {
    let known = || Fault::ALL.iter().map(|fault| fault.as_str()).collect::<Vec<_>>().join(", ");
    let parse = |name| Fault::parse(name).ok_or_else(|| format!("unknown fault {name}; known are {}", known()));
    let names = if names == "none" { "" } else { names };
    names.split(',').filter(|name| !name.is_empty()).map(parse).collect::<Result<_, _>>().map(FaultSet)
}

impl WorldArgs {
    fn changes(self) -> WorldOverrides {
        WorldOverrides {
            nodes: self.nodes,
            lanes: self.lanes,
            endpoints: self.endpoints,
            intents: self.intents,
            storm: self.storm.map(Duration::from_secs),
            people: self.people,
            store: self.store,
            only: self.only.map(|only| only.0),
            mistake: None,
        }
    }
}

impl SimArgs {
    pub(super) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let seeds = match self.seed {
            Some(seed) => seed..seed.saturating_add(1),
            None => self.from..self.from.saturating_add(self.seeds),
        };
        let changes = WorldOverrides { mistake: self.mistake, ..self.world.changes() };
        if self.trace {
            return trace(output, &changes.apply(WorldSpec::of(seeds.start)));
        }
        let cores = || available_parallelism().map_or(1, std::num::NonZero::get);
        let batch =
            Batch { threads: self.threads.unwrap_or_else(cores), failures_max: self.failures.max(1), seeds, changes };
        let (summary, took) = run_with_progress(output, &batch);
        let mut failures = summary.failures.clone();
        if !self.no_shrink {
            failures.iter_mut().for_each(|failed| shrink_one(output, failed));
        }
        let text = format!("{}{}", table(&summary, took), failures.iter().map(failure).collect::<String>());
        output.result(&to_json(&summary, &failures, took), text)?;
        Ok(if failures.is_empty() { Exit::Success } else { Exit::Refused })
    }
}

fn trace(output: &Output, plan: &WorldSpec) -> Result<Exit, CliError> {
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

#[expect(clippy::disallowed_methods, reason = "the elapsed time is only printed; no world reads it")]
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
    output.note(format_args!("seed {} fails; searching for the smallest world that still fails", failed.plan.seed));
    let (smallest, tries) = shrink(failed);
    output.note(format_args!("tried {tries} smaller worlds"));
    *failed = smallest;
}

fn failure(outcome: &Outcome) -> String {
    let Some(violation) = &outcome.violation else { return String::new() };
    let tail: String = outcome.tail.iter().map(|line| format!("  {line}\n")).collect();
    format!(
        "\nseed {} violated  {violation}\n  at {:.3} s, {} nodes, {} lanes, {} intents\n\n{tail}\nreplay: {}\n        \
         (add --trace to print every step)\n",
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
