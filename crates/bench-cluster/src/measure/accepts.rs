//! Accepts alone: the lanes are paused.

use std::time::{Duration, Instant};

use gapless_domain::SubmitterId;
use tokio_postgres::Client;

use super::{Bench, micros_each};
use crate::driver::{accept_for, tell_all};
use crate::order::Orders;
use crate::percentiles::Percentiles;
use crate::setup::{BenchSetup, Setting, counts};
use crate::{LoadError, Row, raw};

const SETTING: Setting = Setting { submitters: 50, window: 256, nodes: 1, confirmations: 1, latency: Duration::ZERO };
/// Rounds; Gapless and raw rows alternate.
const ROUNDS: u32 = 3;
const WARM_UP: Duration = Duration::from_millis(500);
/// Batch sizes of the raw rows: the size that a group commit of so many callers with two writers gives, and the longest
/// that Gapless uses. The better result counts.
const RAW_BATCH: usize = 1000;

pub(super) async fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, LoadError> {
    let setup = BenchSetup::set(bench, &SETTING).await?;
    let row = accept(bench, &setup).await;
    setup.strike().await?;
    Ok(vec![row?])
}

async fn accept(bench: &Bench<'_>, setup: &BenchSetup) -> Result<Row, LoadError> {
    let options = bench.options;
    tell_all(setup, "pause").await?;
    let twin = setup.twin_database(bench).await?;
    let writers = match &twin {
        Some(twin) => Some((twin.connect().await?, twin.connect().await?)),
        None => None,
    };
    let mut watched = setup.connect_each().await?;
    let slice = options.slice() / ROUNDS;
    let mut first = 0;
    let orders = || Orders::new(setup, options.calldata, options.estimate);
    let warm = accept_for(setup, orders(), first, options.callers, WARM_UP).await?.1;
    first += warm.len() as u64 + u64::from(options.callers);
    let (mut times, mut took, mut raw_rates) = (Vec::new(), Duration::ZERO, Vec::new());
    let (mut nodes, mut driver, mut database, mut statements) =
        (Duration::ZERO, Duration::ZERO, Some(Duration::ZERO), Some(0.0));
    for _ in 0..ROUNDS {
        let (usage, count) = (setup.usage()?, counts(&mut watched).await?);
        let (time, accepted) = accept_for(setup, orders(), first, options.callers, slice).await?;
        let (used, counted) = (setup.usage()?, counts(&mut watched).await?);
        first += accepted.len() as u64 + u64::from(options.callers);
        took += time;
        times.extend(accepted);
        nodes += used.nodes - usage.nodes;
        driver += used.driver - usage.driver;
        database = database.zip(used.database).zip(usage.database).map(|((sum, after), before)| sum + (after - before));
        statements =
            statements.zip(counted.statements).zip(count.statements).map(|((sum, after), before)| sum + after - before);
        if let Some(writers) = &writers {
            raw_rates.push(raw_rate(setup, writers, options.callers, slice).await?);
        }
    }
    if let Some(twin) = twin {
        twin.remove().await?;
    }
    let count = times.len() as u64;
    let rate = count as f64 / took.as_secs_f64();
    raw_rates.sort_by(f64::total_cmp);
    let raw_rate = raw_rates.get(raw_rates.len() / 2).copied();
    let mut row = bench.row("accepts");
    row.plain("accepts", Some(rate), "/s");
    row.plain("raw group commit of the same rows", raw_rate, "/s");
    row.plain("of raw", raw_rate.map(|raw| rate / raw), "");
    row.times("accept", Percentiles::of(&times));
    row.plain("CPU Gapless", micros_each(Some(nodes), count), "µs each");
    row.plain("CPU database", micros_each(database, count), "µs each");
    row.plain("CPU driver", micros_each(Some(driver), count), "µs each");
    row.plain("statements", statements.map(|sum| sum / count as f64), "each");
    row.plain("peak memory", setup.peak_memory().map(|bytes| bytes as f64 / 1e6), "MB");
    Ok(row)
}

async fn raw_rate(
    setup: &BenchSetup,
    writers: &(Client, Client),
    callers: u32,
    slice: Duration,
) -> Result<f64, LoadError> {
    let ids: Result<Vec<SubmitterId>, _> =
        setup.accounts.iter().map(|account| setup.submitter(account).parse()).collect();
    let (ids, half) = (ids?, (callers as usize / 2).max(1));
    let began = Instant::now();
    let until = began + slice / 2;
    let group = tokio::try_join!(
        raw::insert_batches(&writers.0, &ids, half, until),
        raw::insert_batches(&writers.1, &ids, half, until)
    )?;
    let grouped = (group.0 + group.1) as f64 / began.elapsed().as_secs_f64();
    let began = Instant::now();
    let long = raw::insert_batches(&writers.0, &ids, RAW_BATCH, began + slice / 2).await?;
    Ok(grouped.max(long as f64 / began.elapsed().as_secs_f64()))
}
