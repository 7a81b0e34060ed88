//! From the request to CONFIRMED, at full load.

use std::time::Duration;

use super::{Bench, micros_each};
use crate::bare::{self, BareFlow};
use crate::driver::{self, Flow, Flowed, STEADY, STEADY_LATE, Sample};
use crate::options::Options;
use crate::order::Orders;
use crate::setup::{BenchSetup, Setting};
use crate::shape::{Course, ShapeName};
use crate::{LoadError, Row};

/// Number of intents that a caller follows to their end, to measure the latency.
const FOLLOWED: u64 = 50;
/// Interval between reads of the newest block, as in the bare sender.
const BLOCK_READS: Duration = Duration::from_millis(5);
const BACKLOG: u64 = 100_000;
const BACKLOG_QUICK: u64 = 2_000;
/// With a backlog the windows fill up before the load is steady, so more intents than usual are sent.
const BACKLOG_TIMES: u64 = 4;
const OPEN: u64 = 20_000;
const OPEN_QUICK: u64 = 1_000;
/// The shape with many open intents: a block per second, and a depth that keeps 20,000 open at 2,000 per second.
const OPEN_BLOCK_TIME: Duration = Duration::from_secs(1);
const OPEN_BLOCK_TIME_QUICK: Duration = Duration::from_millis(100);
const OPEN_CONFIRMATIONS: u32 = 10;
const NODES: u32 = 3;
const NODES_BLOCK_LATENCIES: u32 = 2;
const CONFIRMED: &str = "confirmed";

pub(super) async fn measure(bench: &Bench<'_>, shape: &str, course: Course) -> Result<Row, LoadError> {
    let mut setup = BenchSetup::set(bench, &course.setting).await?;
    let row = run(bench, &mut setup, shape, course, 0).await;
    setup.strike().await?;
    row
}

/// Compares the rate with and without a long queue.
pub(super) async fn backlog(bench: &Bench<'_>) -> Result<Vec<Row>, LoadError> {
    let Some(course) = Course::named(bench.options, ShapeName::Backlog) else { return Ok(Vec::new()) };
    let queued = if bench.options.quick { BACKLOG_QUICK } else { BACKLOG };
    let course = Course { intents: course.intents * BACKLOG_TIMES, ..course };
    let mut none = measure(bench, "no backlog", course).await?;
    bench.say(&format!("backlog: handing in {queued} …"));
    let mut setup = BenchSetup::set(bench, &course.setting).await?;
    let row = with_backlog(bench, &mut setup, course, queued).await;
    setup.strike().await?;
    let mut some = row?;
    compare(&mut none, &mut some, "of no backlog");
    Ok(vec![none, some])
}

async fn with_backlog(
    bench: &Bench<'_>,
    setup: &mut BenchSetup,
    course: Course,
    queued: u64,
) -> Result<Row, LoadError> {
    driver::tell_all(setup, "pause").await?;
    driver::fill(setup, &orders(bench.options, setup, course), queued).await?;
    bench.say("backlog: draining …");
    driver::tell_all(setup, "resume").await?;
    run(bench, setup, &format!("{queued} queued"), course, queued).await
}

/// Compares the rate with many and with few intents that are mined and not final.
pub(super) async fn open(bench: &Bench<'_>) -> Result<Vec<Row>, LoadError> {
    let Some(course) = Course::named(bench.options, ShapeName::Open) else { return Ok(Vec::new()) };
    let quick = bench.options.quick;
    let block_time = if quick { OPEN_BLOCK_TIME_QUICK } else { OPEN_BLOCK_TIME };
    let options = Options { block_time: bench.options.block_time.or(Some(block_time)), ..bench.options.clone() };
    let bench = &bench.with(&options);
    let open = if quick { OPEN_QUICK } else { OPEN };
    let mut few = measure(bench, "few open", course).await?;
    let setting = Setting { confirmations: OPEN_CONFIRMATIONS, ..course.setting };
    let course = Course { setting, open_max: open, behind: open, ..course };
    let mut setup = BenchSetup::set(bench, &course.setting).await?;
    let row = with_open(bench, &mut setup, course, open).await;
    setup.strike().await?;
    let mut many = row?;
    compare(&mut few, &mut many, "of few open");
    Ok(vec![few, many])
}

async fn with_open(bench: &Bench<'_>, setup: &mut BenchSetup, course: Course, open: u64) -> Result<Row, LoadError> {
    let shape = format!("up to {open} open");
    let (chain, interval) = (setup.chain.endpoint.clone(), bench.options.block_time());
    tokio::select! {
        row = run(bench, setup, &shape, course, 0) => row,
        failed = bare::tick(&chain, interval) => Err(failed),
    }
}

