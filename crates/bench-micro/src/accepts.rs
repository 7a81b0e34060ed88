//! Accepts through group commit, against raw inserts of the same rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gapless_domain::{OwnerId, SubmitterId};
use gapless_engine::{Intake, IntakeLimits, TimeOrderedIds};
use gapless_store::{Accepted, NewSubmitter, Store};
use gapless_store_sqlite::{Location, SqliteOptions, SqliteStore};

use crate::fixture::{Fixture, connect, intent};
use crate::measure::{ROUNDS, ResultTable, median, per_second};
use crate::raw;

const CALLERS: [usize; 3] = [1, 64, 256];

pub(crate) async fn measure(fixture: &Fixture, slice: Duration, report: &mut ResultTable) {
    let client = connect(&fixture.url).await;
    let (intake, run) = Intake::new(Arc::clone(&fixture.store) as _, Arc::new(TimeOrderedIds), IntakeLimits::default());
    let driver = tokio::spawn(run.run());
    let mut ours = vec![Vec::new(); CALLERS.len()];
    let (mut raw_small, mut raw_large, mut raw_single) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (callers, rates) in CALLERS.into_iter().zip(&mut ours) {
            rates.push(per_second(slice, |until| accept(&intake, &fixture.lanes, callers, until)).await);
        }
        let lanes = &fixture.lanes;
        raw_small.push(per_second(slice, |until| raw::insert_batches(&client, lanes, 64, until)).await);
        raw_large.push(per_second(slice, |until| raw::insert_batches(&client, lanes, 1000, until)).await);
        raw_single.push(per_second(slice, |until| raw::insert_singly(&client, lanes, until)).await);
    }
    drop(intake);
    driver.await.unwrap();

    let by_round = |a: &[f64], b: &[f64]| median(a.iter().zip(b).map(|(a, b)| a / b).collect());
    report.plain("raw unnest insert of the same rows, batches of 64", median(raw_small.clone()), "rows/s");
    report.plain("raw unnest insert of the same rows, batches of 1,000", median(raw_large.clone()), "rows/s");
    report.ratio(
        "accepts, 64 callers, PostgreSQL",
        median(ours[1].clone()),
        "/s",
        "raw, batches of 64",
        by_round(&ours[1], &raw_small),
        Some("≥ 0.60"),
    );
    report.ratio(
        "accepts, 256 callers, PostgreSQL",
        median(ours[2].clone()),
        "/s",
        "raw, batches of 1,000",
        by_round(&ours[2], &raw_large),
        None,
    );
    report.plain("one plain INSERT at a time", 1e6 / median(raw_single.clone()), "µs");
    report.ratio(
        "one accept at a time, PostgreSQL",
        1e6 / median(ours[0].clone()),
        "µs",
        "one plain INSERT",
        by_round(&raw_single, &ours[0]),
        Some("≤ 1.30"),
    );
    sqlite(&fixture.lanes, slice, report).await;
}

async fn sqlite(lanes: &[SubmitterId], slice: Duration, report: &mut ResultTable) {
    let folder = std::env::temp_dir().join(format!("gapless-bench-{}", uuid::Uuid::new_v4().simple()));
    std::fs::create_dir(&folder).unwrap();
    let file = Location::File(folder.join("bench.db"));
    let owner = OwnerId::new("bench", uuid::Uuid::new_v4().as_u128());
    let store = Arc::new(SqliteStore::open(file, owner, SqliteOptions::default()).unwrap());
    let new: Vec<_> = lanes.iter().map(|id| NewSubmitter { id: id.clone(), alias: None }).collect();
    store.register_submitters(&new).await.unwrap();
    let (intake, run) = Intake::new(store, Arc::new(TimeOrderedIds), IntakeLimits::default());
    let driver = tokio::spawn(run.run());
    let mut rates = vec![Vec::new(); CALLERS.len()];
    for _ in 0..ROUNDS {
        for (callers, rates) in CALLERS.into_iter().zip(&mut rates) {
            rates.push(per_second(slice, |until| accept(&intake, lanes, callers, until)).await);
        }
    }
    drop(intake);
    driver.await.unwrap();
    let single = median(rates[0].clone());
    report.plain("one accept at a time, SQLite", 1e6 / single, "µs");
    for (callers, rates) in CALLERS.into_iter().zip(rates).skip(1) {
        let rate = median(rates);
        report.ratio(format!("accepts, {callers} callers, SQLite"), rate, "/s", "one caller", rate / single, None);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Runs so many callers, each with one intent at a time.
async fn accept(intake: &Intake, lanes: &[SubmitterId], callers: usize, until: Instant) -> u64 {
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (intake, lane) = (intake.clone(), lanes[caller % lanes.len()].clone());
            tokio::spawn(async move {
                let mut accepted = 0;
                while Instant::now() < until {
                    let verdicts = intake.accept(vec![intent(&lane)]).await.unwrap();
                    assert_eq!(verdicts[0].1, Accepted::New);
                    accepted += 1;
                }
                accepted
            })
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await.unwrap();
    }
    sum
}
