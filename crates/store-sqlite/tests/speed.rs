//! Measures the speed of the store on the disk of this machine:
//! `cargo test --release -p gapless-store-sqlite --test speed -- --ignored --nocapture`

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail like the test itself")]

mod support;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use gapless_domain::OwnerId;
use gapless_store::{CommitVerdict, IntentIntake};
use gapless_store_sqlite::{Location, SqliteStore};
use support::{Folder, intent, open, options, register, write_lane};

const SPAN: Duration = Duration::from_secs(3);

#[expect(clippy::disallowed_methods, reason = "a measurement needs a clock")]
async fn rate(what: &str, mut step: impl AsyncFnMut(u64) -> u64) {
    let start = Instant::now();
    let (mut rounds, mut items) = (0, 0);
    while start.elapsed() < SPAN {
        items += step(rounds).await;
        rounds += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let line = format!("{what}: {:.0} commits/s, {:.0} items/s\n", rounds as f64 / seconds, items as f64 / seconds);
    io::stdout().write_all(line.as_bytes()).unwrap();
}

async fn measure(place: &str, store: &SqliteStore) {
    register(store).await;
    for batch in [1, 100, 1000] {
        rate(&format!("{place}, accept of {batch}"), async |round| {
            let intents: Vec<_> = (0..batch).map(|n| intent(&format!("{batch} {round} {n}"))).collect();
            store.accept(&intents).await.unwrap();
            batch
        })
        .await;
    }
    rate(&format!("{place}, lane commit (with acquire, load, acquire: 3 writes)"), async |_| {
        assert_eq!(write_lane(store).await, CommitVerdict::Done);
        1
    })
    .await;
}

#[tokio::test]
#[ignore = "a measurement, not a test"]
async fn commits_per_second() {
    let folder = Folder::new();
    measure("file", &open(&folder.database())).await;
    measure("memory", &SqliteStore::open(Location::Memory, OwnerId::new("test", 1), options()).unwrap()).await;
}