/// Compares one node with three, on a chain with slow answers: each node has a limited number of sends in flight
/// (`sender`).
pub(super) async fn nodes(bench: &Bench<'_>) -> Result<Vec<Row>, LoadError> {
    let Some(course) = Course::named(bench.options, ShapeName::Nodes) else { return Ok(Vec::new()) };
    // Blocks are read one after the other, so they come less often than answers.
    let block_time = bench.options.latency * NODES_BLOCK_LATENCIES;
    let options = Options { block_time: bench.options.block_time.or(Some(block_time)), ..bench.options.clone() };
    let bench = &bench.with(&options);
    let room = u64::from(course.setting.submitters) * u64::from(course.setting.window);
    let course = Course { open_max: room * 2, intents: course.intents * 2, ..course };
    let setting = |nodes| Setting { nodes, latency: bench.options.latency, ..course.setting };
    let mut one = measure(bench, "one node", Course { setting: setting(1), ..course }).await?;
    let mut many = measure(bench, &format!("{NODES} nodes"), Course { setting: setting(NODES), ..course }).await?;
    compare(&mut one, &mut many, "of one node");
    Ok(vec![one, many])
}

fn compare(base: &mut Row, other: &mut Row, name: &str) {
    let ratio = other.value(CONFIRMED).zip(base.value(CONFIRMED)).map(|(other, base)| other / base);
    base.plain(name, None, "");
    other.plain(name, ratio, "");
}

/// `queued` intents were sent before and still wait.
async fn run(
    bench: &Bench<'_>,
    setup: &mut BenchSetup,
    shape: &str,
    course: Course,
    queued: u64,
) -> Result<Row, LoadError> {
    let options = bench.options;
    // An intent that is sent behind a backlog does not end in time.
    let followed = if queued == 0 && course.behind == 0 { FOLLOWED } else { 0 };
    let flow = Flow {
        first: queued,
        intents: course.intents,
        callers: options.callers,
        open_max: course.open_max,
        followed,
        behind: course.behind,
        // The null chain makes a block for every batch of sends, and reads of blocks would change the figures.
        block_reads: (followed > 0 && !setup.chain.endpoint.is_null).then_some(BLOCK_READS),
        steady: if queued == 0 { STEADY } else { STEADY_LATE },
    };
    let tell = |done| bench.say(&format!("{shape}: {done} of {} confirmed", course.intents));
    let flowed = driver::flow(setup, orders(options, setup, course), flow, &tell).await?;
    driver::check_confirmed(setup).await?;
    let mut row = bench.row(shape);
    figures(&mut row, setup, &flowed);
    row.plain("confirmed in all", Some(flowed.settled as f64), "");
    if options.compare_bare {
        bench.say(&format!("{shape}: the bare sender …"));
        setup.end_nodes();
        let Setting { submitters, window, .. } = course.setting;
        let flow = BareFlow { submitters, window, intents: course.intents, calldata: course.calldata };
        let bare = bare::run(&setup.chain.endpoint, flow).await?;
        row.plain("bare sender", Some(bare), "/s");
        row.plain("of bare", row.value(CONFIRMED).map(|ours| ours / bare), "");
    }
    Ok(row)
}

/// Figures of the steady middle.
fn figures(row: &mut Row, setup: &BenchSetup, flowed: &Flowed) {
    let (first, last) = &flowed.steady;
    let count = last.counts.settled - first.counts.settled;
    let took = last.at - first.at;
    let cpu =
        |of: &dyn Fn(&Sample) -> Option<Duration>| micros_each(of(last).zip(of(first)).map(|(b, a)| b - a), count);
    let each = |of: &dyn Fn(&Sample) -> Option<f64>| of(last).zip(of(first)).map(|(b, a)| (b - a) / count as f64);
    row.plain(CONFIRMED, Some(count as f64 / took.as_secs_f64()), "/s");
    row.times("accept", flowed.accept);
    row.times("request → CONFIRMED", flowed.confirm);
    if flowed.confirm_from_block.is_some() {
        row.times("block → CONFIRMED", flowed.confirm_from_block);
    }
    row.plain("CPU Gapless", cpu(&|sample| Some(sample.usage.nodes)), "µs each");
    row.plain("CPU database", cpu(&|sample| sample.usage.database), "µs each");
    row.plain("CPU chain", cpu(&|sample| sample.usage.chain), "µs each");
    row.plain("CPU driver", cpu(&|sample| Some(sample.usage.driver)), "µs each");
    row.plain("statements", each(&|sample| sample.counts.statements), "each");
    row.plain("RPC calls", each(&|sample| sample.counts.rpc_calls), "each");
    row.plain("memory at 10 %", Some(first.usage.memory as f64 / 1e6), "MB");
    row.plain("memory at 90 %", Some(last.usage.memory as f64 / 1e6), "MB");
    row.plain("peak memory of a node", setup.peak_memory().map(|bytes| bytes as f64 / 1e6), "MB");
}

fn orders(options: &Options, setup: &BenchSetup, course: Course) -> Orders {
    Orders::new(setup, course.calldata, options.estimate)
}
