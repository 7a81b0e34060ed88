//! Benchmarks of the rooms, each against the barest thing that does the same work, in one run on one machine: machines are
//! noisy, ratios less so. `cargo xtask bench store` starts a durable PostgreSQL and runs this.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark fails loudly, and owns its clock and its tasks"
)]

mod accepts;
mod backlog;
mod commits;
mod fixture;
mod measure;
mod raw;

use std::time::Duration;

use fixture::Fixture;
use measure::Report;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut seconds = 2.0;
    let mut json = false;
    let bench = args.next();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => json = true,
            "--seconds" => seconds = args.next().and_then(|text| text.parse().ok()).unwrap_or(seconds),
            other => return usage(other),
        }
    }
    if bench.as_deref() != Some("store") {
        return usage(bench.as_deref().unwrap_or("nothing"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let report = runtime.block_on(store(Duration::from_secs_f64(seconds)));
    if json { println!("{}", report.to_json()) } else { println!("{}", report.to_table()) }
}

fn usage(what: &str) {
    eprintln!("cannot measure {what}\nusage: gapless-bench store [--seconds N] [--json]");
    std::process::exit(2);
}

/// N seconds for each thing in each of five rounds; the rounds take turns, and medians are reported.
async fn store(slice: Duration) -> Report {
    let mut report = Report::default();
    let fixture = Fixture::new().await;
    eprintln!("accepts …");
    accepts::measure(&fixture, slice, &mut report).await;
    eprintln!("fenced commits …");
    commits::measure(&fixture, slice, &mut report).await;
    eprintln!("a backlog of {} …", backlog::ROWS);
    backlog::measure(&fixture, &mut report).await;
    report
}
