//! The cost of idle submitters.

use std::time::{Duration, Instant};

use super::Bench;
use crate::setup::{BenchSetup, Setting};
use crate::{LoadError, Row};

const FEW: u32 = 10;
const MANY: u32 = 10_000;
const MANY_QUICK: u32 = 500;
/// Time after a start until the node has finished its one-time work.
const SETTLE: Duration = Duration::from_secs(3);

struct Idle {
    cpu_ms_each_second: f64,
    memory: u64,
}

pub(super) async fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, LoadError> {
    let many = if bench.options.quick { MANY_QUICK } else { MANY };
    let (a, b) = (idle(bench, FEW).await?, idle(bench, many).await?);
    let mut row = bench.row("idle");
    row.plain(format!("CPU with {FEW} submitters"), Some(a.cpu_ms_each_second), "ms/s");
    row.plain(format!("CPU with {many} submitters"), Some(b.cpu_ms_each_second), "ms/s");
    row.plain(format!("memory with {FEW} submitters"), Some(a.memory as f64 / 1e6), "MB");
    row.plain(format!("memory with {many} submitters"), Some(b.memory as f64 / 1e6), "MB");
    let more = b.memory as f64 - a.memory as f64;
    row.plain("memory a submitter", Some(more / f64::from(many - FEW) / 1024.0), "KiB");
    Ok(vec![row])
}

async fn idle(bench: &Bench<'_>, submitters: u32) -> Result<Idle, LoadError> {
    bench.say(&format!("idle: {submitters} submitters …"));
    let setting = Setting { submitters, window: 256, nodes: 1, confirmations: 1, latency: Duration::ZERO };
    let mut setup = BenchSetup::set(bench, &setting).await?;
    let measured = watch(bench, &mut setup).await;
    setup.strike().await?;
    measured
}

async fn watch(bench: &Bench<'_>, setup: &mut BenchSetup) -> Result<Idle, LoadError> {
    tokio::time::sleep(SETTLE).await;
    let (before, began) = (setup.usage()?, Instant::now());
    // CPU time is counted in hundredths of a second, so this slice is longer than others.
    tokio::time::sleep(bench.options.slice() * 2).await;
    setup.check()?;
    let (after, took) = (setup.usage()?, began.elapsed());
    let cpu = (after.nodes - before.nodes).as_secs_f64();
    Ok(Idle { cpu_ms_each_second: cpu * 1e3 / took.as_secs_f64(), memory: after.memory })
}
