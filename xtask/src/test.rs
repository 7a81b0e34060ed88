//! `cargo xtask test`: all checks, cheapest first, up to the first failure.

use std::env;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use gapless_testbed::Options;

use crate::dist::LEAN;
use crate::process::{cargo, run as run_command, start_postgres, with_server};
use crate::tidy;

/// Store tests wait for the database most of the time, so more tests than cores run at once.
const TEST_THREADS: &str = "8";

/// Crates that the lean build must not contain.
const TOOLS: [&str; 4] = ["revm", "gapless-bench-cluster", "gapless-devchain", "gapless-sim"];

type Step<'a> = (&'a str, &'a dyn Fn() -> Result<()>);

pub(crate) fn run(cargo_test: &[String]) -> Result<ExitCode> {
    let steps: [Step<'_>; 5] = [
        ("formatting", &|| run_command(cargo().args(["fmt", "--all", "--check"]))),
        ("clippy", &|| run_command(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))),
        ("tidy", &|| {
            let findings = tidy::check(false)?;
            ensure!(findings == 0, "{findings} findings");
            Ok(())
        }),
        ("lean", &lean),
        ("tests", &|| tests(cargo_test)),
    ];
    for (number, (name, step)) in steps.iter().enumerate() {
        println!("\n== {}/{} {name}", number + 1, steps.len());
        let (result, seconds) = timed(step);
        if let Err(error) = result {
            eprintln!("\n== FAILED: {name} (after {seconds:.1} s): {error:#}");
            return Ok(ExitCode::FAILURE);
        }
        println!("== {name}: ok ({seconds:.1} s)");
    }
    println!("\n== all passed");
    Ok(ExitCode::SUCCESS)
}

/// The lean build compiles without warnings, starts, and contains no EVM, no simulator and no load generator.
fn lean() -> Result<()> {
    let clippy = ["clippy", "--package", "gapless", "--bins"];
    run_command(cargo().args(clippy).args(LEAN).args(["--", "-D", "warnings"]))?;
    run_command(cargo().args(["run", "--quiet", "--package", "gapless"]).args(LEAN).args(["--", "--help"]))?;
    let tree = ["tree", "--package", "gapless", "--edges", "normal", "--prefix", "none"];
    let output = cargo().args(tree).args(LEAN).output()?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let crates = String::from_utf8_lossy(&output.stdout);
    let tool = crates.lines().find(|line| TOOLS.iter().any(|tool| line.split(' ').next() == Some(tool)));
    ensure!(tool.is_none(), "the lean build depends on {}", tool.unwrap_or_default());
    Ok(())
}

/// Runs all tests against one server. Each test creates its own database.
fn tests(cargo_test: &[String]) -> Result<()> {
    let server = start_postgres(Options::default())?;
    let mut command = cargo();
    command.args(["test", "--workspace"]).args(cargo_test);
    if env::var_os("RUST_TEST_THREADS").is_none() {
        command.env("RUST_TEST_THREADS", TEST_THREADS);
    }
    run_command(with_server(&mut command, &server))
}

#[expect(clippy::disallowed_methods, reason = "shows how long a step took; no decision depends on it")]
fn timed<T>(step: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    (step(), start.elapsed().as_secs_f64())
}
