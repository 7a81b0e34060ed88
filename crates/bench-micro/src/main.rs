//! Benchmarks of single crates, each against the barest code that does the same work, in one run on one machine: ratios
//! are less noisy than absolute figures. `cargo xtask bench store` starts a durable PostgreSQL and runs this program;
//! `cargo xtask bench watcher` needs no server.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a benchmark fails loudly, and owns its clock and its tasks"
)]

mod accepts;
mod backlog;
mod commits;
mod fixture;
mod measure;
mod raw;
mod watcher;

use std::time::Duration;

use fixture::Fixture;
use measure::ResultTable;

/// Keep-alive of idle threads: longer than any benchmark, because an ended thread takes its CPU count with it.
const THREADS_STAY: Duration = Duration::from_secs(24 * 3600);
const STORE_SECONDS: f64 = 2.0;
/// Twice the time after which lanes read their accounts again.
const WATCHER_SECONDS: f64 = 30.0;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut seconds = None;
    let mut json = false;
    let bench = args.next().unwrap_or_else(|| "nothing".to_owned());
    if bench == watcher::CHAIN_ARGUMENT {
        return watcher::serve();
    }
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => json = true,
            "--seconds" => seconds = args.next().and_then(|text| text.parse().ok()),
            other => return usage(other),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_keep_alive(THREADS_STAY)
        .enable_all()
        .build()
        .unwrap();
    let text = match bench.as_str() {
        "store" => {
            let report = runtime.block_on(store(Duration::from_secs_f64(seconds.unwrap_or(STORE_SECONDS))));
            if json { report.to_json() } else { report.to_table() }
        }
        "watcher" => {
            let blocks = seconds.unwrap_or(WATCHER_SECONDS).max(1.0) as usize;
            let table = runtime.block_on(watcher::measure(blocks));
            if json { table.to_json() } else { table.to_table() }
        }
        other => return usage(other),
    };
    println!("{text}");
}

fn usage(what: &str) {
    eprintln!("cannot measure {what}\nusage: gapless-bench-micro store|watcher [--seconds N] [--json]");
    std::process::exit(2);
}

/// Duration of each measurement in each of five alternating rounds; medians are reported.
async fn store(slice: Duration) -> ResultTable {
    let mut report = ResultTable::default();
    let fixture = Fixture::new().await;
    eprintln!("accepts …");
    accepts::measure(&fixture, slice, &mut report).await;
    eprintln!("fenced commits …");
    commits::measure(&fixture, slice, &mut report).await;
    eprintln!("a backlog of {} …", backlog::ROWS);
    backlog::measure(&fixture, &mut report).await;
    report
}
